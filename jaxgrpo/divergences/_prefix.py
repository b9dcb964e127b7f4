"""The divergence of a token's prefix, which bounds how far the states themselves have moved."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked


def prefix_cumulative(
    divergences: Float[Array, "*B T"], *, where: Bool[Array, "*B T"] | None = None
) -> Float[Array, "*B T"]:
    """Running sum of a divergence over each sequence's tokens so far, the token itself included.

    Of KLs it is the KL of the two distributions over prefixes, in expectation, by the chain rule;
    of total variations an upper bound on theirs. The last token's is the total of the sequence.

    Args:
      divergences: [*B, T]. One a token, from any function of this room.
      where: [*B, T] bool. Tokens that count; elsewhere the result is 0.

    Returns:
      [*B, T], in the dtype and unit of the input; summed in float32 at least.

    Raises:
      TypeError: `divergences` is not floating point, or `where` is not bool.
      ValueError: the shapes differ.

    Note:
      The gradient for each token is that of all later sums.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([True, False, True])
      >>> jg.divergences.prefix_cumulative(jnp.array([1.0, 2.0, 4.0]), where=where)
      Array([1., 0., 5.], dtype=float32)

    Source:
      arXiv:2602.04879, lemma A.1; after the visitation divergences of arXiv:2003.04108.
    """
    checks.per_token(divergences=divergences, where=where)
    kept = zero_where_masked(divergences, where)
    total = jnp.cumsum(kept, axis=-1, dtype=jnp.promote_types(kept.dtype, jnp.float32))
    return zero_where_masked(total.astype(kept.dtype), where)
