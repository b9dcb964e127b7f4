"""One step of each stage: from prompts to a new train state and what to log about it."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxgrpo.data import Prompt
from jaxgrpo.metrics.mean import as_floats, merge
from jaxgrpo.models import Params
from jaxgrpo.rewards import RewardPool
from jaxgrpo.rollouts import Rollout, minibatches, worked_batch
from jaxgrpo.rollouts.gates import keep_top_entropy
from jaxgrpo.run.batch import Prepared, make_batch
from jaxgrpo.run.draw import draw
from jaxgrpo.run.program import Program
from jaxgrpo.training import Batch, TokenTrace, TrainState


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a GRPO step leaves behind."""

    state: TrainState
    values: dict[str, float]
    rollout: Rollout
    batch: Batch
    trace: TokenTrace | None
    """On the host, each row as its last optimiser step saw it; only where asked for."""


def warmup_step(
    program: Program, state: TrainState, prompts: Sequence[Prompt]
) -> tuple[TrainState, dict[str, float]]:
    """One supervised step on worked examples."""
    start = time.perf_counter()
    batch = worked_batch(prompts, program.tokenizer, program.experiment.rollout.sampling)
    state, metrics = program.warmup_update(state, program.place(batch))
    values = as_floats(metrics)
    kept = ("loss/total", "entropy/mean", "grad/norm")
    seconds = time.perf_counter() - start
    tokens = int(np.sum(batch.completion_lengths))
    return state, {
        **{name: values[name] for name in kept},
        "time/update": seconds,
        "tokens/second": tokens / seconds,
    }


def grpo_step(
    program: Program,
    pool: RewardPool,
    state: TrainState,
    reference: Params | None,
    batches: Iterator[Sequence[Prompt]],
    *,
    key: PRNGKeyArray,
    step: int,
    traced: bool,
    on_tick: Callable[[], None],
) -> StepResult:
    """Sample, score, and learn from it in one or several optimiser steps.

    Args:
      program: of the run.
      pool: scores completions.
      state: donated; gone when this returns.
      reference: frozen parameters that the policy is compared with, or None.
      batches: of prompts; one is taken, or several with dynamic sampling.
      key: of the run; the step is folded in.
      step: number of this step, from 0.
      traced: whether to look at every token before each optimiser step, for the record.
      on_tick: called while sampling and scoring; what it raises ends the step with nothing done.

    Raises:
      NumbersError: too many rewards failed; the state is untouched.
    """
    experiment = program.experiment
    start = time.perf_counter()
    drawn = draw(
        program,
        pool,
        state.params,
        batches,
        key=jax.random.fold_in(key, step),
        on_tick=on_tick,
    )
    rollout, values = drawn.rollout, dict(drawn.values)
    updating = time.perf_counter()
    prepared = make_batch(program, state.params, reference, rollout, drawn.trained)
    batch, values = prepared.batch, values | prepared.values
    compared = reference if program.objective.compares_rows else None
    traces: list[tuple[np.ndarray, TokenTrace]] = []
    logged = []
    parts = minibatches(
        batch,
        experiment.training,
        group_size=rollout.group_size,
        seed=(experiment.seed, step),
        aggregation=experiment.loss.aggregation.name,
        options=experiment.loss.aggregation.options,
        gate=_gate(prepared, experiment.loss.top_entropy_fraction),
    )
    for rows, part in parts:
        placed = program.place(part)
        if traced:
            traces.append((rows, jax.device_get(program.trace(state.params, placed))))
        state, metrics = program.update(state, placed, compared)
        logged.append(metrics)
    # Later optimiser steps have moved the policy: only the first one meets the sampler's own.
    later = [
        {name: metric for name, metric in metrics.items() if not name.startswith("mismatch/")}
        for metrics in logged[1:]
    ]
    values |= as_floats(merge([logged[0], *later]))
    if reference is not None:
        # Of the policy that drew the samples, as the rewards are.
        kind = "exact_kl" if program.objective.compares_rows else "kl3"
        apart = logged[0][f"divergence/reference_sequence_{kind}"]
        values |= as_floats({"frontier/kl": apart})
    end = time.perf_counter()
    tokens = drawn.tokens
    values |= {
        "time/rollout": rollout.sampling_seconds,
        "time/reward": rollout.reward_seconds,
        "time/update": end - updating,
        "time/step": end - start,
        "tokens/second": tokens / (end - start),
        "tokens/step": tokens,
    }
    trace = _gathered(traces, batch) if traced else None
    return StepResult(state, values, rollout, batch, trace)


def _gate(prepared: Prepared, fraction: float) -> Callable[[np.ndarray, Batch], Batch] | None:
    """The mask that only an optimiser step's own rows can tell."""
    entropies = prepared.entropies
    if fraction == 1 or entropies is None:
        return None
    return lambda rows, part: keep_top_entropy(part, entropies[rows], fraction)


def _gathered(traces: Sequence[tuple[np.ndarray, TokenTrace]], batch: Batch) -> TokenTrace:
    """Every row's trace at its place; of several epochs the last one stays."""
    whole = jax.tree.map(
        lambda leaf: np.zeros((batch.rows, *leaf.shape[1:]), leaf.dtype), traces[0][1]
    )

    def put(target: Any, rows: np.ndarray, leaf: Any) -> None:
        target[rows] = leaf

    for rows, trace in traces:
        jax.tree.map(lambda target, leaf, rows=rows: put(target, rows, leaf), whole, trace)
    return whole
