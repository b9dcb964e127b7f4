"""How long a run trains, and how the rows of a rollout become optimiser steps."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Steps, optimiser steps within one, and what bounds memory."""

    steps: int = 100
    """GRPO steps; each samples one rollout and learns from it."""
    minibatches: int = 1
    """Optimiser steps an epoch; divides the prompts of a step, since groups stay whole."""
    epochs: int = 1
    """Passes over each rollout."""
    micro_batches: int = 1
    """Parts of a minibatch worked on in turn: less memory, the same gradient."""
    chunk_tokens: int = 4096
    """About how many tokens' logits exist at once."""
    anchor: Literal["auto", "behaviour", "proximal"] = "auto"
    """What ratios are taken to: the log-probs that the sampler recorded ("behaviour"), or the
    trainer's own before the first optimiser step ("proximal"). "auto" is the live policy itself
    when a rollout gets one optimiser step (ratios are exactly 1), else "behaviour", or "proximal"
    with `loss.weights`. DPPO's losses want one of the two said; those of them that read rows of the
    sampler's likeliest tokens have no other anchor's: "behaviour"."""
    max_mismatch: float = 0.0
    """The run stops when the mean |log-prob difference| of sampler and trainer exceeds this, in
    nats; 0 only logs it."""

    def __post_init__(self) -> None:
        for name in ("steps", "minibatches", "epochs", "micro_batches", "chunk_tokens"):
            minimum = 0 if name == "steps" else 1
            if getattr(self, name) < minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {getattr(self, name)}")
        if not self.max_mismatch >= 0:  # nan too
            raise ValueError(f"max_mismatch must not be negative, got {self.max_mismatch}")

    @property
    def updates(self) -> int:
        """Optimiser steps a rollout."""
        return self.minibatches * self.epochs
