"""From a feasibility test to the tokens that keep their gradient, and back to ratio intervals."""

from jaxgrpo.clipping._budgets import token_budgets, token_interval
from jaxgrpo.clipping._intervals import INTERVALS, ratio_interval
from jaxgrpo.clipping._keep import keep_mask
from jaxgrpo.clipping._token_masks import top_entropy_mask, without_truncated

__all__ = [
    "INTERVALS",
    "keep_mask",
    "ratio_interval",
    "token_budgets",
    "token_interval",
    "top_entropy_mask",
    "without_truncated",
]
