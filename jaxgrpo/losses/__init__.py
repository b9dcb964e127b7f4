"""Policy losses per token, to be minimised and not reduced, and penalties to be added to them.

One file a family of losses. `LOSSES`, `PENALTIES` and `ROW_PENALTIES` hold them by name; a loss or
a penalty of your own is any function of the same signature, named in a config as `module:function`.
"""

from jaxgrpo.losses._adaptive import adrpo
from jaxgrpo.losses._asymmetric import aspo, luffy, up_grpo
from jaxgrpo.losses._bapo import bapo
from jaxgrpo.losses._covariance import clip_cov, kl_cov
from jaxgrpo.losses._dppo import dppo_kl, dppo_tv
from jaxgrpo.losses._dppo_top import dppo_topk_kl, dppo_topk_tv
from jaxgrpo.losses._entropy_ratio import erc
from jaxgrpo.losses._future import fipo
from jaxgrpo.losses._groups import dagrpo, real
from jaxgrpo.losses._penalties import k1, k2, k3, reverse_kl
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.losses._reinforce import gpg, reinforce
from jaxgrpo.losses._row_penalties import exact_forward_kl, exact_reverse_kl
from jaxgrpo.losses._rpg import rpg
from jaxgrpo.losses._score_penalties import absolute, k1_score, k3_score
from jaxgrpo.losses._sequence import gmpo, gspo, gspo_token, luspo
from jaxgrpo.losses._sequence_budget import sequence_budget
from jaxgrpo.losses._soft import ce_gppo, cfpo, gppo, sapo
from jaxgrpo.losses._squared import dro, gvpo
from jaxgrpo.losses._trust_region import atr, trust_region
from jaxgrpo.losses._weighted import cispo, minirl, topr, vespo

__all__ = [
    "LOSSES",
    "PENALTIES",
    "ROW_PENALTIES",
    "absolute",
    "adrpo",
    "aspo",
    "atr",
    "bapo",
    "ce_gppo",
    "cfpo",
    "cispo",
    "clip_cov",
    "dagrpo",
    "dppo_kl",
    "dppo_topk_kl",
    "dppo_topk_tv",
    "dppo_tv",
    "dro",
    "erc",
    "exact_forward_kl",
    "exact_reverse_kl",
    "fipo",
    "gmpo",
    "gpg",
    "gppo",
    "gspo",
    "gspo_token",
    "gvpo",
    "k1",
    "k1_score",
    "k2",
    "k3",
    "k3_score",
    "kl_cov",
    "luffy",
    "luspo",
    "minirl",
    "ppo_clip",
    "real",
    "reinforce",
    "reverse_kl",
    "rpg",
    "sapo",
    "sequence_budget",
    "topr",
    "trust_region",
    "up_grpo",
    "vespo",
]
