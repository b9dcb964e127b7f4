"""What the functions of whole rows share: checked inputs, and a sum in float32 at least."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked


def row_inputs(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    where: Bool[Array, "*B T"] | None,
) -> tuple[Float[Array, "*B T V"], Float[Array, "*B T V"]]:
    """The checked rows, 0 at tokens outside `where`."""
    checks.per_token(sampler_rows=sampler_rows, other_rows=other_rows)
    return masked_rows(sampler_rows, where), masked_rows(other_rows, where)


def masked_rows(
    rows: Float[Array, "*B T V"], where: Bool[Array, "*B T"] | None
) -> Float[Array, "*B T V"]:
    """Rows with 0 in every entry of the tokens outside `where`."""
    if rows.ndim < 2:
        raise ValueError(f"rows must have shape [*B, T, V], got {list(rows.shape)}")
    if where is None:
        return jnp.asarray(rows)
    checks.boolean(where=where)
    checks.shape(tuple(rows.shape[:-1]), where=where)
    return zero_where_masked(rows, jnp.broadcast_to(where[..., None], rows.shape))


def summed(
    terms: Float[Array, "*B T V"], where: Bool[Array, "*B T"] | None
) -> Float[Array, "*B T"]:
    """The sum over entries, in the dtype of the terms; 0 outside `where`."""
    total = jnp.sum(terms, axis=-1, dtype=jnp.promote_types(terms.dtype, jnp.float32))
    return zero_where_masked(total.astype(terms.dtype), where)
