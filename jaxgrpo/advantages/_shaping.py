"""What is done to rewards before a baseline, and to advantages after it."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import ADVANTAGE_TRANSFORMS, REWARD_TRANSFORMS
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.registry import Card


@REWARD_TRANSFORMS.register(
    Card(
        formula="R (1 - beta (G - rank) / G), the likeliest completion of a group at rank 0",
        source="arXiv:2506.02355",
        level="group",
        gradient="none",
        defaults="beta 0.25",
        disagreements="Ranks are among the scored completions of the group.",
        needs=("sequence_log_probs",),
    )
)
def unlikeliness(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    sequence_log_probs: Float[Array, "B"],
    beta: float = 0.25,
) -> Float[Array, "B"]:
    """Rewards that favour the less likely of a group's completions.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored, and stays.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      sequence_log_probs: [B], nats. Of each whole completion under its sampler.
      beta: The likeliest completion of a group loses this share of its reward.

    Returns:
      [B] float32, without gradient.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `beta` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.unlikeliness(
      ...     jnp.ones(2), jnp.array([7, 7]), sequence_log_probs=jnp.array([-5.0, -9.0]), beta=0.5
      ... )
      Array([0.5 , 0.75], dtype=float32)

    Source:
      arXiv:2506.02355.
    """
    checks.static_number(minimum=0, beta=beta)
    group = _statistics.of_each(rewards, group_ids)
    checks.floating(sequence_log_probs=sequence_log_probs)
    checks.shape(tuple(rewards.shape), sequence_log_probs=sequence_log_probs)
    ranks = _statistics.ranks(sequence_log_probs, group_ids, jnp.isfinite(rewards))
    size = jnp.maximum(group.size, 1).astype(group.centred.dtype)
    share = (size - ranks.astype(size.dtype)) / size
    rewards = jax.lax.stop_gradient(jnp.asarray(rewards)).astype(size.dtype)
    return (rewards * (1 - beta * share)).astype(jnp.float32)


def informative_groups(rewards: Float[Array, "B"], group_ids: Int[Array, "B"]) -> Bool[Array, "B"]:
    """Dynamic sampling: the completions whose group has rewards that differ.

    Decide on the raw reward of the task: shaping makes groups of equal answers differ.

    Args:
      rewards: [B]. The raw rewards; nan or inf says not scored.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.

    Returns:
      [B] bool; equal is to 4 units in the last place. A completion that is not scored is in an
      informative group if the others differ.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0, 1.0, 1.0]), jnp.array([7, 7, 5, 5])
      >>> jg.advantages.informative_groups(rewards, group_ids)
      Array([ True,  True, False, False], dtype=bool)

    Source:
      arXiv:2503.14476, section 3.2.
    """
    informative = _statistics.of_each(rewards, group_ids).informative
    return over_group(jnp.max, informative.astype(jnp.int32), group_ids, initial=0) > 0


@ADVANTAGE_TRANSFORMS.register(
    Card(
        formula="A times `positive` where A > 0, `negative` where A < 0",
        source="PSR and NSR, arXiv:2506.01347",
        level="token",
        gradient="none",
        defaults="both 1; PSR is (1, 0), NSR (0, 1)",
    )
)
def scaled_by_sign(
    advantages: Float[Array, "..."], *, positive: float = 1.0, negative: float = 1.0
) -> Float[Array, "..."]:
    """Positive and negative advantages by factors of their own: PSR is (1, 0), NSR (0, 1).

    Args:
      advantages: Of any shape.
      positive: Factor where the advantage is positive.
      negative: Factor where it is negative.

    Returns:
      Of the shape and dtype of the input.

    Raises:
      TypeError: `advantages` is not floating point.
      ValueError: a factor is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.scaled_by_sign(jnp.array([-1.0, 1.0]), positive=0.1)
      Array([-1. ,  0.1], dtype=float32)

    Source:
      arXiv:2506.01347.
    """
    checks.floating(advantages=advantages)
    checks.static_number(minimum=0, positive=positive, negative=negative)
    return advantages * jnp.where(advantages > 0, positive, negative).astype(advantages.dtype)


@ADVANTAGE_TRANSFORMS.register(
    Card(
        formula="clip(A, low, high)",
        source="NeMo-RL; simply, with +-10",
        level="token",
        gradient="none",
        defaults="no bounds",
    )
)
def clipped(
    advantages: Float[Array, "..."], *, low: float = -math.inf, high: float = math.inf
) -> Float[Array, "..."]:
    """Advantages held in an interval.

    Args:
      advantages: Of any shape.
      low: Smallest advantage.
      high: Largest advantage.

    Returns:
      Of the shape and dtype of the input.

    Raises:
      TypeError: `advantages` is not floating point.
      ValueError: the bounds are out of order.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.clipped(jnp.array([-3.0, 1.0]), low=-2.0)
      Array([-2.,  1.], dtype=float32)
    """
    checks.floating(advantages=advantages)
    checks.static_number(low=low)
    checks.static_number(minimum=low, high=high)
    return jnp.clip(advantages, low, high)


@ADVANTAGE_TRANSFORMS.register(
    Card(
        formula="A of the floor(G (1 - rate)) largest |A| of a group, 0 for the others",
        source="CPPO, arXiv:2503.22342",
        level="group",
        gradient="none",
        defaults="rate 0.5, one of the paper's",
        disagreements=(
            "Pruned completions stay in the batch with advantage 0; CPPO fills their places. "
            "Equals of the last one kept are kept too, so that the order of rows does not matter."
        ),
        needs=("group_ids",),
    )
)
def pruned(
    advantages: Float[Array, "B"] | Float[Array, "B T"],
    *,
    group_ids: Int[Array, "B"],
    rate: float = 0.5,
) -> Float[Array, "B"] | Float[Array, "B T"]:
    """Only the completions of a group that its baseline says most about, the others at 0.

    Args:
      advantages: [B], or [B, T] whose largest |A| stands for the completion.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      rate: Share of each group that goes; at least one completion stays.

    Returns:
      Of the shape and dtype of the input.

    Raises:
      TypeError: `advantages` is not floating point, or group ids are not integers.
      ValueError: the shapes do not fit, or `rate` is not in [0, 1].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.pruned(jnp.array([-1.0, 0.25, 0.75]), group_ids=jnp.array([7, 7, 7]))
      Array([-1.,  0.,  0.], dtype=float32)

    Source:
      arXiv:2503.22342.
    """
    checks.static_number(minimum=0, maximum=1, rate=rate)
    checks.floating(advantages=advantages)
    checks.integer(group_ids=group_ids)
    advantages = jnp.asarray(advantages)
    checks.shape((advantages.shape[0],), group_ids=group_ids)
    sizes = jnp.abs(advantages)
    if sizes.ndim > 1:
        sizes = jnp.max(sizes, axis=tuple(range(1, sizes.ndim)))
    everywhere = jnp.ones(sizes.shape, bool)
    fan = over_group(jnp.sum, everywhere.astype(jnp.int32), group_ids, initial=0)
    # 10 * (1 - 0.9) is 0.99999999.
    kept = jnp.maximum(jnp.floor(fan * (1 - rate) + 1e-4), 1)
    keep = _statistics.ranks(sizes, group_ids, everywhere) < kept
    return jnp.where(keep.reshape(keep.shape + (1,) * (advantages.ndim - 1)), advantages, 0)
