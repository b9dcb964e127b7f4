"""What a run's checkpoints are configured by."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """How often to save, and what to keep."""

    every_steps: int = 20
    """Save after every so many optimiser steps; the last step is always saved."""
    max_to_keep: int = 2
    """How many of the newest checkpoints to keep; the best one is kept besides."""
    best_metric: str | None = None
    """The metric that decides which checkpoint is best, `eval/pass_at_1` say; None keeps none."""
    best_mode: str = "max"
    """Whether the best value is the largest ("max") or the smallest ("min")."""

    def __post_init__(self) -> None:
        for name in ("every_steps", "max_to_keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.best_mode not in ("max", "min"):
            raise ValueError(f"best_mode must be 'max' or 'min', got {self.best_mode!r}")

    def due(self, step: int) -> bool:
        """Whether to save after this step.

        Example:
          >>> [step for step in range(1, 10) if CheckpointConfig(every_steps=4).due(step)]
          [4, 8]
        """
        return step % self.every_steps == 0
