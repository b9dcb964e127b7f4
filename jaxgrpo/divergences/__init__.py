"""D(P || Q) per token, estimated on tokens that P sampled; P comes first.

One function serves a trust region and a penalty, by the order of its arguments:
`kl3(anchor_log_probs, log_probs)` is the region of ATR-GRPO, `kl3(log_probs,
reference_log_probs)` the reference penalty of GRPO.
"""

from jaxgrpo.divergences._binary import binary_kl, binary_tv
from jaxgrpo.divergences._estimators import kl1, kl2, kl3
from jaxgrpo.divergences._ratio import chi2, hellinger, tv
from jaxgrpo.divergences._registry import DIVERGENCES

__all__ = [
    "DIVERGENCES",
    "binary_kl",
    "binary_tv",
    "chi2",
    "hellinger",
    "kl1",
    "kl2",
    "kl3",
    "tv",
]
