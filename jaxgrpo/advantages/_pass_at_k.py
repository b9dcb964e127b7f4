"""Advantages for the best of several: pass@k training, PKPO, and the best completion alone."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.registry import Card


@ADVANTAGES.register(
    Card(
        formula="(R_max - R_second) / (std + eps) for the best completion, 0 for the others",
        source="arXiv:2503.19595; verl grpo_passk",
        level="group",
        gradient="none",
        disagreements="Two best completions leave nothing to either.",
    )
)
def best_of_group(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"], *, eps: float = 1e-6
) -> Float[Array, "B"]:
    """Only the group's best completion is reinforced, by its lead over the second.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      eps: Added to the group's standard deviation.

    Returns:
      [B] float32, without gradient; never negative, and a group does not sum to 0.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 3.0, 6.0]), jnp.array([7, 7, 7])
      >>> jg.advantages.best_of_group(rewards, group_ids, eps=0.0)
      Array([0., 0., 1.], dtype=float32)

    Source:
      arXiv:2503.19595.
    """
    checks.static_number(minimum=0, eps=eps)
    group = _statistics.of_each(rewards, group_ids)
    member, centred = group.informative, group.centred
    top = over_group(jnp.max, centred, group_ids, where=member, initial=-jnp.inf)
    best = member & (centred == top)
    second = over_group(jnp.max, centred, group_ids, where=member & ~best, initial=-jnp.inf)
    alone = over_group(jnp.sum, best.astype(jnp.int32), group_ids, initial=0) == 1
    lead = jnp.where(best & alone, centred - second, 0)
    return (lead / (_statistics.std_of(group, group_ids) + eps)).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="(1 - P) / s if correct, (1 - P - C(w-1,k-1) / C(n-1,k-1)) / s if not",
        source="pass@k training, arXiv:2508.10751, analytic form",
        level="group",
        gradient="none",
        defaults="k 4; correct is a reward above 0.5",
        disagreements="P = 1 - C(w,k) / C(n,k), w of n wrong; s = sqrt(P (1 - P)). 0 if n < k.",
    )
)
def pass_at_k_normalised(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    k: int = 4,
    threshold: float = 0.5,
) -> Float[Array, "B"]:
    """GRPO's advantage with pass@k for the reward, over all subsets of the group at once.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      k: Size of the subsets, at least 1.
      threshold: A completion is correct if its reward is larger.

    Returns:
      [B] float32, without gradient; each group sums to 0. Exactly 0 if every subset of k passes, if
      none does, and if the group has less than k completions.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `k` is less than 1.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0, 0.0]), jnp.array([7, 7, 7])
      >>> [f"{x:.3f}" for x in jg.advantages.pass_at_k_normalised(rewards, group_ids, k=2)]
      ['-0.354', '0.707', '-0.354']

    Source:
      arXiv:2508.10751.
    """
    checks.static_number(minimum=1, k=k)
    group, correct, wrong, size = _counts(rewards, group_ids, threshold)
    failing = _subsets_within(wrong, size, k)  # 1 - P
    spread = jnp.sqrt(failing * (1 - failing))
    usable = group.informative & (size >= k) & (spread > 0)
    excess = failing - jnp.where(correct, 0, _subsets_within(wrong - 1, size - 1, k - 1))
    return jnp.where(usable, excess / jnp.where(usable, spread, 1), 0).astype(jnp.float32)


@REWARD_TRANSFORMS.register(
    Card(
        formula="k/n if correct, (k/n)(1 - C(n-1-c,k-1) / C(n-1,k-1)) if not; c of n correct",
        source="PKPO, arXiv:2505.15201",
        level="group",
        gradient="none",
        defaults="k 4; correct is a reward above 0.5",
        disagreements="For the leave-one-out forms, follow it with a baseline from ADVANTAGES.",
    )
)
def pass_at_k_rewards(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    k: int = 4,
    threshold: float = 0.5,
) -> Float[Array, "B"]:
    """Rewards whose policy gradient is an unbiased estimate of that of pass@k.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored, and stays.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      k: Number of attempts, at least 1.
      threshold: A completion is correct if its reward is larger.

    Returns:
      [B] float32, without gradient; their sum over a group is k times the estimate of pass@k. nan
      in a group of less than k completions.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `k` is less than 1.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0, 0.0, 0.0]), jnp.array([7, 7, 7, 7])
      >>> [f"{x:.3f}" for x in jg.advantages.pass_at_k_rewards(rewards, group_ids, k=2)]
      ['0.167', '0.500', '0.167', '0.167']

    Source:
      arXiv:2505.15201.
    """
    checks.static_number(minimum=1, k=k)
    _, correct, wrong, size = _counts(rewards, group_ids, threshold)
    share = k / jnp.maximum(size, 1)
    helped = 1 - _subsets_within(wrong - 1, size - 1, k - 1)
    values = share * jnp.where(correct, 1, helped)
    return jnp.where(jnp.isfinite(rewards) & (size >= k), values, jnp.nan).astype(jnp.float32)


def _counts(
    rewards: Array, group_ids: Array, threshold: float
) -> tuple[_statistics.Group, Bool[Array, "B"], Float[Array, "B"], Float[Array, "B"]]:
    """The group, which are correct, and how many of the group are wrong, and scored at all."""
    group = _statistics.of_each(rewards, group_ids)
    scored = jnp.isfinite(rewards)
    wrong = over_group(
        jnp.sum, (scored & ~(rewards > threshold)).astype(jnp.int32), group_ids, initial=0
    )
    dtype = group.centred.dtype
    return group, scored & (rewards > threshold), wrong.astype(dtype), group.size.astype(dtype)


def _subsets_within(few: Array, many: Array, k: int) -> Array:
    """C(few, k) / C(many, k), factor by factor: the share of subsets of k inside the few."""
    share = jnp.ones_like(many)
    for j in range(k):
        share = share * jnp.maximum(few - j, 0) / jnp.maximum(many - j, 1)
    return share
