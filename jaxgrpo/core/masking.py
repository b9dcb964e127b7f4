"""Masks that select and never multiply, and reductions under them."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.core import checks

Axis = int | tuple[int, ...] | None


def zero_where_masked(
    x: Float[Array, "..."], where: Bool[Array, "..."] | None
) -> Float[Array, "..."]:
    """The input with 0 outside `where`; the gradient there is 0 whatever the input holds.

    To protect a function that overflows, wrap its input and not only its output: a masked output
    has the right value, but 0 * inf makes its gradient nan.

    Example:
      >>> import jax.numpy as jnp
      >>> zero_where_masked(jnp.array([1.0, jnp.nan]), jnp.array([True, False]))
      Array([1., 0.], dtype=float32)
    """
    x = jnp.asarray(x)
    return x if where is None else jnp.where(where, x, jnp.zeros((), x.dtype))


def masked_count(where: Bool[Array, "..."], axis: Axis = None) -> Int[Array, "..."]:
    """Number of True entries, int32."""
    return jnp.sum(where, axis=axis, dtype=jnp.int32)


def masked_sum(
    x: Float[Array, "..."], where: Bool[Array, "..."] | None, axis: Axis = None
) -> Float[Array, "..."]:
    """Sum of the entries inside `where`, accumulated and returned in float32 at least."""
    kept = zero_where_masked(x, where)
    return jnp.sum(kept, axis=axis, dtype=jnp.promote_types(kept.dtype, jnp.float32))


def masked_mean(
    x: Float[Array, "..."], where: Bool[Array, "..."] | None, axis: Axis = None
) -> Float[Array, "..."]:
    """Mean of the entries inside `where`, in float32 at least; 0 with gradient 0 if there are none.

    Example:
      >>> import jax.numpy as jnp
      >>> x = jnp.array([[1.0, 3.0], [5.0, 7.0]])
      >>> masked_mean(x, jnp.array([[True, True], [False, False]]), -1)
      Array([2., 0.], dtype=float32)
    """
    total = masked_sum(x, where, axis)
    count = masked_count(jnp.ones(jnp.shape(x), bool) if where is None else where, axis)
    return total / jnp.maximum(count, 1).astype(total.dtype)


def spread_over_tokens(
    x: Float[Array, "*B"] | Float[Array, "*B T"], like: Float[Array, "*B T"]
) -> Float[Array, "*B T"]:
    """Advantages, one a sequence or one a token, as one a token.

    The number of axes decides, never their sizes, so B == T is not ambiguous.

    Raises:
      TypeError: not floating, or of another dtype than the array it is spread like.
      ValueError: the shape is neither [*B] nor [*B, T].
    """
    checks.floating(advantages=x)
    if x.shape not in (like.shape, like.shape[:-1]):
        raise ValueError(
            f"advantages must have shape {list(like.shape[:-1])} or {list(like.shape)}, "
            f"got {list(x.shape)}"
        )
    x = jnp.asarray(x)
    if x.dtype != like.dtype:
        raise TypeError(f"dtypes must be equal, got advantages {x.dtype}, log_probs {like.dtype}")
    return x if x.ndim == like.ndim else jnp.broadcast_to(x[..., None], like.shape)
