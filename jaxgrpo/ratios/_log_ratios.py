"""Log-ratios of the policy to its anchor: one a token, or one a sequence."""

import jax
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_mean, masked_sum, zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.ratios._registry import RATIOS


@RATIOS.register(
    Card(
        formula="log pi(a_t) - log anchor(a_t)",
        source="arXiv:1707.06347, section 3",
        level="token",
        gradient="none",
        disagreements="Clamped to +-20 in verl; a clamp cuts the gradient, so there is none here.",
    )
)
def token_log_ratios(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Log-ratio of the policy to its anchor at each token.

    Args:
      log_probs: [*B, T], nats. The tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the policy they are compared with; no
        gradient flows into it, so that `token_log_ratios(lp, lp)` is 0 with gradient 1.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.token_log_ratios(jnp.array([-1.0, -2.0]), jnp.array([-1.5, -1.0]))
      Array([ 0.5, -1. ], dtype=float32)
    """
    checks.per_token(log_probs=log_probs, anchor_log_probs=anchor_log_probs, where=where)
    return zero_where_masked(log_probs - jax.lax.stop_gradient(anchor_log_probs), where)


@RATIOS.register(
    Card(
        formula="mean_t (log pi(a_t) - log anchor(a_t))",
        source="arXiv:2507.18071",
        level="sequence",
        gradient="none",
        disagreements="The mean is over trainable tokens only, never over padding.",
    )
)
def sequence_mean_log_ratios(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B"]:
    """Mean log-ratio over the tokens of each sequence: the log of GSPO's length-normalised ratio.

    Args:
      log_probs: [*B, T], nats. The tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      where: [*B, T] bool. Tokens of the sequence; the others count neither above nor below.

    Returns:
      [*B], nats, in float32 at least; 0 with gradient 0 for a sequence without tokens.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True, False]])
      >>> jg.ratios.sequence_mean_log_ratios(
      ...     jnp.array([[-1.0, -2.0, -9.0]]), jnp.array([[-1.5, -3.0, -1.0]]), where=where
      ... )
      Array([0.75], dtype=float32)

    Source:
      arXiv:2507.18071.
    """
    return masked_mean(token_log_ratios(log_probs, anchor_log_probs, where=where), where, axis=-1)


@RATIOS.register(
    Card(
        formula="sum_t (log pi(a_t) - log anchor(a_t))",
        source="arXiv:2402.14740",
        level="sequence",
        gradient="none",
        disagreements="Its exponential leaves float32 on long sequences; clamp it after the sum.",
    )
)
def sequence_sum_log_ratios(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B"]:
    """Log-ratio of the probabilities of each whole sequence.

    Args:
      log_probs: [*B, T], nats. The tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      where: [*B, T] bool. Tokens of the sequence.

    Returns:
      [*B], nats, in float32 at least; 0 with gradient 0 for a sequence without tokens.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.sequence_sum_log_ratios(jnp.array([[-1.0, -2.0]]), jnp.array([[-1.5, -3.0]]))
      Array([1.5], dtype=float32)
    """
    return masked_sum(token_log_ratios(log_probs, anchor_log_probs, where=where), where, axis=-1)
