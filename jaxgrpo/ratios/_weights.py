"""Detached importance weights for tokens whose sampler was not quite the trainer's policy."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.ratios._log_ratios import token_log_ratios
from jaxgrpo.ratios._registry import WEIGHTS


@WEIGHTS.register(
    Card(
        formula="min(max(rho, floor), cap), rho = trainer / behaviour",
        source="TIS: Yao et al. 2025, fengyao.notion.site/off-policy-rl",
        level="token",
        gradient="none",
        defaults="cap 2 in verl, slime and Tunix, 3 in TRL",
        disagreements="With the behaviour policy as the loss's anchor, the loss holds rho already.",
    )
)
def truncated_weights(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    cap: float = 2.0,
    floor: float = 0.0,
) -> Float[Array, "*B T"]:
    """Truncated importance weights (TIS): the ratio of trainer to sampler, held in [floor, cap].

    Multiply a token loss by it after the loss's own clip, before aggregation.

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them at the sampler's weights.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens to evaluate; elsewhere the weight is 0.
      cap: Largest weight.
      floor: Smallest weight.

    Returns:
      [*B, T], in the dtype of the inputs. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, `floor` is negative, or `cap` is not above `floor`.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.truncated_weights(jnp.array([-1.0, -1.0]), jnp.array([-1.0, -3.0]))
      Array([1., 2.], dtype=float32)

    Source:
      Yao et al. 2025, fengyao.notion.site/off-policy-rl.
    """
    checks.static_number(minimum=0, floor=floor)
    checks.static_number(above=floor, cap=cap)
    ratios = _detached_ratios(log_probs, behaviour_log_probs, where)
    return zero_where_masked(jnp.clip(ratios, floor, cap), where)


@WEIGHTS.register(
    Card(
        formula="rho if low <= rho <= high else 0, rho = trainer / behaviour",
        source="IcePop, arXiv:2510.18855",
        level="token",
        gradient="none",
        defaults="0.5 / 5 (NeMo-RL)",
        disagreements="The weight is 0 but the token still counts in the denominator, as in TRL.",
    )
)
def masked_weights(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    low: float = 0.5,
    high: float = 5.0,
) -> Float[Array, "*B T"]:
    """Masked importance weights (IcePop): the ratio of trainer to sampler inside a band, 0 outside.

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them at the sampler's weights.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens to evaluate; elsewhere the weight is 0.
      low: Smallest ratio that is kept.
      high: Largest ratio that is kept.

    Returns:
      [*B, T], in the dtype of the inputs; finite even where the ratio overflows. No gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, `low` is negative, or `high` is not above `low`.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.masked_weights(jnp.array([-1.0, -1.0]), jnp.array([-1.0, -3.0]))
      Array([1., 0.], dtype=float32)

    Source:
      arXiv:2510.18855.
    """
    checks.static_number(minimum=0, low=low)
    checks.static_number(above=low, high=high)
    ratios = _detached_ratios(log_probs, behaviour_log_probs, where)
    # An overflowed ratio is not kept even at high = inf: an infinite weight is nan in the loss.
    kept = (low <= ratios) & (ratios <= high) & jnp.isfinite(ratios)
    return zero_where_masked(ratios, kept if where is None else kept & where)


def _detached_ratios(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    where: Bool[Array, "*B T"] | None,
) -> Float[Array, "*B T"]:
    checks.per_token(log_probs=log_probs, behaviour_log_probs=behaviour_log_probs, where=where)
    return jnp.exp(
        jax.lax.stop_gradient(token_log_ratios(log_probs, behaviour_log_probs, where=where))
    )
