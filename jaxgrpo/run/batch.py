"""From a rollout to the batch that its optimiser steps share out among them."""

import dataclasses

import jax
import numpy as np

from jaxgrpo.models import Params
from jaxgrpo.rollouts import Rollout, whole_batch
from jaxgrpo.run.program import Program
from jaxgrpo.training import Batch


def make_batch(
    program: Program, params: Params, reference: Params | None, rollout: Rollout
) -> Batch:
    """The rollout's rows with the anchor and reference log-probs that its updates need."""
    experiment = program.experiment
    batch = whole_batch(rollout, program.advantages, experiment.rollout.sampling)
    anchor = experiment.training.anchor
    single = experiment.training.updates == 1
    if anchor == "behaviour" or (anchor == "auto" and not single):
        batch = dataclasses.replace(batch, anchor_log_probs=batch.behaviour_log_probs)
    # With a single optimiser step the anchor is the live policy, and no pass is spent on it.
    entropies = "anchor_entropies" in program.objective.needs
    if not single and (entropies or batch.anchor_log_probs is None):
        scored, anchor_entropies = _scored(program, params, batch)
        if batch.anchor_log_probs is None:
            batch = dataclasses.replace(batch, anchor_log_probs=scored)
        if entropies:
            batch = dataclasses.replace(batch, anchor_entropies=anchor_entropies)
    if reference is not None:
        scored, _ = _scored(program, reference, batch)
        batch = dataclasses.replace(batch, reference_log_probs=scored)
    return batch


def _scored(program: Program, params: Params, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Log-probs and entropies of every row, as many at once as an update's micro-batch has."""
    experiment = program.experiment
    size = experiment.rows_per_update // experiment.training.micro_batches
    parts = [batch.take(slice(first, first + size)) for first in range(0, batch.rows, size)]
    scored = [jax.device_get(program.score(params, program.place(part))) for part in parts]
    log_probs, entropies = zip(*scored, strict=True)
    return np.concatenate(log_probs), np.concatenate(entropies)
