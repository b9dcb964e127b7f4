"""Policy losses per token, to be minimised and not reduced, and penalties to be added to them.

One file a family of losses. `LOSSES` and `PENALTIES` hold them by name; a loss of your own is any
function of the same signature, named in a config as `module:function`.
"""

from jaxgrpo.losses._penalties import k1, k2, k3, reverse_kl
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES, PENALTIES
from jaxgrpo.losses._reinforce import reinforce
from jaxgrpo.losses._trust_region import atr, trust_region

__all__ = [
    "LOSSES",
    "PENALTIES",
    "atr",
    "k1",
    "k2",
    "k3",
    "ppo_clip",
    "reinforce",
    "reverse_kl",
    "trust_region",
]
