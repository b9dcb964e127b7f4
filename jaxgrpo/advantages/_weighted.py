"""Baselines that know how long completions are, or that there are several rewards."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._group import group_normalised
from jaxgrpo.advantages._registry import ADVANTAGES
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.registry import Card


@ADVANTAGES.register(
    Card(
        formula="R - sum(n R) / sum(n), n the lengths",
        source="OPO, arXiv:2505.23585",
        level="group",
        gradient="none",
        defaults="verl opo",
        needs=("lengths",),
    )
)
def optimal_baseline(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"], *, lengths: Int[Array, "B"]
) -> Float[Array, "B"]:
    """OPO's advantage: reward minus the length-weighted mean, the baseline of least variance.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      lengths: [B] int. Trainable tokens of each completion.

    Returns:
      [B] float32, without gradient. Exactly 0 for a lone sample and in a group of equal rewards.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 1.0]), jnp.array([7, 7])
      >>> jg.advantages.optimal_baseline(rewards, group_ids, lengths=jnp.array([1, 3]))
      Array([-0.75,  0.25], dtype=float32)

    Source:
      arXiv:2505.23585.
    """
    group = _statistics.of_each(rewards, group_ids)
    tokens = _lengths(lengths, group.centred)
    weights = jnp.where(group.informative, tokens, 0)
    total = over_group(jnp.sum, weights, group_ids, initial=0)
    shift = over_group(jnp.sum, weights * group.centred, group_ids, initial=0)
    centred = group.centred - shift / jnp.where(total > 0, total, 1)
    return jnp.where(group.informative, centred, 0).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="R - group mean, whitened over all trainable tokens",
        source="REINFORCE++-baseline, arXiv:2501.03262; verl, slime, OpenRLHF",
        level="batch",
        gradient="none",
        disagreements=(
            "A group of equal rewards is not at 0, but at minus the mean over tokens. Padding does "
            "not count (verl #1527)."
        ),
        needs=("lengths",),
    )
)
def whitened_over_tokens(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    lengths: Int[Array, "B"],
    eps: float = 1e-6,
) -> Float[Array, "B"]:
    """REINFORCE++-baseline: group-centred rewards with mean 0 and deviation 1 over the tokens.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      lengths: [B] int. Trainable tokens of each completion.
      eps: Added to the standard deviation.

    Returns:
      [B] float32, without gradient.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([0.0, 2.0]), jnp.array([7, 7])
      >>> advantages = jg.advantages.whitened_over_tokens(
      ...     rewards, group_ids, lengths=jnp.array([1, 3]), eps=0.0
      ... )
      >>> [f"{x:.3f}" for x in advantages]
      ['-1.500', '0.500']

    Source:
      arXiv:2501.03262.
    """
    checks.static_number(minimum=0, eps=eps)
    group = _statistics.of_each(rewards, group_ids)
    scored = jnp.isfinite(rewards)
    tokens = jnp.where(scored, _lengths(lengths, group.centred), 0)
    count = jnp.sum(tokens)
    largest = jnp.max(jnp.abs(group.centred))
    unit = group.centred / jnp.where(largest > 0, largest, 1)
    moved = unit - jnp.sum(tokens * unit) / jnp.maximum(count, 1)
    variance = jnp.sum(tokens * moved * moved) / jnp.maximum(count - 1, 1)
    std = largest * jnp.sqrt(jnp.where(variance > 0, variance, 1))
    usable = scored & (largest > 0) & (variance > 0)
    return jnp.where(usable, largest * moved / jnp.where(usable, std + eps, 1), 0).astype(
        jnp.float32
    )


@ADVANTAGES.register(
    Card(
        formula="group_normalised over the `keep` best of a group by length or reward per token",
        source="GFPO, arXiv:2508.09726",
        level="group",
        gradient="none",
        defaults="keep 8, by length; EasyDeL",
        disagreements=(
            "Completions that are not kept are in no statistic and have advantage 0. Equals of the "
            "last one kept are kept too, so that the order of rows does not matter."
        ),
        needs=("lengths",),
    )
)
def filtered_group(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    lengths: Int[Array, "B"],
    keep: int = 8,
    by: Literal["length", "efficiency"] = "length",
    eps: float = 1e-6,
) -> Float[Array, "B"]:
    """GFPO's advantage: GRPO's over the shortest, or the most efficient, completions of a group.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      lengths: [B] int. Trainable tokens of each completion.
      keep: Completions kept in each group.
      by: "length": the shortest; "efficiency": the most reward a token.
      eps: Added to the standard deviation.

    Returns:
      [B] float32, without gradient; 0 for completions that are not kept.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B], `keep` is less than 1, or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, group_ids = jnp.array([1.0, 0.0, 0.0]), jnp.array([7, 7, 7])
      >>> advantages = jg.advantages.filtered_group(
      ...     rewards, group_ids, lengths=jnp.array([2, 3, 9]), keep=2
      ... )
      >>> [f"{x:.3f}" for x in advantages]
      ['0.707', '-0.707', '0.000']

    Source:
      arXiv:2508.09726.
    """
    checks.static_number(minimum=1, keep=keep)
    group = _statistics.of_each(rewards, group_ids)
    tokens = _lengths(lengths, group.centred)
    scored = jnp.isfinite(rewards)
    merit = -tokens
    if by == "efficiency":
        merit = jnp.where(scored, jnp.asarray(rewards), 0).astype(tokens.dtype) / jnp.maximum(
            tokens, 1
        )
    kept = _statistics.ranks(merit, group_ids, scored) < keep
    return group_normalised(jnp.where(kept, rewards, jnp.nan), group_ids, eps=eps)


@ADVANTAGES.register(
    Card(
        formula="sum_r w_r group_normalised(R_r), over its std in the batch",
        source="GDPO, arXiv:2601.05242",
        level="batch",
        gradient="none",
        defaults="equal weights; verl, TRL normalize_then_sum, NeMo-RL",
        disagreements="Not centred again over the batch: every group sums to 0 already.",
        needs=("function_rewards", "weights"),
    )
)
def gdpo(
    rewards: Float[Array, "B"] | Float[Array, "B R"],
    group_ids: Int[Array, "B"],
    *,
    function_rewards: Float[Array, "B R"] | None = None,
    weights: Float[Array, "R"] | None = None,
    eps: float = 1e-6,
) -> Float[Array, "B"]:
    """GDPO's advantage: each reward normalised in its group on its own, then summed and scaled.

    Args:
      rewards: [B, R], one of each kind a completion, or [B]; a row with any nan or inf is not
        scored.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      function_rewards: [B, R]. The kinds of reward, where `rewards` [B] holds their sum; a row
        whose sum is nan is not scored.
      weights: [R]. Of the kinds of reward; None for 1 each.
      eps: Added to the standard deviations.

    Returns:
      [B] float32, without gradient. Exactly 0 where every reward is equal in the group.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes do not fit, or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards = jnp.array([[0.0, 5.0], [1.0, 5.0], [1.0, 5.0]])
      >>> [f"{x:.3f}" for x in jg.advantages.gdpo(rewards, jnp.array([7, 7, 7]))]
      ['-1.155', '0.577', '0.577']

    Source:
      arXiv:2601.05242.
    """
    checks.static_number(minimum=0, eps=eps)
    checks.floating(rewards=rewards)
    rewards = jnp.asarray(rewards)
    table = rewards[:, None] if rewards.ndim == 1 else rewards
    if function_rewards is not None:
        checks.floating(function_rewards=function_rewards)
        checks.shape((table.shape[0], None), function_rewards=function_rewards)
        table = jnp.where(jnp.isfinite(table).all(axis=1)[:, None], function_rewards, jnp.nan)
    checks.shape((None, None), rewards=table)
    kinds = table.shape[1]
    weights = jnp.ones(kinds, jnp.float32) if weights is None else jnp.asarray(weights)
    checks.shape((kinds,), weights=weights)
    scored = jnp.all(jnp.isfinite(table), axis=1)
    table = jnp.where(scored[:, None], table, jnp.nan)
    each = jax.vmap(lambda x: group_normalised(x, group_ids, eps=eps), in_axes=1, out_axes=1)(table)
    total = jnp.sum(each * weights.astype(each.dtype)[None, :], axis=1)
    count = jnp.sum(scored, dtype=jnp.int32)
    variance = jnp.sum(total * total) / jnp.maximum(count - 1, 1).astype(total.dtype)
    std = jnp.sqrt(jnp.where(variance > 0, variance, 1))
    return jnp.where(variance > 0, total / (std + eps), 0)


def _lengths(lengths: Array, like: Array) -> Array:
    checks.integer(lengths=lengths)
    checks.shape(tuple(like.shape), lengths=lengths)
    return jnp.asarray(lengths).astype(like.dtype)
