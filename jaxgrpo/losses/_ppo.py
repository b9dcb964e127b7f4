"""Clips of the probability ratio: PPO, DAPO's higher upper clip, dual clip."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.clipping import keep_mask
from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import masked_surrogate, surrogate_inputs


@LOSSES.register(
    Card(
        formula="-min(w A, clip(w, 1 - low, 1 + high) A); with dual_clip c, at most -c A for A < 0",
        source="arXiv:1707.06347, eq. 7; arXiv:2503.14476 (clip-higher); arXiv:1912.09729 (dual)",
        level="token",
        gradient="policy_gradient",
        defaults="0.2 / 0.2; DAPO 0.2 / 0.28; dual_clip 3 in verl, off here",
        disagreements=(
            "INTELLECT-2's two-sided delta is dual_clip = delta. At a kink min and clip split the "
            "gradient; here a token on the boundary is kept whole."
        ),
    )
)
def ppo_clip(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Float[Array, "*B T"]:
    r"""PPO's clipped surrogate at each token, with separate low and high clips and a dual clip.

    With :math:`w = \pi_\theta(a) / \pi_{anchor}(a)`,

    .. math:: -\min(w A, \mathrm{clip}(w, 1 - low, 1 + high) A), \qquad
              \text{for } A < 0 \text{ at most } -c A.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the policy the clip is anchored at:
        the sampler's recorded ones, or the trainer's recomputed ones. Carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: The ratio is kept down to 1 - clip_low where A < 0.
      clip_high: The ratio is kept up to 1 + clip_high where A > 0. DAPO uses 0.28.
      dual_clip: Where A < 0 the ratio is kept up to this, or without limit for None.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a clip is negative, or `dual_clip` is not above
        1 + clip_high.

    Note:
      The gradient for `log_probs` is -w A on the kept tokens, exactly -A at w = 1 whatever the
      clips, and 0 on the clipped ones, whose value is PPO's constant.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.9, 1.3]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.ppo_clip(log_ratios, jnp.zeros((1, 2)), jnp.array([2.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-1.800', '-2.400']

    Source:
      arXiv:1707.06347, eq. 7; arXiv:2503.14476 (clip-higher); arXiv:1912.09729 (dual clip).
    """
    checks.static_number(minimum=0, clip_low=clip_low, clip_high=clip_high)
    if dual_clip is not None:
        checks.static_number(dual_clip=dual_clip)
        if not dual_clip > 1 + clip_high:
            raise ValueError(
                f"dual_clip must be more than 1 + clip_high = {1 + clip_high:g}, got {dual_clip}"
            )
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    change = jnp.expm1(jax.lax.stop_gradient(log_ratios))  # w - 1
    keep = keep_mask(log_ratios, advantages, (-clip_low <= change) & (change <= clip_high))
    dropped_ratios = jnp.where(advantages > 0, 1 + clip_high, 1 - clip_low)
    if dual_clip is not None:
        dual = (advantages < 0) & (change > dual_clip - 1)
        keep &= ~dual
        dropped_ratios = jnp.where(dual, dual_clip, dropped_ratios)
    return masked_surrogate(
        log_ratios, advantages, keep=keep, dropped_ratios=dropped_ratios, where=where
    )
