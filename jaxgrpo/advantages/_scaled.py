"""Group baselines in other units: the batch's deviation, the others' own, the group's mean."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import ADVANTAGES
from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card

# In units of the span: below it the others' deviation is taken to be rounding.
_NO_VARIANCE = 1e-8


@ADVANTAGES.register(
    Card(
        formula="(R - group mean) / (batch std + eps)",
        source="Lite PPO, arXiv:2508.08221",
        level="batch",
        gradient="none",
        defaults="std with ddof 1; TRL scale_rewards = batch, ROLL, AReaL",
    )
)
def batch_normalised(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"], *, eps: float = 1e-6
) -> Float[Array, "B"]:
    """Reward minus group mean, in units of the standard deviation of all rewards of the batch.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      eps: Added to the standard deviation.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 2.0, 0.0, 2.0]), jnp.array([7, 7, 5, 5])
      >>> [f"{x:.3f}" for x in jg.advantages.batch_normalised(rewards, group_ids)]
      ['-0.866', '0.866', '-0.866', '0.866']

    Source:
      arXiv:2508.08221.
    """
    checks.static_number(minimum=0, eps=eps)
    group = _statistics.of_each(rewards, group_ids)
    together = jnp.zeros_like(group_ids)
    batch = _statistics.of_each(rewards, together)
    std = _statistics.std_of(batch, together)
    return (group.centred / (std + eps)).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="(R - mean of the others) / (std of the others + eps)",
        source="NeMo-RL use_leave_one_out_baseline",
        level="group",
        gradient="none",
        defaults="the default of NeMo-RL; std with ddof 1",
        disagreements=(
            "Two completions leave no deviation of the others, and equal others leave 0: the "
            "difference is then not scaled (NeMo-RL #1519 divided it by eps)."
        ),
    )
)
def leave_one_out_normalised(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"], *, eps: float = 1e-6
) -> Float[Array, "B"]:
    """Reward minus the mean of the group's others, in units of their standard deviation.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      eps: Added to the standard deviation.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0, 3.0]), jnp.array([7, 7, 7])
      >>> [f"{x:.3f}" for x in jg.advantages.leave_one_out_normalised(rewards, group_ids)]
      ['-1.414', '-0.236', '3.536']
    """
    checks.static_number(minimum=0, eps=eps)
    group = _statistics.of_each(rewards, group_ids)
    size = group.size.astype(group.centred.dtype)
    others = jnp.maximum(size - 1, 1)
    unit = group.centred / group.span
    group_ids, rows = jnp.asarray(group_ids), jnp.arange(unit.shape[0], dtype=jnp.int32)

    def squares_of_others(row: Array) -> Array:
        # By difference from the whole group's, a small deviation would be all rounding.
        member = (group_ids == group_ids[row]) & group.informative & (rows != row)
        mean = jnp.sum(jnp.where(member, unit, 0)) / others[row]
        return jnp.sum(jnp.where(member, (unit - mean) ** 2, 0))

    variance = jax.vmap(squares_of_others)(rows) / jnp.maximum(size - 2, 1)
    scaled = (group.size > 2) & (variance > _NO_VARIANCE)
    std = group.span * jnp.sqrt(jnp.where(scaled, variance, 1))
    difference = group.centred * (size / others)
    return (difference / jnp.where(scaled, std + eps, 1)).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="(R - mean) / mean; 0 where the mean is not positive",
        source="MaxRL, arXiv:2602.02710",
        level="group",
        gradient="none",
        disagreements=(
            "Meant for rewards of 0 and 1. A lone sample has 0 here; prime-rl #2985 disputes it."
        ),
    )
)
def max_rl(rewards: Float[Array, "B"], group_ids: Int[Array, "B"]) -> Float[Array, "B"]:
    """MaxRL's advantage: reward over group mean, minus 1; rare successes weigh most.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0, 0.0, 0.0]), jnp.array([7, 7, 7, 7])
      >>> jg.advantages.max_rl(rewards, group_ids)
      Array([-1.,  3., -1., -1.], dtype=float32)

    Source:
      arXiv:2602.02710.
    """
    group = _statistics.of_each(rewards, group_ids)
    rewards = jax.lax.stop_gradient(jnp.asarray(rewards)).astype(group.centred.dtype)
    mean = jnp.where(group.informative, rewards, 0) - group.centred
    usable = group.informative & (mean > 0)
    return jnp.where(usable, group.centred / jnp.where(usable, mean, 1), 0).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="N / #(R != 0) (R - mean) / norm",
        source="GPG, arXiv:2504.02546; verl's gpg",
        level="batch",
        gradient="none",
        defaults="norm 1",
        disagreements="The scale is a property of the whole batch, with zeros of the raw rewards.",
    )
)
def gpg(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"], *, norm: float = 1.0
) -> Float[Array, "B"]:
    """GPG's advantage: reward minus group mean, scaled up by the share of rewards that are not 0.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      norm: What the difference is divided by.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `norm` is not positive.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0, 0.0, 0.0]), jnp.array([7, 7, 5, 5])
      >>> jg.advantages.gpg(rewards, group_ids)
      Array([-2.,  2.,  0.,  0.], dtype=float32)

    Source:
      arXiv:2504.02546.
    """
    checks.static_number(above=0, norm=norm)
    group = _statistics.of_each(rewards, group_ids)
    scored = jnp.isfinite(rewards)
    count = jnp.sum(scored, dtype=jnp.int32).astype(group.centred.dtype)
    told = jnp.sum(scored & (rewards != 0), dtype=jnp.int32).astype(group.centred.dtype)
    return (group.centred * (count / jnp.maximum(told, 1)) / norm).astype(jnp.float32)
