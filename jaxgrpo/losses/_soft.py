"""Clips that are soft: SAPO's gate, CFPO's penalty, GPPO and CE-GPPO, which keep a gradient."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import masked_surrogate, surrogate_inputs, weighted_steps


@LOSSES.register(
    Card(
        formula="-(4 / tau) sigmoid(tau (w - 1)) A",
        source="SAPO, arXiv:2511.20347",
        level="token",
        gradient="policy_gradient",
        defaults="tau 1.0 where A > 0, 1.05 elsewhere; with sequence_mean_token_mean",
        disagreements="The value at w = 1 is -2 A / tau: loss curves do not compare with PPO's.",
    )
)
def sapo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
) -> Float[Array, "*B T"]:
    """SAPO at each token: a sigmoid of the ratio, whose slope fades on either side of 1.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      tau_positive: Steepness where A > 0.
      tau_negative: Steepness elsewhere.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a tau is not positive.

    Note:
      The gradient for `log_probs` is -4 g (1 - g) w A with g the sigmoid; -A at w = 1.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.sapo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-1.510', '-2.924']

    Source:
      arXiv:2511.20347.
    """
    checks.static_number(above=0, tau_positive=tau_positive, tau_negative=tau_negative)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    tau = jnp.where(advantages > 0, tau_positive, tau_negative).astype(log_ratios.dtype)
    # Far above, the slope is below the smallest number, and w (1 - g) would be inf * 0.
    flat = log_ratios > jnp.log1p(700 / tau)
    live = ~flat & (advantages != 0)
    change = jnp.expm1(jnp.where(live, log_ratios, 0))
    # Not 1 - g: its last digits are lost where g is close to 1.
    gate = jnp.where(flat, 1, 1 / (1 + jnp.exp(-tau * change)))
    return zero_where_masked(-(4 / tau) * gate * advantages, where)


@LOSSES.register(
    Card(
        formula="-w A + |A| (w - 1)^2 / (2 epsilon)",
        source="CFPO, arXiv:2601.22801; the penalty is that of SPO, arXiv:2401.16025",
        exceptions={"sign map": "a quadratic penalty brings back what has gone too far"},
        level="token",
        gradient="policy_gradient",
        defaults="epsilon 0.2, PPO's",
        disagreements=(
            "The constants were not checked against the paper's text: with these the gradient "
            "vanishes at w = 1 + sign(A) epsilon, where PPO's would be clipped."
        ),
    )
)
def cfpo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    epsilon: float = 0.2,
) -> Float[Array, "*B T"]:
    """CFPO at each token: a quadratic penalty on the ratio in place of the clip.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      epsilon: The outward change of the ratio at which the gradient is 0.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `epsilon` is not positive.

    Note:
      The gradient for `log_probs` is w (|A| (w - 1) / epsilon - A): -A at w = 1, and back towards
      1 beyond epsilon.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.cfpo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.125', '0.500']

    Source:
      arXiv:2601.22801.
    """
    checks.static_number(above=0, epsilon=epsilon)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    change = jnp.expm1(jnp.where(advantages != 0, log_ratios, 0))
    # Factored: where the ratio overflows, the square must not meet a linear term of the other sign.
    pull = jnp.abs(advantages) * change / (2 * epsilon) - advantages
    return zero_where_masked(change * pull - advantages, where)


@LOSSES.register(
    Card(
        formula="PPO's values; a clipped token keeps the gradient -(1 +- clip) A",
        source="GPPO, arXiv:2508.07629",
        level="token",
        gradient="policy_gradient",
        defaults="0.2 / 0.2, dual clip 10 in the authors' scripts; off here",
    )
)
def gppo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Float[Array, "*B T"]:
    """GPPO at each token: PPO's clip, whose clipped tokens keep the gradient of the boundary.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: The ratio is clipped at 1 - clip_low where A < 0.
      clip_high: The ratio is clipped at 1 + clip_high where A > 0.
      dual_clip: Where A < 0 a ratio beyond this has no gradient; None for no limit.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a clip is negative, or `dual_clip` is not above 1.

    Note:
      The gradient for `log_probs` is -w A inside, -(1 + clip_high) A or -(1 - clip_low) A outside.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.gppo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-0.500', '-1.200']

    Source:
      arXiv:2508.07629.
    """
    return ce_gppo(
        log_probs,
        anchor_log_probs,
        advantages,
        where=where,
        beta_low=1.0,
        beta_high=1.0,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )


@LOSSES.register(
    Card(
        formula="-w A inside; clipped, -beta (1 +- clip) A in value and gradient",
        source="CE-GPPO, arXiv:2509.20712; betas from the released loss",
        level="token",
        gradient="policy_gradient",
        defaults="beta 0.75 below and 1 above, dual clip 3 in the released loss; off here",
        disagreements="With both betas 1 it is gppo.",
    )
)
def ce_gppo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    beta_low: float = 0.75,
    beta_high: float = 1.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Float[Array, "*B T"]:
    """CE-GPPO at each token: clipped tokens keep a scaled gradient, which steers the entropy.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      beta_low: Scale of tokens clipped at 1 - clip_low, where A < 0.
      beta_high: Scale of tokens clipped at 1 + clip_high, where A > 0.
      clip_low: The ratio is clipped at 1 - clip_low where A < 0.
      clip_high: The ratio is clipped at 1 + clip_high where A > 0.
      dual_clip: Where A < 0 a ratio beyond this has no gradient; None for no limit.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a number is negative, or `dual_clip` is not above 1.

    Note:
      The gradient for `log_probs` is -w A inside, -beta (1 +- clip) A outside.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.ce_gppo(log_ratios, jnp.zeros((1, 2)), jnp.array([-1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.600', '2.000']

    Source:
      arXiv:2509.20712.
    """
    checks.static_number(
        minimum=0, beta_low=beta_low, beta_high=beta_high, clip_low=clip_low, clip_high=clip_high
    )
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    change = jnp.expm1(jax.lax.stop_gradient(log_ratios))
    high, low = (advantages > 0) & (change > clip_high), (advantages < 0) & (change < -clip_low)
    keep = ~(high | low)
    ends = jnp.where(high, beta_high * (1 + clip_high), beta_low * (1 - clip_low))
    if dual_clip is not None:
        checks.static_number(above=1, dual_clip=dual_clip)
        keep &= ~((advantages < 0) & (change > dual_clip - 1))
    inside = masked_surrogate(
        log_ratios,
        advantages,
        keep=keep,
        dropped_ratios=1.0 if dual_clip is None else dual_clip,
        where=where,
    )
    outside = weighted_steps(log_probs, ends, advantages, where=where)
    return jnp.where(high | low, outside, inside)
