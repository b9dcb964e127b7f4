"""From a rollout to the batch that its optimiser steps share out among them."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from jaxgrpo.advantages.credit import batch_arrays
from jaxgrpo.losses.reasons import Reason
from jaxgrpo.models import Params, TokenScores
from jaxgrpo.rollouts import Rollout, whole_batch
from jaxgrpo.rollouts.gates import leave_out
from jaxgrpo.run.program import Program
from jaxgrpo.sampling import StopReason
from jaxgrpo.training import Batch


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A batch, all rows of it, with what was worked out on the way."""

    batch: Batch
    entropies: Float[np.ndarray, "B T"] | None
    """Nats, of the policy before the step; None where nothing needs them."""
    values: dict[str, float]
    """Metrics."""


def make_batch(
    program: Program,
    params: Params,
    reference: Params | None,
    rollout: Rollout,
    trained: Bool[np.ndarray, " P"] | None = None,
) -> Prepared:
    """The rollout's rows with everything that its updates need: advantages, masks, weights.

    Advantages come before masks: a completion that isn't trained on still tells how good its group
    is. Weights come after them, and are made once: they are constants of the rollout.

    Args:
      program: of the run.
      params: of the policy that sampled it.
      reference: frozen parameters, or None.
      rollout: from `draw`.
      trained: of each group, whether it is trained on; None: all are.
    """
    experiment = program.experiment
    batch = whole_batch(rollout, experiment.rollout.sampling)
    scores = _scored(program, params, batch) if _scores(program) else None
    log_probs, entropies = (None, None)
    if scores is not None:
        log_probs, entropies = scores.log_probs, _on_host(scores.entropies)
    if batch.off_policy is not None and log_probs is not None:
        # As if the policy before the step had sampled them: every ratio begins at 1.
        own = np.where(batch.off_policy, log_probs, batch.behaviour_log_probs)
        batch = dataclasses.replace(batch, behaviour_log_probs=own)
    if experiment.anchor != "live":
        ours = experiment.anchor == "proximal"
        chosen = log_probs if ours else batch.behaviour_log_probs
        batch = dataclasses.replace(batch, anchor_log_probs=chosen)
    if _needs_anchor_entropies(program):
        batch = dataclasses.replace(batch, anchor_entropies=entropies)
    values: dict[str, float] = {}
    batch = _with_advantages(program, batch, rollout, trained, scores, values)
    batch = _masked(program, batch, rollout, trained)
    if program.weights:
        batch = _with_weights(program, batch, log_probs, values)
    if reference is not None and program.objective.uses_reference_log_probs:
        scored = _scored(program, reference, batch)
        batch = dataclasses.replace(batch, reference_log_probs=scored.log_probs)
    return Prepared(batch, entropies, values)


def _scores(program: Program) -> bool:
    """Whether something needs a pass of the policy over its own samples before the step."""
    experiment = program.experiment
    return (
        experiment.anchor == "proximal"
        or experiment.rollout.demonstrations > 0
        or _needs_anchor_entropies(program)
        or bool(program.weights)
        or experiment.loss.top_entropy_fraction < 1
        or bool({"entropies", "squared_probs"} & program.credit.needs)
    )


def _needs_anchor_entropies(program: Program) -> bool:
    # With a single optimiser step they are the live policy's own.
    several = program.experiment.training.updates > 1
    return several and "anchor_entropies" in program.objective.needs


def _with_advantages(
    program: Program,
    batch: Batch,
    rollout: Rollout,
    trained: np.ndarray | None,
    scores: TokenScores | None,
    values: dict[str, float],
) -> Batch:
    credit, functions = program.credit, program.experiment.rewards.functions
    rewards = rollout.rewards
    if trained is not None:
        # Not scored: groups that only fill the step are in no statistic of it.
        rewards = np.where(np.repeat(trained, rollout.group_size), rewards, np.float32(np.nan))
    arrays = batch_arrays(
        where=np.asarray(batch.trainable),
        lengths=np.asarray(batch.completion_lengths),
        behaviour_log_probs=np.asarray(batch.behaviour_log_probs),
        function_rewards=rollout.function_rewards([function.name for function in functions]),
        weights=np.array([function.weight for function in functions], np.float32),
        group_ids=rollout.group_ids,
        truncated=rollout.completions.stop_reasons == StopReason.LENGTH,
        entropies=_on_host(scores.entropies if scores else None),
        squared_probs=_on_host(scores.squared_probs if scores else None),
        greedy_rewards=rollout.greedy_rewards,
    )
    shaped = credit.shaped(rewards, **arrays)
    if credit.reward_transforms:
        scored = shaped[np.isfinite(shaped)]
        values["reward/shaped_mean"] = float(scored.mean()) if scored.size else float("nan")
    advantages: Any = credit.advantages(shaped, **arrays)
    return dataclasses.replace(batch, advantages=advantages)


def _masked(program: Program, batch: Batch, rollout: Rollout, trained: np.ndarray | None) -> Batch:
    config, shape = program.experiment.rollout, batch.trainable.shape
    if config.mask_truncated:
        rows = rollout.completions.stop_reasons == StopReason.LENGTH
        tokens = np.broadcast_to(rows[:, None], shape)
        batch = leave_out(batch, tokens, Reason.TRUNCATED, counted=config.count_truncated)
    if trained is not None:
        rows = np.repeat(~trained, rollout.group_size)
        tokens = np.broadcast_to(rows[:, None], shape)
        batch = leave_out(batch, tokens, Reason.ZERO_VARIANCE, counted=False)
    return batch


def _with_weights(
    program: Program, batch: Batch, log_probs: Any, values: dict[str, float]
) -> Batch:
    weighed = jax.device_get(
        program.weigh(log_probs, batch.behaviour_log_probs, batch.advantages, batch.trainable)
    )
    values |= {name: float(value) for name, value in weighed.metrics.items()}
    uncounted = batch.trainable & ~weighed.trainable
    denominators = batch.trainable if batch.counted is None else batch.counted
    before = 0 if batch.dropped is None else batch.dropped
    changes: dict[str, Any] = {
        "trainable": weighed.trainable,
        "counted": denominators & ~uncounted,
        "token_weights": weighed.weights,
        # Of other tokens: these were trainable until now.
        "dropped": before + weighed.dropped,
    }
    return dataclasses.replace(batch, **changes)


def _on_host(array: Any) -> np.ndarray | None:
    return None if array is None else np.asarray(array)


def _scored(program: Program, params: Params, batch: Batch) -> TokenScores:
    """Of every row, as many at once as an update's micro-batch has; on the host."""
    experiment = program.experiment
    size = experiment.rows_per_update // experiment.training.micro_batches
    parts = [batch.take(slice(first, first + size)) for first in range(0, batch.rows, size)]
    scored = [jax.device_get(program.score(params, program.place(part))) for part in parts]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *scored)
