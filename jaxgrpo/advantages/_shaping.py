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


@REWARD_TRANSFORMS.register(
    Card(
        formula="R - penalty clip((n - (max_length - buffer)) / buffer, 0, 1), n in tokens",
        source="DAPO, arXiv:2503.14476, eq. 13",
        level="sequence",
        gradient="none",
        defaults="penalty 1",
        disagreements="In tokens; Tunix takes the length of the text.",
        needs=("lengths",),
    )
)
def overlong_penalised(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    lengths: Int[Array, "B"],
    max_length: int,
    buffer: int,
    penalty: float = 1.0,
) -> Float[Array, "B"]:
    """DAPO's soft punishment of completions that come near the longest allowed.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored, and stays.
      group_ids: [B] int. Not used; every transform takes it.
      lengths: [B] int. Tokens of each completion.
      max_length: The longest completion, in tokens.
      buffer: Tokens before it over which the penalty grows from 0 to its full size.
      penalty: What a completion of the longest length loses.

    Returns:
      [B] float32, without gradient.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or the buffer is not between 1 and `max_length`.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.overlong_penalised(
      ...     jnp.ones(3),
      ...     jnp.array([7, 7, 7]),
      ...     lengths=jnp.array([5, 9, 12]),
      ...     max_length=10,
      ...     buffer=4,
      ... )
      Array([1.  , 0.25, 0.  ], dtype=float32)

    Source:
      arXiv:2503.14476, eq. 13.
    """
    checks.static_number(minimum=1, buffer=buffer)
    checks.static_number(minimum=buffer, max_length=max_length)
    checks.static_number(minimum=0, penalty=penalty)
    checks.floating(rewards=rewards)
    checks.integer(group_ids=group_ids, lengths=lengths)
    checks.shape((None,), rewards=rewards)
    checks.shape(tuple(rewards.shape), group_ids=group_ids, lengths=lengths)
    over = (lengths - (max_length - buffer)).astype(jnp.float32) / buffer
    rewards = jax.lax.stop_gradient(jnp.asarray(rewards)).astype(jnp.float32)
    return rewards - penalty * jnp.clip(over, 0, 1)


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
