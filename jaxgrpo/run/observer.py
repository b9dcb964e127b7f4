"""What a run tells whoever watches; the base class watches nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxgrpo.evaluation import EvaluatedItem, Evaluation


class Observer:
    """Called by the run as it goes; a console overrides what it shows."""

    def start(self, facts: Mapping[str, Any]) -> None:
        """Before anything is computed; `facts` are those of a `Plan`."""

    def note(self, text: str) -> None:
        """Something worth a line: where the run goes on from, what is being compiled."""

    def warmup_step(self, step: int, steps: int, values: Mapping[str, float]) -> None:
        """A supervised step is done."""

    def step(self, step: int, steps: int, values: Mapping[str, float]) -> None:
        """A GRPO step is done; `values` are those of its line in metrics.jsonl."""

    def evaluating(self, label: str, done: int, total: int) -> None:
        """So many held-out prompts are completed."""

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        """An evaluation is done."""

    def finish(
        self,
        summary: Mapping[str, Any],
        before: Sequence[EvaluatedItem],
        after: Sequence[EvaluatedItem],
    ) -> None:
        """The run is complete; a few completions of the same prompts before and after GRPO."""
