"""What a run says about its rewards."""

import dataclasses
import math
from typing import Any

from jaxgrpo.core.choice import Choice

# Keeps the weighted sum of the largest rewards within float32.
_LARGEST_WEIGHT = 1e6


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardFunctionConfig:
    """One reward function and its share in the total."""

    name: str
    """A built-in ("answer", "countdown", "format") or a function as "module:function"."""

    weight: float = 1.0
    """What the function's value is multiplied with in the total."""

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """More keyword arguments for the function."""

    def __post_init__(self) -> None:
        if not abs(self.weight) <= _LARGEST_WEIGHT:  # nan too
            raise ValueError(
                f"weight of {self.name!r} must be at most {_LARGEST_WEIGHT:g}, got {self.weight}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """The reward functions of a run and the limits they run under."""

    functions: tuple[RewardFunctionConfig, ...] = (RewardFunctionConfig(name="answer"),)
    """The functions; a completion's reward is the weighted sum of their values."""

    transforms: tuple[Choice, ...] = ()
    """What is done to that sum, in order, before advantages are made of it."""

    timeout_seconds: float = 2.0
    """Wall time for all functions on one completion, after which the worker is killed."""

    workers: int = 2
    """Worker processes on each host."""

    memory_mib: int = 1024
    """Memory that one worker may allocate, in MiB."""

    max_failed_fraction: float = 0.1
    """The share of completions of one step that may go unscored before the run stops."""

    def __post_init__(self) -> None:
        names = [function.name for function in self.functions]
        if not names:
            raise ValueError("functions must name at least one reward function")
        if len(set(names)) < len(names):
            raise ValueError(f"functions must have different names, got {', '.join(names)}")
        if not (math.isfinite(self.timeout_seconds) and self.timeout_seconds > 0):
            raise ValueError(f"timeout_seconds must be above 0, got {self.timeout_seconds}")
        if self.workers < 1:
            raise ValueError(f"workers must be 1 or more, got {self.workers}")
        if self.memory_mib < 64:
            raise ValueError(f"memory_mib must be 64 or more, got {self.memory_mib}")
        if not 0 <= self.max_failed_fraction <= 1:
            raise ValueError(
                f"max_failed_fraction must be in [0, 1], got {self.max_failed_fraction}"
            )
