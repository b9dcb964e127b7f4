"""The update: train state, optimizer, and `(state, batch) -> (state, metrics)`."""

from jaxgrpo.training.batch import Batch
from jaxgrpo.training.config import TrainingConfig
from jaxgrpo.training.loss import Loss, make_loss, score
from jaxgrpo.training.optimizer import OptimizerConfig, learning_rate, make_optimizer
from jaxgrpo.training.state import (
    TrainState,
    abstract_train_state,
    init_train_state,
    state_shardings,
)
from jaxgrpo.training.trace import TokenTrace, make_trace
from jaxgrpo.training.update import jit_update, make_update_step

__all__ = [
    "Batch",
    "Loss",
    "OptimizerConfig",
    "TokenTrace",
    "TrainState",
    "TrainingConfig",
    "abstract_train_state",
    "init_train_state",
    "jit_update",
    "learning_rate",
    "make_loss",
    "make_optimizer",
    "make_trace",
    "make_update_step",
    "score",
    "state_shardings",
]
