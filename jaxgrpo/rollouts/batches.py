"""A rollout as the batches of its optimiser steps, each with its own row weights."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxgrpo.aggregation import row_weights
from jaxgrpo.rollouts.collect import Rollout
from jaxgrpo.sampling import SamplingConfig
from jaxgrpo.training import Batch, TrainingConfig

Gate = Callable[[np.ndarray, Batch], Batch]


def whole_batch(rollout: Rollout, sampling: SamplingConfig) -> Batch:
    """All rows of a rollout as one batch; advantages are 0, and row weights until `minibatches`.

    Completions are cut to the bucket that holds the longest, so that a few shapes serve every step.
    """
    completions, fan = rollout.completions, rollout.group_size
    lengths = completions.lengths.astype(np.int32)
    bucket = min(sampling.bucket(int(lengths.max())), sampling.max_new_tokens)
    fields: dict[str, Any] = dict(
        prompt_tokens=np.repeat(rollout.padded.tokens, fan, axis=0),
        prompt_lengths=np.repeat(rollout.padded.lengths, fan, axis=0),
        completion_tokens=completions.tokens[:, :bucket],
        completion_lengths=lengths,
        trainable=np.arange(bucket)[None] < lengths[:, None],
        behaviour_log_probs=completions.log_probs[:, :bucket],
        advantages=np.zeros(len(lengths), np.float32),
        group_ids=rollout.group_ids,
        row_weights=np.zeros(len(lengths), np.float32),
        rewards=rollout.rewards,
        top_ids=_cut(completions.top_ids, bucket),
        behaviour_top_log_probs=_cut(completions.top_log_probs, bucket),
        off_policy=_off_policy(rollout, bucket),
    )
    return Batch(**fields)


def _off_policy(rollout: Rollout, length: int) -> np.ndarray | None:
    if not rollout.demonstrations:
        return None
    return np.repeat(~rollout.sampled[:, None], length, axis=1)


def _cut(array: np.ndarray | None, length: int) -> np.ndarray | None:
    return None if array is None else array[:, :length]


def minibatches(
    batch: Batch,
    config: TrainingConfig,
    *,
    group_size: int,
    seed: tuple[int, ...],
    aggregation: str,
    options: dict[str, Any],
    gate: Gate | None = None,
) -> Iterator[tuple[np.ndarray, Batch]]:
    """The batches of each optimiser step in turn, with the rows they hold.

    Groups are shuffled anew each epoch, from `seed` alone. Row weights are those of the step's own
    rows: its denominators are counts over exactly what it trains on, or says that it counts.

    Args:
      batch: all rows, groups side by side, on the host.
      config: how many optimiser steps and micro-batches.
      group_size: completions of a prompt.
      seed: of the shuffles.
      aggregation: by name, for the row weights.
      options: of the aggregation.
      gate: (rows, the step's batch) -> a batch that leaves some of its tokens out.

    Raises:
      ValueError: groups or rows don't split evenly.
    """
    groups = batch.rows // group_size
    if groups % config.minibatches:
        raise ValueError(f"minibatches must divide {groups} groups, got {config.minibatches}")
    if (size := batch.rows // config.minibatches) % config.micro_batches:
        raise ValueError(f"micro_batches must divide {size} rows, got {config.micro_batches}")
    for epoch in range(config.epochs):
        random = np.random.default_rng([*seed, epoch])
        order = random.permutation(groups)
        if config.minibatches == 1:
            order = np.arange(groups)
        for share in np.split(order, config.minibatches):
            rows = (share[:, None] * group_size + np.arange(group_size)).reshape(-1)
            # An update's micro-batch m takes rows m, M + m, ...: dealt out so that each gets whole
            # groups where their number allows it.
            rows = rows.reshape(config.micro_batches, -1).T.reshape(-1)
            part = batch.take(rows)
            if gate is not None:
                part = gate(rows, part)
            counted = part.trainable if part.counted is None else part.counted
            weights = row_weights(aggregation, counted, group_ids=part.group_ids, **options)
            step_seed = np.full(len(rows), random.integers(2**32), np.uint32)
            made = {"row_weights": np.asarray(weights), "step_seed": step_seed, "counted": None}
            yield rows, dataclasses.replace(part, **made)
