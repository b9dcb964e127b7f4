"""The plain policy gradient, without a ratio."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import spread_over_tokens, zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES


@LOSSES.register(
    Card(
        formula="-A log pi",
        source="Williams 1992, doi:10.1007/BF00992696",
        level="token",
        gradient="policy_gradient",
        disagreements="Off-policy it is biased; multiply by detached weights (jaxgrpo.ratios).",
    )
)
def reinforce(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """REINFORCE at each token: minus the advantage times the log-probability.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. Checked, and not used: every loss takes it.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit.

    Note:
      The gradient for `log_probs` is -A.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.reinforce(jnp.array([[-1.0, -3.0]]), jnp.zeros((1, 2)), jnp.array([2.0]))
      Array([[2., 6.]], dtype=float32)

    Source:
      Williams 1992, doi:10.1007/BF00992696.
    """
    checks.per_token(log_probs=log_probs, anchor_log_probs=anchor_log_probs, where=where)
    advantages = jax.lax.stop_gradient(spread_over_tokens(advantages, log_probs))
    advantages = zero_where_masked(advantages, where)
    # A log-prob of -inf at A = 0 would be nan.
    live_log_probs = jnp.where(advantages != 0, log_probs, 0)
    return zero_where_masked(-advantages * live_log_probs, where)
