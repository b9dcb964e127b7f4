"""The completions of a step: one batch of prompts, or as many as dynamic sampling asks for."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from jaxgrpo.data import Prompt
from jaxgrpo.models import Params
from jaxgrpo.rewards import RewardPool
from jaxgrpo.rollouts import Rollout, collect
from jaxgrpo.rollouts.dynamic import fill, informative, join
from jaxgrpo.run.program import Program
from jaxgrpo.run.refusals import refuse_failed


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What a step learns from, and what it took to get it."""

    rollout: Rollout
    trained: Bool[np.ndarray, " P"] | None
    """Of each group, whether it is trained on; None: all are."""
    values: dict[str, float]
    """Metrics, of everything that was sampled."""
    tokens: int
    """Sampled, those of groups that were thrown away included."""


def draw(
    program: Program,
    pool: RewardPool,
    params: Params,
    batches: Iterator[Sequence[Prompt]],
    *,
    key: PRNGKeyArray,
    on_tick: Callable[[], None],
) -> Drawn:
    """Sample and score the step's prompts.

    Groups are judged by their raw rewards, whatever transforms make of these later.

    Args:
      program: of the run.
      pool: scores completions.
      params: of the policy.
      batches: of prompts; as many are taken as are sampled.
      key: of the step.
      on_tick: called while sampling and scoring.

    Raises:
      NumbersError: too many rewards failed.
    """
    experiment, sampler = program.experiment, program.sampler
    config, wanted = experiment.rollout.dynamic_sampling, experiment.rollout.prompts_per_step
    rollouts: list[Rollout] = []
    found = 0
    for number in range(config.max_batches if config.enabled else 1):
        rollout = collect(
            sampler,
            params,
            next(batches),
            program.tokenizer,
            pool,
            # Beyond all prompt ids, which the sampler folds in: a prompt that comes again within
            # the step has other completions.
            key=jax.random.fold_in(key, np.uint32(2**32 - number)) if number else key,
            group_size=experiment.rollout.group_size,
            demonstrations=experiment.rollout.demonstrations,
            greedy_sampler=program.greedy_sampler,
            on_tick=on_tick,
        )
        rollouts.append(rollout)
        failures = [score.failure for each in rollouts for score in each.scores]
        refuse_failed(failures, experiment.rewards.max_failed_fraction, "rewards")
        if config.enabled and (found := found + int(informative(rollout).sum())) >= wanted:
            break
    drawn = join(rollouts, sampler.config, sampler.pad_id)
    values, tokens = drawn.metrics(), int(drawn.completions.lengths[drawn.sampled].sum())
    if not config.enabled:
        return Drawn(drawn, None, values, tokens)
    filled, trained = fill(drawn, wanted, sampler.config, sampler.pad_id)
    values["sampling/batches"] = len(rollouts)
    values["sampling/groups_trained"] = int(trained.sum())
    return Drawn(filled, trained, values, tokens)
