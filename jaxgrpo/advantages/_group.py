"""The group baselines: GRPO, Dr. GRPO and RLOO."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import ADVANTAGES
from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card


@ADVANTAGES.register(
    Card(
        formula="(R - mean) / (std + eps)",
        source="GRPO, arXiv:2402.03300, section 4.1.2",
        level="group",
        gradient="none",
        defaults="std with ddof 1; eps 1e-6 (verl, Tunix, SkyRL), 1e-4 (TRL)",
        disagreements=(
            "With eps alone against float noise, equal rewards can get advantages of order 1; "
            "here a group of equal rewards is recognised and gets exactly 0."
        ),
    )
)
def group_normalised(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    ddof: int = 1,
    eps: float = 1e-6,
) -> Float[Array, "B"]:
    """GRPO's advantage: reward minus group mean, in units of the group's standard deviation.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      ddof: The standard deviation divides by the group's count minus this: 0 or 1.
      eps: Added to the standard deviation.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards
      (equal to 4 units in the last place).

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], `ddof` is not 0 or 1, or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 3.0, 5.0, 6.0]), jnp.array([7, 7, 2, 7])
      >>> jg.advantages.group_normalised(rewards, group_ids, eps=0.0)
      Array([-1.,  0.,  0.,  1.], dtype=float32)

    Source:
      arXiv:2402.03300, section 4.1.2.
    """
    checks.static_number(minimum=0, eps=eps)
    if ddof not in (0, 1):
        raise ValueError(f"ddof must be 0 or 1, got {ddof}")
    group = _statistics.of_each(rewards, group_ids)
    std = _statistics.std_of(group, group_ids, ddof=ddof)
    return (group.centred / (std + eps)).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="R - mean",
        source="Dr. GRPO, arXiv:2503.20783",
        level="group",
        gradient="none",
    )
)
def group_centred(rewards: Float[Array, "B"], group_ids: Int[Array, "B"]) -> Float[Array, "B"]:
    """Dr. GRPO's advantage: reward minus group mean.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards
      (equal to 4 units in the last place).

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.group_centred(jnp.array([0.0, 3.0, 5.0, 6.0]), jnp.array([7, 7, 2, 7]))
      Array([-3.,  0.,  0.,  3.], dtype=float32)

    Source:
      arXiv:2503.20783.
    """
    return _statistics.of_each(rewards, group_ids).centred.astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="R - mean of the others = (R - mean) G / (G - 1)",
        source="RLOO, arXiv:2402.14740",
        level="group",
        gradient="none",
        disagreements="A lone sample keeps its reward in verl's rloo; here and in SkyRL it gets 0.",
    )
)
def leave_one_out(rewards: Float[Array, "B"], group_ids: Int[Array, "B"]) -> Float[Array, "B"]:
    """RLOO's advantage: reward minus the mean reward of the group's other completions.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards
      (equal to 4 units in the last place).

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.advantages.leave_one_out(jnp.array([0.0, 3.0, 5.0, 6.0]), jnp.array([7, 7, 2, 7]))
      Array([-4.5,  0. ,  0. ,  4.5], dtype=float32)

    Source:
      arXiv:2402.14740.
    """
    group = _statistics.of_each(rewards, group_ids)
    others = jnp.maximum(group.size - 1, 1).astype(group.centred.dtype)
    return (group.centred * (group.size.astype(others.dtype) / others)).astype(jnp.float32)
