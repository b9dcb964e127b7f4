"""Reductions over the rows that share a group id, in an order that does not change between runs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

_BLOCK = 1024  # rows compared with all others at a time, which bounds the memory


def over_group(
    reduce: Callable[..., Array],
    values: Shaped[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    where: Bool[Array, "B"] | None = None,
    initial: float,
) -> Shaped[Array, "B"]:
    """For each row, a reduction (`jnp.sum`, `jnp.min`, `jnp.max`) of the values of its whole group.

    Groups are found by id, at any position. Rows outside `where` count as `initial`, which is also
    what a group without rows inside it gets.

    Example:
      >>> import jax.numpy as jnp
      >>> over_group(jnp.sum, jnp.array([1, 2, 3]), jnp.array([7, -1, 7]), initial=0)
      Array([4, 2, 4], dtype=int32)
    """
    # All pairs and not a scatter: scattered sums are added in an order that a GPU does not repeat,
    # and a resumed run must.
    values = jnp.asarray(values)
    masked = values if where is None else jnp.where(where, values, _as(initial, values))

    def of_group(group_id: Array) -> Array:
        return reduce(jnp.where(group_ids == group_id, masked, _as(initial, values)))

    rows = values.shape[0]
    if rows <= _BLOCK:
        return jax.vmap(of_group)(group_ids)
    return jax.lax.map(of_group, group_ids, batch_size=_BLOCK)


def sum_over_group(values: Float[Array, "B T"], group_ids: Int[Array, "B"]) -> Float[Array, "B T"]:
    """For each row, the sum of its group's rows, position by position; no value may be nan or inf.

    Example:
      >>> import jax.numpy as jnp
      >>> sum_over_group(jnp.array([[1.0], [2.0], [3.0]]), jnp.array([7, -1, 7]))[:, 0]
      Array([4., 2., 4.], dtype=float32)
    """
    # A product with the pairs: also without a scatter, and [B, B] is all the memory it takes.
    same = (group_ids[:, None] == group_ids[None, :]).astype(values.dtype)
    return jnp.matmul(same, values, precision=jax.lax.Precision.HIGHEST)


def _as(number: float, values: Array) -> Array:
    return jnp.asarray(number, values.dtype)
