"""Everything that a run is, as one frozen dataclass of the rooms' own configs."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from jaxgrpo.advantages.credit import Credit, make_credit
from jaxgrpo.aggregation import AGGREGATIONS
from jaxgrpo.checkpoints import CheckpointConfig
from jaxgrpo.core.choice import Choice
from jaxgrpo.data import DataConfig
from jaxgrpo.evaluation import EvaluationConfig
from jaxgrpo.losses.config import LossConfig, make_objective
from jaxgrpo.losses.objective import Objective
from jaxgrpo.losses.weighting import TokenWeight, make_weights
from jaxgrpo.models import DecoderConfig
from jaxgrpo.rewards import RewardConfig
from jaxgrpo.rollouts import RolloutConfig
from jaxgrpo.sharding import MeshConfig
from jaxgrpo.training import OptimizerConfig, TrainingConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Where the policy starts: a folder, or a decoder with fresh parameters."""

    path: str | None = None
    """A Hugging Face folder (config.json and *.safetensors) to start from."""
    decoder: DecoderConfig | None = None
    """The shape of a fresh decoder; its vocabulary is the tokenizer's."""
    parameter_dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    """With a path: dtype of the trained parameters, whatever the folder's is."""
    compute_dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    """With a path: dtype of activations and matrix products."""
    remat: Literal["none", "dots", "full"] = "none"
    """With a path: what the backward pass recomputes, as in a decoder."""

    def __post_init__(self) -> None:
        if (self.path is None) == (self.decoder is None):
            raise ValueError("give one of path and decoder")
        for name in ("parameter_dtype", "compute_dtype", "remat"):
            default = type(self).__dataclass_fields__[name].default
            if self.decoder is not None and getattr(self, name) != default:
                raise ValueError(f"{name} goes with path; a decoder has its own, decoder.{name}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmupConfig:
    """A supervised stage before GRPO, on the task's own worked examples."""

    steps: int = 0
    """Optimiser steps; 0 leaves the stage out."""
    batch_size: int = 64
    """Worked examples a step."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-3)
    """Of this stage; GRPO starts with a fresh one."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must not be negative, got {self.steps}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where a run lives and what it leaves there."""

    directory: str
    """The run folder; a second start in it goes on where the first one stopped."""
    record_every: int = 10
    """Steps between two records of what updates saw, besides the first and the last step's; 0
    writes none."""
    records_to_keep: int = 20
    """The newest so many records stay."""

    def __post_init__(self) -> None:
        for name in ("record_every", "records_to_keep"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not self.directory:
            raise ValueError("directory must not be empty")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A run, whole. The resolved form of this is written into the run folder."""

    seed: int = 0
    """Of parameters, data order and sampling."""
    tokenizer: str = "characters"
    """The built-in character tokenizer, or a folder with a tokenizer.json."""
    model: ModelConfig
    """The policy."""
    mesh: MeshConfig = MeshConfig()
    """How devices are laid out."""
    data: DataConfig
    """Prompts to train and to evaluate on."""
    rollout: RolloutConfig = RolloutConfig()
    """Completions a step."""
    rewards: RewardConfig
    """What completions are worth."""
    advantages: Choice = dataclasses.field(default_factory=lambda: Choice(name="group_normalised"))
    """From rewards to advantages."""
    advantage_transforms: tuple[Choice, ...] = ()
    """What is done to advantages, in order."""
    loss: LossConfig = LossConfig()
    """What a step descends."""
    training: TrainingConfig = TrainingConfig()
    """Steps, and optimiser steps within one."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Of the GRPO stage."""
    warmup: WarmupConfig = WarmupConfig()
    """A supervised stage before it."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Held-out accuracy."""
    checkpoints: CheckpointConfig = CheckpointConfig()
    """How often the run is saved."""
    run: RunConfig
    """The run folder."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must be in [0, 2**31), got {self.seed}")
        prompts, parts = self.rollout.prompts_per_step, self.training.minibatches
        if prompts % parts:
            raise ValueError(
                f"training.minibatches must divide rollout.prompts_per_step {prompts}, got {parts}"
            )
        rows = prompts // parts * self.rollout.group_size
        if rows % self.training.micro_batches:
            raise ValueError(
                f"training.micro_batches must divide the {rows} rows of a minibatch, "
                f"got {self.training.micro_batches}"
            )
        if ":" in self.loss.aggregation.name:
            raise ValueError(
                f"loss.aggregation.name must be one of {', '.join(AGGREGATIONS.names())}, whose "
                f"weights of rows are known, got {self.loss.aggregation.name!r}"
            )
        objective = read_objective(self)
        _check_level(self, objective.level)
        _check_tops(self, objective)
        if self.loss.name in _ANCHORED and self.training.anchor == "auto":
            raise ValueError(
                f"loss {self.loss.name!r} bounds the distance from a policy that must be named: "
                "training.anchor must be 'behaviour', the sampler, as in its paper, or 'proximal', "
                "got 'auto'"
            )
        if "off_policy" in objective.needs and not self.rollout.demonstrations:
            raise ValueError(
                f"loss {self.loss.name!r} learns from demonstrations besides samples: "
                "rollout.demonstrations must be at least 1, got 0"
            )
        read_credit(self)
        if read_weights(self) and self.training.anchor == "behaviour":
            raise ValueError(
                "loss.weights correct ratios that are taken to the trainer's own policy: with "
                "training.anchor 'behaviour' the correction would be counted twice; choose "
                "'proximal' or 'auto'"
            )

    @property
    def anchor(self) -> Literal["live", "behaviour", "proximal"]:
        """What ratios are taken to: `training.anchor`, decided."""
        given = self.training.anchor
        if given == "behaviour":
            return given
        # Before the only optimiser step, the trainer's own policy is the live one.
        if self.training.updates == 1:
            return "live"
        return "proximal" if given == "proximal" or self.loss.weights else "behaviour"

    @property
    def rows_per_update(self) -> int:
        """Completions in one optimiser step."""
        return self.rollout.prompts_per_step * self.rollout.group_size // self.training.minibatches

    @property
    def optimizer_steps(self) -> int:
        """Optimiser steps of the GRPO stage."""
        return self.training.steps * self.training.updates


# Which policy their region is centred on is half of what they are: nothing is chosen silently.
_ANCHORED = frozenset({"dppo_kl", "dppo_tv"})


def _check_level(experiment: Experiment, level: str) -> None:
    """A loss that looks across rows must have all of them in one micro-batch."""
    name, parts = experiment.loss.name, experiment.training.micro_batches
    groups = experiment.rollout.prompts_per_step // experiment.training.minibatches
    if level == "batch" and parts > 1:
        raise ValueError(
            f"loss {name!r} looks at all rows of an optimiser step: training.micro_batches must be "
            f"1, got {parts}"
        )
    if level == "group" and groups % parts:
        raise ValueError(
            f"loss {name!r} looks at whole groups: training.micro_batches must divide the {groups} "
            f"prompts of a minibatch, got {parts}"
        )


def _check_tops(experiment: Experiment, objective: Objective) -> None:
    """Rows of the sampler's likeliest tokens are recorded, and are the anchor's."""
    if not {"top_log_probs", "behaviour_top_log_probs"} & set(objective.needs):
        return
    name, anchor = experiment.loss.name, experiment.training.anchor
    if not experiment.rollout.top_k_rows:
        raise ValueError(
            f"loss {name!r} compares the sampler's likeliest tokens: rollout.top_k_rows must be at "
            "least 1, got 0 (20 is DPPO's)"
        )
    if anchor != "behaviour":
        raise ValueError(
            f"loss {name!r} takes the sampler's own rows for the anchor's: training.anchor must be "
            f"'behaviour', got {anchor!r}"
        )


def read_objective(experiment: Experiment) -> Objective:
    """The objective of an experiment; names and options that don't fit are ValueErrors."""
    return _named("loss", lambda: make_objective(experiment.loss))


def read_credit(experiment: Experiment) -> Credit:
    """From rewards to advantages; names and options that don't fit are ValueErrors."""
    transforms, after = experiment.rewards.transforms, experiment.advantage_transforms
    # Each on its own first, so that the message names the room that is wrong.
    plain = Choice(name="group_centred")
    _named("rewards.transforms", lambda: make_credit(transforms, plain, ()))
    _named("advantage_transforms", lambda: make_credit((), plain, after))
    return _named("advantages", lambda: make_credit(transforms, experiment.advantages, after))


def read_weights(experiment: Experiment) -> tuple[TokenWeight, ...]:
    """The weights of an experiment; names and options that don't fit are ValueErrors."""
    return _named("loss.weights", lambda: make_weights(experiment.loss.weights))


def _named(room: str, build: Callable[[], Any]) -> Any:
    """`build()`, its look-up and option errors as a config error that names the room."""
    try:
        return build()
    except (LookupError, TypeError) as error:
        raise ValueError(f"{room}: {error.args[0]}") from error
