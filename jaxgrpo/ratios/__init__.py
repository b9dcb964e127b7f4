"""Log-ratios of two policies by token or sequence, and detached weights made from them.

`WEIGHTS` multiply a token loss after its own clip, before aggregation; a weight of 0 drops a token.
Whether the denominator still counts it is said by `counted_tokens`: by default it does.
"""

from jaxgrpo.ratios._log_ratios import (
    sequence_mean_log_ratios,
    sequence_sum_log_ratios,
    token_log_ratios,
)
from jaxgrpo.ratios._normalisation import (
    counted_tokens,
    effective_sample_size,
    mean_normalised_weights,
)
from jaxgrpo.ratios._prefix import prefix_mask
from jaxgrpo.ratios._registry import RATIOS, WEIGHTS
from jaxgrpo.ratios._rejection import (
    off_policy_sequence_mask,
    rejection_mask,
    second_moment_mask,
    vaco_mask,
)
from jaxgrpo.ratios._sequence_weights import (
    geometric_mask,
    sequence_masked_weights,
    sequence_truncated_weights,
)
from jaxgrpo.ratios._weights import masked_weights, truncated_weights

__all__ = [
    "RATIOS",
    "WEIGHTS",
    "counted_tokens",
    "effective_sample_size",
    "geometric_mask",
    "masked_weights",
    "mean_normalised_weights",
    "off_policy_sequence_mask",
    "prefix_mask",
    "rejection_mask",
    "second_moment_mask",
    "sequence_masked_weights",
    "sequence_mean_log_ratios",
    "sequence_sum_log_ratios",
    "sequence_truncated_weights",
    "token_log_ratios",
    "truncated_weights",
    "vaco_mask",
]
