"""Rewards shared out by entropy: uncertain tokens and completions are credited with more."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._group import group_normalised
from jaxgrpo.advantages._registry import ADVANTAGES
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group, sum_over_group
from jaxgrpo.core.masking import masked_mean, zero_where_masked
from jaxgrpo.core.registry import Card

_INFERRED = (
    "The paper's default shares and what it normalises over are not known to us: a tenth, and the "
    "whole group, are ours. A group of equal rewards has advantage 0."
)


@ADVANTAGES.register(
    Card(
        formula="+(1 - a + a d_t H_t / sum H_t) if R > 0, -(1 - a + a h_t H_t^-1 / sum H_t^-1) "
        "else; normalised over the group's tokens",
        source="GTPO, arXiv:2508.04349",
        level="group",
        gradient="none",
        defaults="a 0.1, floor 0.001 nats; ours",
        disagreements=_INFERRED,
        needs=("entropies",),
    )
)
def gtpo(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    where: Bool[Array, "B T"],
    entropies: Float[Array, "B T"],
    share: float = 0.1,
    threshold: float = 0.0,
    floor: float = 1e-3,
    eps: float = 1e-6,
) -> Float[Array, "B T"]:
    """GTPO's advantage: a token's part of the reward by its entropy among the group's tokens there.

    Correct completions share out more to tokens of high entropy, wrong ones more blame to tokens of
    low entropy; compared are the tokens at the same position, of d_t correct and h_t wrong ones.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      where: [B, T] bool. Trainable tokens.
      entropies: [B, T], nats. Of the policy at each token, before the step.
      share: Part of the reward, from 0 to 1, that goes by entropy.
      threshold: A reward above it is correct.
      floor: Entropies below it, in nats, count as it.
      eps: Added to the standard deviation.

    Returns:
      [B, T] float32, without gradient; 0 outside `where`, and in a group of equal rewards.

    Raises:
      TypeError: an input is not floating point, group ids not integers, or `where` is not bool.
      ValueError: the shapes do not fit, or an option is out of range.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> advantages = jg.advantages.gtpo(
      ...     jnp.array([1.0, 0.0]),
      ...     jnp.array([7, 7]),
      ...     where=jnp.ones((2, 2), bool),
      ...     entropies=jnp.ones((2, 2)),
      ...     eps=0.0,
      ... )
      >>> [[f"{x:.3f}" for x in row] for row in advantages]
      [['0.866', '0.866'], ['-0.866', '-0.866']]

    Source:
      arXiv:2508.04349; what is normalised over is inferred.
    """
    _check(share, floor, eps)
    group = _statistics.of_each(rewards, group_ids)
    checks.per_token(entropies=entropies, where=where)
    checks.shape((group.centred.shape[0], None), entropies=entropies)
    where = jnp.asarray(where) & group.informative[:, None]
    live = _floored(entropies, where, floor, group.centred.dtype)
    correct = where & (_plain(rewards) > threshold)[:, None]
    wrong = where & ~correct
    praise = _relative(live, correct, group_ids)
    blame = _relative(1 / live, wrong, group_ids)
    shaped = jnp.where(correct, 1 - share + share * praise, -(1 - share + share * blame))
    shaped = zero_where_masked(shaped, where)

    def total(values: Array) -> Array:
        return over_group(jnp.sum, jnp.sum(values, axis=1), group_ids, initial=0)[:, None]

    count = total(where.astype(shaped.dtype))
    moved = zero_where_masked(shaped - total(shaped) / jnp.maximum(count, 1), where)
    variance = total(moved * moved) / jnp.maximum(count - 1, 1)
    # Rewards may differ and yet be correct all of them.
    differ = variance > _statistics.noise_of(jnp.ones_like(variance))
    std = jnp.sqrt(jnp.where(differ, variance, 1))
    return jnp.where(where & differ, moved / (std + eps), 0).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="group_normalised of +(1 - b + b n H / sum H) if R > 0, "
        "-(1 - b + b m H^-1 / sum H^-1) else; H the mean entropy",
        source="GRPO-S, arXiv:2508.04349",
        level="group",
        gradient="none",
        defaults="b 0.1, floor 0.001 nats; ours",
        disagreements=_INFERRED,
        needs=("entropies",),
    )
)
def grpo_s(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    where: Bool[Array, "B T"],
    entropies: Float[Array, "B T"],
    share: float = 0.1,
    threshold: float = 0.0,
    floor: float = 1e-3,
    eps: float = 1e-6,
) -> Float[Array, "B"]:
    """GRPO-S's advantage: GRPO's, of rewards shared out by the mean entropy of completions.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      where: [B, T] bool. Trainable tokens.
      entropies: [B, T], nats. Of the policy at each token, before the step.
      share: Part of the reward, from 0 to 1, that goes by entropy.
      threshold: A reward above it is correct.
      floor: Mean entropies below it, in nats, count as it.
      eps: Added to the standard deviation.

    Returns:
      [B] float32, without gradient; 0 in a group of equal rewards.

    Raises:
      TypeError: an input is not floating point, group ids not integers, or `where` is not bool.
      ValueError: the shapes do not fit, or an option is out of range.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> advantages = jg.advantages.grpo_s(
      ...     jnp.array([1.0, 1.0, 0.0]),
      ...     jnp.array([7, 7, 7]),
      ...     where=jnp.ones((3, 1), bool),
      ...     entropies=jnp.array([[3.0], [1.0], [1.0]]),
      ...     eps=0.0,
      ... )
      >>> [f"{x:.3f}" for x in advantages]
      ['0.620', '0.534', '-1.154']

    Source:
      arXiv:2508.04349; what is normalised over is inferred.
    """
    _check(share, floor, eps)
    group = _statistics.of_each(rewards, group_ids)
    checks.per_token(entropies=entropies, where=where)
    checks.shape((group.centred.shape[0], None), entropies=entropies)
    scored = group.informative[:, None]
    means = masked_mean(jax.lax.stop_gradient(entropies), jnp.asarray(where), -1)[:, None]
    live = _floored(means, scored, floor, group.centred.dtype)
    correct = scored & (_plain(rewards) > threshold)[:, None]
    praise = _relative(live, correct, group_ids)
    blame = _relative(1 / live, scored & ~correct, group_ids)
    shaped = jnp.where(correct, 1 - share + share * praise, -(1 - share + share * blame))
    # Not scored: groups that have nothing to tell.
    return group_normalised(jnp.where(scored, shaped, jnp.nan)[:, 0], group_ids, eps=eps)


def _relative(values: Array, where: Array, group_ids: Array) -> Array:
    """Each value over the mean of those of its group at its position."""
    kept = zero_where_masked(values, where)
    total = sum_over_group(kept, group_ids)
    count = sum_over_group(where.astype(kept.dtype), group_ids)
    return count * kept / jnp.where(total > 0, total, 1)


def _floored(entropies: Array, where: Array, floor: float, dtype: jnp.dtype) -> Array:
    detached = jax.lax.stop_gradient(jnp.asarray(entropies)).astype(dtype)
    return jnp.where(where, jnp.maximum(detached, floor), 1)


def _plain(rewards: Array) -> Array:
    return jax.lax.stop_gradient(jnp.asarray(rewards))


def _check(share: float, floor: float, eps: float) -> None:
    checks.static_number(minimum=0, maximum=1, share=share)
    checks.static_number(above=0, floor=floor)
    checks.static_number(minimum=0, eps=eps)
