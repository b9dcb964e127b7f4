"""What all aggregations are: a weighted sum of the rows' token sums."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.aggregation._row_weights import WEIGHTS
from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_sum


def weighted_sum(
    name: str,
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    group_ids: Int[Array, "B"] | None,
    row_weights: Float[Array, "B"] | None,
    **options: object,
) -> Float[Array, ""]:
    """sum_b row_weights[b] * sum_t where * loss; weights that are not given are made here."""
    checks.per_token(token_losses=token_losses, where=where)
    checks.shape((None, None), token_losses=token_losses)
    sums = masked_sum(token_losses, where, axis=-1)  # [B, T] -> [B]
    if row_weights is None:
        mask = jnp.ones(sums.shape + token_losses.shape[-1:], bool) if where is None else where
        row_weights = WEIGHTS[name](mask, group_ids, sums.dtype, **options)
    checks.floating(row_weights=row_weights)
    checks.shape(tuple(sums.shape), row_weights=row_weights)
    return jnp.sum(sums * jax.lax.stop_gradient(row_weights).astype(sums.dtype))
