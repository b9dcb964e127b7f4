"""Rewards that mind how long a completion is, or that it was cut off."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import REWARD_TRANSFORMS
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.registry import Card


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


@REWARD_TRANSFORMS.register(
    Card(
        formula="R + weight s, s = 1/2 - (n - shortest) / (longest - shortest), at most 0 if wrong",
        source="Kimi k1.5, arXiv:2501.12599, section 2.3.3; prime-rl has one like it",
        level="group",
        gradient="none",
        defaults="weight 1, as published; it is to be warmed up there",
        disagreements="Right is a reward above `threshold`. Lengths are of the scored completions.",
        needs=("lengths",),
    )
)
def length_penalised(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    lengths: Int[Array, "B"],
    weight: float = 1.0,
    threshold: float = 0.0,
) -> Float[Array, "B"]:
    """Rewards with a part that falls with the length among the completions of the group.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored, and stays.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      lengths: [B] int. Tokens of each completion.
      weight: Of the part that length has: the shortest right one gains half of it, the longest
        loses half; wrong ones only lose.
      threshold: A reward above it is right.

    Returns:
      [B] float32, without gradient; unchanged where a group's completions are of equal length.

    Raises:
      TypeError: rewards are not floating point, or group ids or lengths are not integers.
      ValueError: the shapes are not [B], or `weight` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([1.0, 1.0, 0.0]), jnp.array([7, 7, 7])
      >>> jg.advantages.length_penalised(
      ...     rewards, group_ids, lengths=jnp.array([2, 6, 4]), weight=0.5
      ... )
      Array([1.25, 0.75, 0.  ], dtype=float32)

    Source:
      arXiv:2501.12599, section 2.3.3.
    """
    checks.static_number(minimum=0, weight=weight)
    plain, scored = _statistics.scored_rewards(rewards, group_ids)
    checks.integer(lengths=lengths)
    checks.shape(tuple(plain.shape), lengths=lengths)
    tokens = jnp.asarray(lengths).astype(plain.dtype)
    low = over_group(jnp.min, tokens, group_ids, where=scored, initial=jnp.inf)
    high = over_group(jnp.max, tokens, group_ids, where=scored, initial=-jnp.inf)
    differ = scored & (high > low)
    part = 0.5 - jnp.where(differ, tokens - low, 0) / jnp.where(differ, high - low, 1)
    part = jnp.where(plain > threshold, part, jnp.minimum(part, 0))
    shaped = plain + jnp.where(differ, weight * part, 0)
    return jnp.where(scored, shaped, jax.lax.stop_gradient(jnp.asarray(rewards))).astype(
        jnp.float32
    )


@REWARD_TRANSFORMS.register(
    Card(
        formula="factor R + offset for completions that were cut off, R for the others",
        source="AReaL mask_no_eos_with_zero (factor 0); OpenRLHF, NeMo-RL stop properly (a factor)",
        level="sequence",
        gradient="none",
        defaults="factor 0, offset 0: AReaL's",
        needs=("truncated",),
    )
)
def truncated_penalised(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    truncated: Bool[Array, "B"],
    factor: float = 0.0,
    offset: float = 0.0,
) -> Float[Array, "B"]:
    """Rewards of completions that never came to an end, scaled or replaced.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored, and stays.
      group_ids: [B] int. Not used; every transform takes it.
      truncated: [B] bool. Cut off at the longest length.
      factor: Of their reward.
      offset: Added to it then; with a factor of 0 their reward.

    Returns:
      [B] float32, without gradient.

    Raises:
      TypeError: rewards are not floating point, group ids not integers or `truncated` not bool.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.truncated_penalised(
      ...     jnp.ones(2), jnp.array([7, 7]), truncated=jnp.array([True, False]), offset=-0.5
      ... )
      Array([-0.5,  1. ], dtype=float32)
    """
    checks.static_number(factor=factor, offset=offset)
    plain, scored = _statistics.scored_rewards(rewards, group_ids)
    checks.boolean(truncated=truncated)
    checks.shape(tuple(plain.shape), truncated=truncated)
    shaped = jnp.where(truncated, factor * plain + offset, plain)
    return jnp.where(scored, shaped, jax.lax.stop_gradient(jnp.asarray(rewards))).astype(
        jnp.float32
    )
