"""Token losses -> scalar, as a weighted sum whose weights are made once for a whole optimiser step.

Every aggregation is `sum_b row_weights[b] * sum_t where * loss`. Make `row_weights` from the mask
of the whole step, slice it along with the rows into micro-batches and shards, and the parts add up.
"""

from jaxgrpo.aggregation._prompt import prompt_mean
from jaxgrpo.aggregation._registry import AGGREGATIONS
from jaxgrpo.aggregation._row_weights import row_weights
from jaxgrpo.aggregation._sequence import (
    sequence_mean_constant,
    sequence_mean_token_mean,
    sequence_mean_token_sum,
)
from jaxgrpo.aggregation._token import token_mean, token_sum

__all__ = [
    "AGGREGATIONS",
    "prompt_mean",
    "row_weights",
    "sequence_mean_constant",
    "sequence_mean_token_mean",
    "sequence_mean_token_sum",
    "token_mean",
    "token_sum",
]
