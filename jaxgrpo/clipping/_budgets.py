"""From a budget for a whole sequence to bounds for its tokens."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_count, masked_sum, zero_where_masked


def token_interval(low: float, high: float, length: int) -> tuple[float, float]:
    """The ratio interval of each token that keeps the product over a sequence in an interval.

    The bounds are the length's roots. For thousands of tokens they are vacuously tight, which is
    why GSPO bounds the geometric mean instead.

    Args:
      low: Least ratio of the sequence, more than 0 and at most 1.
      high: Largest ratio of the sequence, at least 1.
      length: Tokens of the sequence.

    Returns:
      (low, high) for a token, as Python floats.

    Raises:
      ValueError: a number is out of range.

    Example:
      >>> import jaxgrpo as jg
      >>> low, high = jg.clipping.token_interval(0.5, 2.0, 100)
      >>> f"{low:.5f} {high:.5f}"
      '0.99309 1.00696'

    Source:
      Inferred from arXiv:2202.00082, where the factors are agents.
    """
    checks.static_number(above=0, low=low)
    checks.static_number(minimum=1, high=high, length=length)
    if low > 1:
        raise ValueError(f"low must be at most 1, got {low}")
    return math.exp(math.log(low) / length), math.exp(math.log(high) / length)


def token_budgets(
    total: float,
    *,
    where: Bool[Array, "*B T"],
    entropies: Float[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """A sequence's KL budget shared out over its tokens, evenly or by their entropy.

    By the chain rule the KL of a whole sequence is the expected sum of its tokens' KLs, so budgets
    that add up to the total keep to it. Compare a divergence with them to make a keep-mask.

    Args:
      total: Budget of each sequence, in nats.
      where: [*B, T] bool. Tokens of the sequence.
      entropies: [*B, T], nats, not negative: uncertain tokens get more. None for equal shares. No
        gradient.

    Returns:
      [*B, T], nats, in float32 or the dtype of the entropies; 0 outside `where`. Equal shares for a
      sequence whose entropies are all 0.

    Raises:
      TypeError: `where` is not bool, or the entropies are not floating point.
      ValueError: the shapes differ, or `total` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([True, True, True, False])
      >>> jg.clipping.token_budgets(0.6, where=where, entropies=jnp.array([1.0, 0.0, 2.0, 5.0]))
      Array([0.2, 0. , 0.4, 0. ], dtype=float32)

    Source:
      Inferred from arXiv:2102.10616, whose joint policy is of agents.
    """
    checks.static_number(minimum=0, total=total)
    checks.boolean(where=where)
    shares = jnp.ones(where.shape, jnp.float32) if entropies is None else entropies
    checks.per_token(entropies=shares, where=where)
    shares = zero_where_masked(jax.lax.stop_gradient(shares), where)
    whole = masked_sum(shares, where, -1)[..., None]
    tokens = jnp.maximum(masked_count(where, -1), 1).astype(whole.dtype)[..., None]
    even = jnp.broadcast_to(total / tokens, where.shape)
    given = total * shares / jnp.where(whole > 0, whole, 1)
    return zero_where_masked(jnp.where(whole > 0, given, even).astype(shares.dtype), where)
