"""What a run will do, in plain numbers, before it does any of it."""

import dataclasses
from typing import Any

import jax

from jaxgrpo.models import parameter_count
from jaxgrpo.run.program import Program
from jaxgrpo.training import abstract_train_state


@dataclasses.dataclass(frozen=True)
class Plan:
    """Facts of a run, by name, in the order to show them."""

    facts: dict[str, Any]


def make_plan(program: Program) -> Plan:
    """Mesh, sizes, bytes, steps and tokens of a run; allocates nothing on a device."""
    experiment = program.experiment
    state = abstract_train_state(program.model, program.optimizer, program.mesh)
    total = _bytes(state)
    share = _bytes_per_device(state)
    rollout, training = experiment.rollout, experiment.training
    rows = rollout.prompts_per_step * rollout.group_size
    batches = rollout.dynamic_sampling.max_batches if rollout.dynamic_sampling.enabled else 1
    longest = rollout.sampling.max_new_tokens
    prompts = program.train_prompts
    epochs = training.steps * rollout.prompts_per_step / len(prompts)
    more = " or more" if batches > 1 else ""
    facts: dict[str, Any] = {
        "devices": f"{jax.device_count()} {jax.devices()[0].platform}",
        "mesh": ", ".join(f"{axis} {size}" for axis, size in program.mesh.shape.items()),
        "parameters": parameter_count(program.model),
        "parameter bytes": _mib(_bytes(state.params)),
        "state bytes": f"{_mib(total)} in all, {_mib(share)} a device (parameters and optimizer)",
        "reference policy": "yes" if program.objective.uses_reference else "no",
        "warm-up": f"{experiment.warmup.steps} supervised steps of {experiment.warmup.batch_size}",
        "steps": f"{training.steps}, {training.updates} optimiser steps each",
        "optimiser steps": experiment.optimizer_steps,
        "completions a step": (
            f"{rows} = {rollout.prompts_per_step} prompts x {rollout.group_size}, "
            f"at most {longest} tokens each"
            + (f"; up to {batches} times as many are sampled" if batches > 1 else "")
        ),
        "tokens": f"at most {training.steps * rows * batches * longest} sampled",
        "prompts": f"{len(prompts)} to train on ({epochs:.2f} epochs{more})"
        + (f", {len(prompts.skipped)} too long and left out" if prompts.skipped else ""),
        "held out": len(program.eval_prompts) if program.eval_prompts else 0,
        "loss": experiment.loss.name,
        "run folder": experiment.run.directory,
    }
    return Plan(facts)


def _mib(count: int) -> str:
    return f"{count} ({count / 2**20:.1f} MiB)"


def _bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _bytes_per_device(tree: Any) -> int:
    def share(leaf: Any) -> int:
        size = leaf.dtype.itemsize
        for axis in leaf.sharding.shard_shape(leaf.shape):
            size *= axis
        return size

    return sum(share(leaf) for leaf in jax.tree.leaves(tree))
