"""Dynamic sampling: prompts are drawn until enough groups have rewards that differ."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from jaxgrpo.advantages import informative_groups
from jaxgrpo.rollouts.collect import Rollout, pad_prompts
from jaxgrpo.sampling import SamplingConfig


def join(rollouts: Sequence[Rollout], config: SamplingConfig, pad_id: int) -> Rollout:
    """Rollouts of the same policy as one, their groups in order."""
    if len(rollouts) == 1:
        return rollouts[0]
    prompts = [prompt for rollout in rollouts for prompt in rollout.prompts]
    completions = [rollout.completions for rollout in rollouts]
    return dataclasses.replace(
        rollouts[0],
        prompts=prompts,
        # Anew: another batch's longest prompt may be in another bucket.
        padded=pad_prompts(prompts, config, pad_id),
        completions=jax.tree.map(lambda *parts: np.concatenate(parts), *completions),
        texts=[text for rollout in rollouts for text in rollout.texts],
        scores=[score for rollout in rollouts for score in rollout.scores],
        greedy_scores=None
        if rollouts[0].greedy_scores is None
        else [score for rollout in rollouts for score in rollout.greedy_scores or ()],
        sampling_seconds=sum(rollout.sampling_seconds for rollout in rollouts),
        reward_seconds=sum(rollout.reward_seconds for rollout in rollouts),
    )


def informative(rollout: Rollout) -> Bool[np.ndarray, " P"]:
    """Of each group, whether its raw rewards differ."""
    rows = np.asarray(
        informative_groups(jnp.asarray(rollout.rewards), jnp.asarray(rollout.group_ids))
    )
    return rows.reshape(-1, rollout.group_size)[:, 0]


def fill(
    drawn: Rollout, groups: int, config: SamplingConfig, pad_id: int
) -> tuple[Rollout, Bool[np.ndarray, " P"]]:
    """The first informative groups; where they are too few, others take the remaining places.

    Args:
      drawn: everything sampled for the step.
      groups: how many the step takes.
      config: of the sampler.
      pad_id: what pads prompts.

    Returns:
      The rollout of so many groups, in the order drawn, and which of them are to be trained on.
    """
    told = informative(drawn)
    first = np.flatnonzero(told)[:groups]
    spare = np.flatnonzero(~told)[: groups - len(first)]
    chosen = np.sort(np.concatenate([first, spare]))
    return _take(drawn, chosen, config, pad_id), told[chosen]


def _take(
    rollout: Rollout, groups: Int[np.ndarray, " P"], config: SamplingConfig, pad_id: int
) -> Rollout:
    fan = rollout.group_size
    rows = (groups[:, None] * fan + np.arange(fan)).reshape(-1)
    prompts = [rollout.prompts[group] for group in groups.tolist()]
    return dataclasses.replace(
        rollout,
        prompts=prompts,
        padded=pad_prompts(prompts, config, pad_id),
        completions=jax.tree.map(lambda leaf: leaf[rows], rollout.completions),
        texts=[rollout.texts[row] for row in rows.tolist()],
        scores=[rollout.scores[row] for row in rows.tolist()],
        greedy_scores=None
        if rollout.greedy_scores is None
        else [rollout.greedy_scores[group] for group in groups.tolist()],
    )
