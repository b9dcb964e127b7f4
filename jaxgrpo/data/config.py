"""What a run says about its prompts."""

import dataclasses
from typing import Any, Literal


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """A built-in task or a JSON lines file: exactly one of `task` and `path`."""

    task: str | None = None
    """A built-in task ("arithmetic", "countdown") or a task class as "module:name"."""

    path: str | None = None
    """A JSON lines file, one example a line."""

    size: int = 0
    """Examples to use; 0 is the whole file, or of a task 16384 to train and 256 to evaluate."""

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Keyword arguments of the task, such as the number of digits."""

    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    """Our field name to the file's, where they differ: {"question": "problem"}."""

    def __post_init__(self) -> None:
        if (self.task is None) == (self.path is None):
            raise ValueError(
                f"a source is a task or a file: give one of task and path, "
                f"got task={self.task!r}, path={self.path!r}"
            )
        if self.size < 0:
            raise ValueError(f"size must be 0 or more examples, got {self.size}")
        if self.path is not None and self.options:
            raise ValueError(f"options belong to a task, not to the file {self.path!r}")
        if self.task is not None and self.fields:
            raise ValueError(f"fields belong to a file, not to the task {self.task!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Training and evaluation prompts, and how they become tokens."""

    train: SourceConfig
    """Where training prompts come from."""

    eval: SourceConfig | None = None
    """Where evaluation prompts come from; without it nothing is evaluated."""

    template: str = "{question}"
    """The prompt's text; "{question}" in it is replaced, other braces are left alone."""

    max_prompt_tokens: int = 256
    """The longest prompt in tokens."""

    shuffle: bool = True
    """Whether training prompts are drawn in a new random order each epoch."""

    on_long_prompt: Literal["skip", "error"] = "skip"
    """What happens to a prompt above the limit: left out and named in the log, or an error."""

    def __post_init__(self) -> None:
        if "{question}" not in self.template:
            raise ValueError(f"template must contain {{question}}, got {self.template!r}")
        if self.max_prompt_tokens < 1:
            raise ValueError(
                f"max_prompt_tokens must be 1 or more tokens, got {self.max_prompt_tokens}"
            )
        if self.on_long_prompt not in ("skip", "error"):
            raise ValueError(
                f"on_long_prompt must be 'skip' or 'error', got {self.on_long_prompt!r}"
            )
