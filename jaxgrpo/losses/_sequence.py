"""Losses of the sequence's ratio. Each token carries the sequence's loss.

So under `sequence_mean_token_mean` a sequence counts once, as published; the gradient that reaches
a token from its whole sequence is then, as for token losses, of the size of its advantage.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.clipping import keep_mask
from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_mean
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import (
    masked_surrogate,
    spread_rows,
    surrogate_inputs,
    weighted_steps,
)


@LOSSES.register(
    Card(
        formula="-min(s A, clip(s, 1 - low, 1 + high) A); s = exp(mean_t log w_t)",
        source="GSPO, arXiv:2507.18071, eq. 5",
        level="sequence",
        gradient="policy_gradient",
        defaults="3e-4 / 4e-4, aggregated by sequence_mean_token_mean",
        disagreements="The mean is over trainable tokens only; some divide by the padded length.",
    )
)
def gspo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> Float[Array, "*B T"]:
    """GSPO: PPO's clip on the length-normalised ratio of the whole sequence.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: The ratio is kept down to 1 - clip_low where A < 0.
      clip_high: The ratio is kept up to 1 + clip_high where A > 0.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a clip is negative.

    Note:
      Every token holds the sequence's loss. The gradient of a sequence's sum for each of its
      `log_probs` is -s A while it is kept, and 0 once it is clipped.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.gspo(log_ratios, jnp.zeros((1, 2)), jnp.array([3.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-3.000', '-3.000']

    Source:
      arXiv:2507.18071, eq. 5.
    """
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    rows = masked_mean(log_ratios, where, -1)
    keep, ends = _clipped(rows, advantages, clip_low, clip_high)
    return masked_surrogate(
        spread_rows(rows, log_ratios), advantages, keep=keep, dropped_ratios=ends, where=where
    )


@LOSSES.register(
    Card(
        formula="PPO's clip on sg(s) exp(log pi - sg(log pi)); s as in gspo",
        source="GSPO-token, arXiv:2507.18071, eq. 13",
        level="sequence",
        gradient="policy_gradient",
        defaults="3e-4 / 4e-4, as gspo",
        disagreements="verl's gspo is this one. With one advantage a sequence it equals gspo.",
    )
)
def gspo_token(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> Float[Array, "*B T"]:
    """GSPO with the sequence's ratio as a detached factor, so that tokens may differ in advantage.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: The ratio is kept down to 1 - clip_low where A < 0.
      clip_high: The ratio is kept up to 1 + clip_high where A > 0.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a clip is negative.

    Note:
      The gradient for `log_probs` is -s A at each kept token, and 0 at the clipped ones.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.gspo_token(log_ratios, jnp.zeros((1, 2)), jnp.array([3.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-3.000', '-3.000']

    Source:
      arXiv:2507.18071, eq. 13.
    """
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    rows = masked_mean(jax.lax.stop_gradient(log_ratios), where, -1)
    keep, ends = _clipped(rows, advantages, clip_low, clip_high)
    kept = weighted_steps(
        log_probs,
        jnp.exp(spread_rows(rows, log_ratios)),
        jnp.where(keep, advantages, 0),
        where=where,
    )
    return jnp.where(keep, kept, -ends * advantages)


@LOSSES.register(
    Card(
        formula="gspo, summed over tokens: mean over sequences of n times its loss",
        source="LUSPO, arXiv:2602.05261",
        level="sequence",
        gradient="policy_gradient",
        defaults="clips as gspo; to be aggregated by sequence_mean_token_sum",
        disagreements=(
            "The length factor n is the aggregation's: under sequence_mean_token_mean this is "
            "gspo. TRL multiplies by n inside the loss."
        ),
    )
)
def luspo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
) -> Float[Array, "*B T"]:
    """LUSPO: GSPO without its bias towards short sequences; aggregate by sequence_mean_token_sum.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: The ratio is kept down to 1 - clip_low where A < 0.
      clip_high: The ratio is kept up to 1 + clip_high where A > 0.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a clip is negative.

    Note:
      The gradient of a sequence's sum for each of its `log_probs` is -s A, or 0 once clipped.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.luspo(log_ratios, jnp.zeros((1, 2)), jnp.array([3.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-3.000', '-3.000']

    Source:
      arXiv:2602.05261.
    """
    return gspo(
        log_probs,
        anchor_log_probs,
        advantages,
        where=where,
        clip_low=clip_low,
        clip_high=clip_high,
    )


@LOSSES.register(
    Card(
        formula="-exp(mean_t c_t) A; c = min(log w, clip) for A > 0, max(log w, -clip) for A < 0",
        source="GMPO, arXiv:2507.20673",
        level="sequence",
        gradient="policy_gradient",
        defaults="0.4, in log space (the paper, verl geo_mean, TRL)",
        disagreements=(
            "The bounds are log-ratios, not 1 -+ epsilon. verl ignores the aggregation and "
            "averages local rows."
        ),
    )
)
def gmpo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip: float = 0.4,
) -> Float[Array, "*B T"]:
    """GMPO: the geometric mean of token ratios, each clipped in log space.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip: Largest outward log-ratio of a token, in nats.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `clip` is negative.

    Note:
      Every token holds the sequence's loss. The gradient of a sequence's sum is that loss for each
      unclipped token's `log_probs`, -A at ratio 1, and 0 for clipped tokens, which still count in
      the mean.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.gmpo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-0.864', '-0.864']

    Source:
      arXiv:2507.20673.
    """
    checks.static_number(minimum=0, clip=clip)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    outward = (advantages > 0) & (log_ratios > clip) | (advantages < 0) & (log_ratios < -clip)
    bounds = jnp.where(advantages > 0, clip, -clip).astype(log_ratios.dtype)
    rows = masked_mean(jnp.where(outward, bounds, log_ratios), where, -1)
    return masked_surrogate(
        spread_rows(rows, log_ratios),
        advantages,
        keep=jnp.ones_like(outward),
        dropped_ratios=1.0,
        where=where,
    )


def _clipped(
    rows: Array, advantages: Array, clip_low: float, clip_high: float
) -> tuple[Array, Array]:
    """Which tokens keep the gradient of their sequence's ratio, and the end of the interval."""
    checks.static_number(minimum=0, clip_low=clip_low, clip_high=clip_high)
    # In the dtype of the mean: these clips are below the resolution of bfloat16.
    change = jnp.expm1(jax.lax.stop_gradient(rows))
    feasible = (-clip_low <= change) & (change <= clip_high)
    keep = keep_mask(
        spread_rows(rows, advantages),
        advantages,
        jnp.broadcast_to(feasible[..., None], advantages.shape),
    )
    ends = jnp.where(advantages > 0, 1 + clip_high, 1 - clip_low)
    return keep, ends.astype(advantages.dtype)
