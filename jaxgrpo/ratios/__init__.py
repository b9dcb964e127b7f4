"""Log-ratios of two policies by token or sequence, and detached weights made from them."""

from jaxgrpo.ratios._log_ratios import (
    sequence_mean_log_ratios,
    sequence_sum_log_ratios,
    token_log_ratios,
)
from jaxgrpo.ratios._registry import RATIOS, WEIGHTS
from jaxgrpo.ratios._weights import masked_weights, truncated_weights

__all__ = [
    "RATIOS",
    "WEIGHTS",
    "masked_weights",
    "sequence_mean_log_ratios",
    "sequence_sum_log_ratios",
    "token_log_ratios",
    "truncated_weights",
]
