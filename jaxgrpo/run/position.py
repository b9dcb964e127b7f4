"""Where a run stands: arrays and progress that belong together, saved and restored as one."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from jaxgrpo.checkpoints import Checkpoints
from jaxgrpo.models import Params, abstract_params, from_pretrained, init_params
from jaxgrpo.run.program import Program
from jaxgrpo.run.progress import Progress, Stage
from jaxgrpo.sharding import replicated
from jaxgrpo.training import TrainState, abstract_train_state, init_train_state


@dataclasses.dataclass(frozen=True)
class Position:
    """The arrays and the progress of the same moment; replaced as a whole."""

    state: TrainState
    reference: Params | None
    key: PRNGKeyArray
    """All sampling folds from it."""
    progress: Progress

    @property
    def intact(self) -> bool:
        """Whether the state is still there: an update takes it over before the next one is done."""
        return not any(leaf.is_deleted() for leaf in jax.tree.leaves(self.state))


def fresh(program: Program) -> Position:
    """The beginning of a run."""
    seed = jax.random.key(program.experiment.seed)
    path = program.experiment.model.path
    if path is None:
        params = init_params(program.model, jax.random.fold_in(seed, 0), program.mesh)
    else:
        dtype = program.model.parameter_dtype
        params = from_pretrained(path, dtype=dtype, mesh=program.mesh).params
    key = jax.device_put(jax.random.fold_in(seed, 1), replicated(program.mesh))
    return Position(new_state(program, params, "warmup"), None, key, Progress())


def enter_grpo(program: Program, position: Position) -> Position:
    """The beginning of the GRPO stage: the reference frozen, the optimizer fresh."""
    params, reference = position.state.params, None
    if program.objective.uses_reference:
        # A copy: the live parameters will be donated.
        reference = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf + 0, tree))(params)
    progress = dataclasses.replace(position.progress, stage="grpo", step=0, data=None)
    return Position(new_state(program, params, "grpo"), reference, position.key, progress)


def new_state(program: Program, params: Params, stage: Stage) -> TrainState:
    """A train state around these parameters with the stage's optimizer."""
    return init_train_state(program.model, params, _optimizer(program, stage), program.mesh)


def total_steps(program: Program, progress: Progress) -> int:
    """Steps done over both stages; the name of a checkpoint."""
    before = program.experiment.warmup.steps if progress.stage == "grpo" else 0
    return before + progress.step


def save(
    checkpoints: Checkpoints,
    program: Program,
    position: Position,
    metrics: Mapping[str, float] | None = None,
) -> None:
    """Everything that a resumed run needs, in one commit, in the background."""
    arrays: dict[str, Any] = {"state": position.state, "key": position.key}
    if position.reference is not None:
        arrays["reference"] = position.reference
    meta = {
        "progress": position.progress.to_json(),
        "seed": program.experiment.seed,
        # What gives the parameters meaning is kept with them: a model's folder may be gone by then.
        "model": dataclasses.asdict(program.model),
    }
    checkpoints.save(total_steps(program, position.progress), arrays, meta, metrics)


def restore(checkpoints: Checkpoints, program: Program) -> Position | None:
    """The newest whole checkpoint, laid out for this program's mesh."""

    def abstract(meta: dict[str, Any]) -> dict[str, Any]:
        stage = Progress.from_json(meta["progress"]).stage
        key = jax.eval_shape(lambda: jax.random.key(0))
        whole = replicated(program.mesh)
        tree: dict[str, Any] = {
            "state": abstract_train_state(program.model, _optimizer(program, stage), program.mesh),
            "key": jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=whole),
        }
        if stage == "grpo" and program.objective.uses_reference:
            tree["reference"] = abstract_params(program.model, program.mesh)
        return tree

    restored = checkpoints.restore(abstract)
    if restored is None:
        return None
    arrays = restored.arrays
    progress = Progress.from_json(restored.meta["progress"])
    return Position(arrays["state"], arrays.get("reference"), arrays["key"], progress)


def _optimizer(program: Program, stage: Stage) -> Any:
    return program.warmup_optimizer if stage == "warmup" else program.optimizer
