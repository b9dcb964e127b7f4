"""Which tokens are trained at all: not those of truncated rows, or only the uncertain ones."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_count


def without_truncated(where: Bool[Array, "B T"], truncated: Bool[Array, "B"]) -> Bool[Array, "B T"]:
    """Trainable tokens without the rows that were cut off at the longest length.

    Overlong filtering. Make the denominator from the result, so that it counts what is trained;
    rewards of truncated rows may stay in their group's baseline.

    Args:
      where: [B, T] bool. Trainable tokens.
      truncated: [B] bool. Rows that did not stop by themselves; told by the sampler, never by the
        last token.

    Returns:
      [B, T] bool.

    Raises:
      TypeError: an input is not bool.
      ValueError: the shapes do not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.clipping.without_truncated(jnp.ones((2, 2), bool), jnp.array([True, False]))
      Array([[False, False],
             [ True,  True]], dtype=bool)

    Source:
      arXiv:2503.14476, section 3.4.
    """
    checks.boolean(where=where, truncated=truncated)
    checks.shape((None, None), where=where)
    checks.shape(where.shape[:1], truncated=truncated)
    return where & ~truncated[:, None]


def top_entropy_mask(
    entropies: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    fraction: float = 0.2,
) -> Bool[Array, "*B T"]:
    """The tokens of highest entropy: a fraction of all trainable tokens of the optimiser step.

    The threshold belongs to the whole batch: per row or per shard it is another mask. The mask
    gates gradients; dropped tokens usually stay in the denominator.

    Args:
      entropies: [*B, T], nats. Of the policy's distribution at each token; no gradient.
      where: [*B, T] bool. Trainable tokens; padding is in no quantile.
      fraction: Share of them that is kept, in [0, 1]; at least one token, if it is not 0.

    Returns:
      [*B, T] bool. Tokens as uncertain as the last one kept are kept too.

    Raises:
      TypeError: `entropies` is not floating point, or `where` is not bool.
      ValueError: the shapes differ, or `fraction` is not in [0, 1].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.clipping.top_entropy_mask(jnp.array([0.1, 2.0, 0.3, 0.2]), fraction=0.5)
      Array([False,  True,  True, False], dtype=bool)

    Source:
      arXiv:2506.01939.
    """
    checks.per_token(entropies=entropies, where=where)
    checks.static_number(minimum=0, fraction=fraction)
    if fraction > 1:
        raise ValueError(f"fraction must be at most 1, got {fraction}")
    trainable = jnp.ones(entropies.shape, bool) if where is None else where
    entropies = jax.lax.stop_gradient(jnp.asarray(entropies))
    ordered = jnp.sort(jnp.where(trainable, entropies, -jnp.inf).reshape(-1), descending=True)
    count = jnp.ceil(fraction * masked_count(trainable).astype(jnp.float32)).astype(jnp.int32)
    last = ordered[jnp.maximum(count - 1, 0)]
    return trainable & (entropies >= last) & (count > 0)
