"""What is done with weights afterwards: a mean of 1, the denominator, how many are effective."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_count, masked_mean, masked_sum, zero_where_masked


def mean_normalised_weights(
    weights: Float[Array, "*B T"], *, where: Bool[Array, "*B T"] | None = None
) -> Float[Array, "*B T"]:
    """Weights over their mean, which is taken over all tokens of the optimiser step.

    Args:
      weights: [*B, T]. From any function of `WEIGHTS`, for all rows of the step.
      where: [*B, T] bool. Trainable tokens; elsewhere the result is 0.

    Returns:
      [*B, T], in the dtype of the input, without gradient; the weights themselves if all are 0.

    Raises:
      TypeError: `weights` is not floating point, or `where` is not bool.
      ValueError: the shapes differ.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.mean_normalised_weights(jnp.array([0.5, 1.5, 4.0]))
      Array([0.25, 0.75, 2.  ], dtype=float32)
    """
    checks.per_token(weights=weights, where=where)
    weights = zero_where_masked(jax.lax.stop_gradient(weights), where)
    mean = masked_mean(weights, where)
    return weights / jnp.where(mean > 0, mean, 1).astype(weights.dtype)


def counted_tokens(
    weights: Float[Array, "*B T"],
    where: Bool[Array, "*B T"],
    *,
    dropped: Literal["keep", "leave_out"] = "keep",
) -> Bool[Array, "*B T"]:
    """The mask that a denominator counts, once weights have dropped tokens.

    Make `aggregation.row_weights` from it. With "keep", dropped tokens count as tokens of loss 0,
    so that a step with many of them is a small step: AReaL, slime, M2PO, TRL. With "leave_out" the
    step is a mean over the tokens that remain: verl's rejection.

    Args:
      weights: [*B, T]. From any function of `WEIGHTS`; 0 says dropped.
      where: [*B, T] bool. Trainable tokens.
      dropped: "keep" dropped tokens in the count, or "leave_out".

    Returns:
      [*B, T] bool.

    Raises:
      TypeError: `weights` is not floating point, or `where` is not bool.
      ValueError: the shapes differ, or `dropped` is neither.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> weights, where = jnp.array([0.0, 1.0, 0.0]), jnp.array([True, True, False])
      >>> jg.ratios.counted_tokens(weights, where, dropped="leave_out")
      Array([False,  True, False], dtype=bool)
    """
    checks.per_token(weights=weights, where=where)
    if dropped not in ("keep", "leave_out"):
        raise ValueError(f"dropped must be 'keep' or 'leave_out', got {dropped!r}")
    return jnp.asarray(where) if dropped == "keep" else where & (weights != 0)


def effective_sample_size(
    weights: Float[Array, "*B T"], *, where: Bool[Array, "*B T"] | None = None
) -> Float[Array, ""]:
    """(sum w)^2 / (n sum w^2): the share of tokens that the weights leave effective, in [0, 1].

    Args:
      weights: [*B, T]. Non-negative.
      where: [*B, T] bool. Tokens that count.

    Returns:
      A scalar in float32 at least, without gradient; 0 without tokens or weight.

    Raises:
      TypeError: `weights` is not floating point, or `where` is not bool.
      ValueError: the shapes differ.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> print(jg.ratios.effective_sample_size(jnp.array([1.0, 1.0, 0.0, 0.0])))
      0.5
    """
    checks.per_token(weights=weights, where=where)
    weights = zero_where_masked(jax.lax.stop_gradient(weights), where)
    total, squares = masked_sum(weights, where), masked_sum(weights * weights, where)
    count = masked_count(jnp.ones(weights.shape, bool) if where is None else where)
    share = total * total / jnp.where(squares > 0, squares, 1)
    return share / jnp.maximum(count, 1).astype(total.dtype)
