"""AdamW behind a schedule and a global-norm clip, from its config."""

import dataclasses
import math
from typing import Any, Literal

import jax
import optax


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW (arXiv:1711.05101), its schedule, and the clip before it."""

    learning_rate: float = 1e-6
    """Peak of the schedule."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """What follows the rise: level, or a fall that is at `final_fraction` after the last step."""
    warmup_steps: int = 0
    """Optimiser steps of linear rise from 0."""
    final_fraction: float = 0.0
    """Of the peak, at the end of a falling schedule."""
    b1: float = 0.9
    """Decay of the mean of gradients."""
    b2: float = 0.999
    """Decay of the mean of squared gradients."""
    epsilon: float = 1e-8
    """Added to the root of the second."""
    weight_decay: float = 0.0
    """Decoupled, on matrices only: norms and biases are left alone."""
    max_grad_norm: float = 1.0
    """Gradients longer than this are scaled down to it; 0 switches the clip off."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "warmup_steps", "weight_decay", "max_grad_norm"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon must be above 0 and finite, got {self.epsilon}")
        for name in ("b1", "b2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not 0 <= self.final_fraction <= 1:
            raise ValueError(f"final_fraction must be in [0, 1], got {self.final_fraction}")


def learning_rate(config: OptimizerConfig, total_steps: int) -> optax.Schedule:
    """The learning rate by optimiser step, from 0.

    Example:
      >>> rate = learning_rate(OptimizerConfig(learning_rate=1.0, warmup_steps=4), 10)
      >>> [float(rate(step)) for step in (0, 2, 4, 9)]
      [0.25, 0.75, 1.0, 1.0]
    """
    peak, after = config.learning_rate, max(total_steps - config.warmup_steps, 1)
    match config.schedule:
        case "constant":
            body = optax.constant_schedule(peak)
        case "linear":
            body = optax.linear_schedule(peak, peak * config.final_fraction, after)
        case "cosine":
            body = optax.cosine_decay_schedule(peak, after, alpha=config.final_fraction)
    if not config.warmup_steps:
        return body
    # Rises so that the first step already moves: a step at rate 0 is a rollout thrown away.
    rise = optax.linear_schedule(peak / config.warmup_steps, peak, max(config.warmup_steps - 1, 1))
    return optax.join_schedules([rise, body], [config.warmup_steps])


def make_optimizer(config: OptimizerConfig, total_steps: int) -> optax.GradientTransformation:
    """The optimizer; its state has the same structure for every config, so stages can follow on."""
    clip = optax.clip_by_global_norm(config.max_grad_norm) if config.max_grad_norm else None
    adamw = optax.adamw(
        learning_rate(config, total_steps),
        b1=config.b1,
        b2=config.b2,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        mask=_decayed,
    )
    return optax.chain(clip or optax.identity(), adamw)


def _decayed(params: Any) -> Any:
    def matrix(path: tuple[Any, ...], _: Any) -> bool:
        name = str(getattr(path[-1], "key", path[-1]))
        return not name.endswith(("norm", "bias"))

    return jax.tree_util.tree_map_with_path(matrix, params)
