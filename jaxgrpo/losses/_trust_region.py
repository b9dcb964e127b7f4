"""Trust regions on any sampled-token divergence: the unified operator, and ATR-GRPO."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.clipping import keep_mask, ratio_interval
from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import DIVERGENCES, kl3
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import masked_surrogate, surrogate_inputs


@LOSSES.register(
    Card(
        formula="-w A while w - 1 - log w <= delta or the move leads inward; else constant",
        source="ATR-GRPO, arXiv:2602.05494",
        level="token",
        gradient="policy_gradient",
        defaults="delta 0.0231, whose lower ratio is PPO's 0.8; 0.0331 has DAPO's upper 1.28",
        disagreements=(
            "The published delta is not known to us. The ratio is policy/anchor: with the inverse "
            "the asymmetry would be reversed."
        ),
    )
)
def atr(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    delta: float = 0.0231,
) -> Float[Array, "*B T"]:
    r"""ATR-GRPO: the surrogate inside the trust region kl3(anchor || policy) <= delta.

    With :math:`w = \pi_\theta(a) / \pi_{anchor}(a)`, tokens with
    :math:`w - 1 - \log w > \delta` that would move further out are cut. It is a clip to
    `ratio_interval("kl3", delta)`, wider above 1 than below: 0.80 to 1.23 at the default.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the policy the region is centred on:
        the sampler's recorded ones, or the trainer's recomputed ones. Carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      delta: The bound, in nats; 0 cuts every move outward, inf none.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `delta` is negative.

    Note:
      The gradient for `log_probs` is -w A on the kept tokens, exactly -A at w = 1 even for
      delta = 0, and 0 on the cut ones, whose value is -A times the end of the interval.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.9, 1.3]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.atr(log_ratios, jnp.zeros((1, 2)), jnp.array([2.0]), delta=0.023144)
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-1.800', '-2.462']

    Source:
      arXiv:2602.05494.
    """
    low, high = ratio_interval("kl3", delta)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    distance = kl3(jnp.zeros_like(log_ratios), jax.lax.stop_gradient(log_ratios))
    return masked_surrogate(
        log_ratios,
        advantages,
        keep=keep_mask(log_ratios, advantages, distance <= delta),
        dropped_ratios=jnp.where(advantages > 0, high, low),
        where=where,
    )


@LOSSES.register(
    Card(
        formula="-w A while D(anchor || policy) <= delta or the move leads inward; else constant",
        source="arXiv:2602.05494, theorem 4.1; arXiv:2602.04879, eq. 12",
        level="token",
        gradient="policy_gradient",
        defaults="delta has none: it is in the divergence's unit",
        disagreements=(
            "What a cut token's value is, the paper does not say: here that of the old ratio, 1, "
            "which differs from a clip's by a constant and has the same gradient."
        ),
    )
)
def trust_region(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    divergence: str | Callable,
    delta: float,
    delta_low: float | None = None,
) -> Float[Array, "*B T"]:
    r"""The surrogate inside a trust region of any divergence: a feasibility test and a mask.

    .. math:: M_t = 0 \text{ if } D_t(anchor \| \pi_\theta) > \delta \text{ and }
              (A_t > 0, w_t > 1 \text{ or } A_t < 0, w_t < 1), \text{ else } 1.

    `divergence="tv"` is PPO's clip at 2 delta, `"kl3"` is ATR-GRPO, `"binary_tv"` and `"binary_kl"`
    are DPPO's regions.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the policy the region is centred on.
        Carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      divergence: A name in `jaxgrpo.divergences.DIVERGENCES`, `module:function`, or a function
        `f(anchor_log_probs, log_probs, *, where) -> [*B, T]`. No gradient flows through it.
      delta: The bound where A > 0, in the divergence's unit; inf cuts nothing.
      delta_low: The bound where A < 0, or None for the same.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      LookupError: no divergence has that name.
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, the divergence's among them, or a bound is negative.

    Note:
      The gradient for `log_probs` is -w A on the kept tokens, exactly -A at w = 1, and 0 on the cut
      ones, whose value is -A. A token whose divergence is nan is outside the region.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.9, 1.3]]))  # as log-probs, with an anchor of 0
      >>> anchor, advantages = jnp.zeros((1, 2)), jnp.array([2.0])
      >>> loss = jg.losses.trust_region(log_ratios, anchor, advantages, divergence="tv", delta=0.1)
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-1.800', '-2.000']

    Source:
      arXiv:2602.05494, theorem 4.1; arXiv:2602.04879, eq. 12.
    """
    delta_low = delta if delta_low is None else delta_low
    checks.static_number(minimum=0, delta=delta, delta_low=delta_low)
    if isinstance(divergence, str):
        divergence = DIVERGENCES.resolve(divergence)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    distance = divergence(
        jax.lax.stop_gradient(anchor_log_probs), jax.lax.stop_gradient(log_probs), where=where
    )
    checks.shape(tuple(log_ratios.shape), **{"the divergence's result": distance})
    feasible = distance <= jnp.where(advantages < 0, delta_low, delta)
    return masked_surrogate(
        log_ratios,
        advantages,
        keep=keep_mask(log_ratios, advantages, feasible),
        dropped_ratios=1.0,
        where=where,
    )
