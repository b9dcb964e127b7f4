"""Losses that treat the signs, or the sources, of tokens differently: ASPO, UP-GRPO, LUFFY."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs, weighted_log_probs, weighted_steps


@LOSSES.register(
    Card(
        formula="A > 0: -A / w, cut above 1 + high; A < 0: -w A, cut below 1 - low; at most 3 A",
        source="ASPO, arXiv:2510.06062",
        level="token",
        gradient="policy_gradient",
        defaults="0.2 / 0.2, weights above 3 replaced by 3 (Archer2.0)",
        disagreements=(
            "Read in a description of the released code, not run against it. A capped weight has "
            "the value -cap A log pi."
        ),
    )
)
def aspo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float = 3.0,
) -> Float[Array, "*B T"]:
    """ASPO at each token: tokens to be raised are weighted by the inverse ratio.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: Tokens with A < 0 keep their gradient down to the ratio 1 - clip_low.
      clip_high: Tokens with A >= 0 keep their gradient up to the ratio 1 + clip_high.
      cap: Largest weight; above it the gradient is that of a detached weight of this size.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a clip is negative, or `cap` is not above 1.

    Note:
      The gradient for `log_probs` is -A / w where A >= 0, -w A where A < 0, at most -cap A, and 0
      on the cut tokens.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.aspo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-2.000', '-0.833']

    Source:
      arXiv:2510.06062.
    """
    checks.static_number(minimum=0, clip_low=clip_low, clip_high=clip_high)
    checks.static_number(above=1, cap=cap)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    log_ratios = jax.lax.stop_gradient(log_ratios)
    rising = advantages > 0
    change = jnp.expm1(log_ratios)
    cut = jnp.where(rising, change > clip_high, change < -clip_low)
    ends = jnp.where(rising, 1 / (1 + clip_high), 1 - clip_low)
    weights = jnp.exp(jnp.where(rising, -log_ratios, log_ratios))
    soft = ~cut & (weights > cap)
    capped = weighted_log_probs(log_probs, cap, jnp.where(soft, advantages, 0), where=where)
    kept = weighted_steps(log_probs, weights, jnp.where(cut | soft, 0, advantages), where=where)
    constant = zero_where_masked(-ends.astype(advantages.dtype) * advantages, where)
    return jnp.where(cut, constant, kept + capped)


@LOSSES.register(
    Card(
        formula="-A exp(log pi - sg(log pi)) where A > 0; PPO with dual clip elsewhere",
        source="UP-GRPO, arXiv:2607.06987",
        level="token",
        gradient="policy_gradient",
        defaults="clip 0.2, dual clip 3 (verl's)",
        disagreements="Read in verl's open request #7022; the paper was not read.",
    )
)
def up_grpo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 0.2,
    dual_clip: float | None = 3.0,
) -> Float[Array, "*B T"]:
    """UP-GRPO at each token: the positive side is never clipped or weighted, the negative is PPO's.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: Tokens with A < 0 keep their gradient down to the ratio 1 - clip_low.
      dual_clip: And up to this ratio; None for no limit.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a clip is negative, or `dual_clip` is not above 1.

    Note:
      The gradient for `log_probs` is -A where A > 0, PPO's elsewhere.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.up_grpo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-1.000', '-1.000']

    Source:
      arXiv:2607.06987.
    """
    log_ratios, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    del log_ratios
    raised = weighted_steps(log_probs, 1.0, jnp.maximum(spread, 0), where=where)
    lowered = ppo_clip(
        log_probs,
        anchor_log_probs,
        jnp.minimum(spread, 0),
        where=where,
        clip_low=clip_low,
        clip_high=0.0,
        dual_clip=dual_clip,
    )
    return raised + lowered


@LOSSES.register(
    Card(
        formula="-pi / (pi + gamma) A on off-policy tokens; PPO's clip on the others",
        source="LUFFY, arXiv:2504.14945",
        level="token",
        gradient="policy_gradient",
        defaults="gamma 0.1",
        disagreements=(
            "Off-policy tokens have no ratio and no clip, so at w = 1 their gradient is not -A but "
            "-A gamma pi / (pi + gamma)^2. Advantages are to be normalised over both kinds at once."
        ),
        needs=("off_policy",),
    )
)
def luffy(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    off_policy: Bool[Array, "*B T"],
    gamma: float = 0.1,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Array, "*B T"]:
    """LUFFY at each token: shaped imitation of off-policy tokens beside PPO on the policy's own.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      off_policy: [*B, T] bool. Tokens written by someone else, whose anchor is not read.
      gamma: Probability at which the shaping bends.
      clip_low: PPO's lower clip.
      clip_high: PPO's upper clip.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a clip is negative, or `gamma` is not positive.

    Note:
      The gradient for `log_probs` is PPO's; off-policy it is -gamma p / (p + gamma)^2 A.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, off_policy = jnp.log(jnp.array([[0.1, 0.5]])), jnp.array([[True, False]])
      >>> jg.losses.luffy(log_probs, log_probs, jnp.array([1.0]), off_policy=off_policy)
      Array([[-0.5, -1. ]], dtype=float32)

    Source:
      arXiv:2504.14945.
    """
    checks.static_number(above=0, gamma=gamma)
    checks.boolean(off_policy=off_policy)
    checks.per_token(log_probs=log_probs, anchor_log_probs=anchor_log_probs, where=where)
    checks.shape(tuple(log_probs.shape), off_policy=off_policy)
    own = ~off_policy if where is None else where & ~off_policy
    theirs = off_policy if where is None else where & off_policy
    ppo = ppo_clip(
        log_probs,
        anchor_log_probs,
        advantages,
        where=own,
        clip_low=clip_low,
        clip_high=clip_high,
    )
    _, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, theirs)
    shaped = jax.nn.sigmoid(zero_where_masked(log_probs, theirs) - jnp.log(gamma))
    return ppo - zero_where_masked(shaped * spread, theirs)
