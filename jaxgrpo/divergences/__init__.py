"""D(P || Q) per token; P comes first, and is who sampled.

From the sampled token alone (kl1 ... binary_tv), from the K likeliest tokens (topk_kl, topk_tv), or
from the whole vocabulary (full_kl ... renyi). One function serves a trust region and a penalty, by
the order of its arguments: `kl3(anchor_log_probs, log_probs)` is the region of ATR-GRPO,
`kl3(log_probs, reference_log_probs)` the reference penalty of GRPO.
"""

from jaxgrpo.divergences._binary import binary_kl, binary_tv
from jaxgrpo.divergences._entropy import entropy, entropy_ratio, renyi
from jaxgrpo.divergences._estimators import kl1, kl2, kl3
from jaxgrpo.divergences._prefix import prefix_cumulative
from jaxgrpo.divergences._ratio import chi2, hellinger, tv
from jaxgrpo.divergences._registry import DIVERGENCES, ROW_DIVERGENCES, TOP_DIVERGENCES
from jaxgrpo.divergences._rows import full_chi2, full_hellinger, full_js, full_kl, full_tv
from jaxgrpo.divergences._top import topk_kl, topk_tv

__all__ = [
    "DIVERGENCES",
    "ROW_DIVERGENCES",
    "TOP_DIVERGENCES",
    "binary_kl",
    "binary_tv",
    "chi2",
    "entropy",
    "entropy_ratio",
    "full_chi2",
    "full_hellinger",
    "full_js",
    "full_kl",
    "full_tv",
    "hellinger",
    "kl1",
    "kl2",
    "kl3",
    "prefix_cumulative",
    "renyi",
    "topk_kl",
    "topk_tv",
    "tv",
]
