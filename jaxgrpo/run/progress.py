"""How far a run is: all that a checkpoint keeps besides arrays, as JSON."""

import dataclasses
from typing import Any, Literal

Stage = Literal["warmup", "grpo"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """Replaced, never changed; what is in here decides what the next step is."""

    stage: Stage = "warmup"
    step: int = 0
    """Steps done in the stage."""
    data: dict[str, Any] | None = None
    """State of the stage's prompt iterator; None before its first batch."""
    offsets: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bytes of each log that are true."""
    evaluated: int = -1
    """GRPO steps done at the latest evaluation; -1 before the first."""
    tokens: int = 0
    """Completion tokens sampled for training."""
    seconds: float = 0.0
    """Of work, over all the processes that the run took."""
    reward_start: float | None = None
    """Mean reward of the first GRPO step."""
    reward_end: float | None = None
    """Mean reward of the latest GRPO step."""
    eval_start: dict[str, Any] | None = None
    """The evaluation before GRPO."""
    samples_start: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """A few of its completions, to be shown beside the same prompts' after."""

    def to_json(self) -> dict[str, Any]:
        """As `from_json` takes it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "Progress":
        """The progress that was saved."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in tree.items() if name in known})
