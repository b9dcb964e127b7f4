"""The run's files of lines, cut back together to where a checkpoint says they were true."""

import pathlib
import types
from collections.abc import Mapping
from typing import Any, Self

from jaxgrpo.metrics.writer import JsonLines, open_writers


class Logs:
    """`metrics.jsonl`, `warmup.jsonl` and `evaluations.jsonl`: a line a step or evaluation."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._metrics = open_writers(directory)
        self._warmup = JsonLines(directory / "warmup.jsonl")
        self._evaluations = JsonLines(directory / "evaluations.jsonl")

    def step(self, step: int, values: Mapping[str, Any]) -> None:
        """A GRPO step."""
        self._metrics.write(step, values)

    def warmup_step(self, step: int, values: Mapping[str, Any]) -> None:
        """A supervised step."""
        self._warmup.write(step, values)

    def evaluation(self, step: int, values: Mapping[str, Any]) -> None:
        """An evaluation after so many GRPO steps."""
        self._evaluations.write(step, values)

    def offsets(self) -> dict[str, int]:
        """Bytes of each file that are true now."""
        return {name: file.offset for name, file in self._files().items()}

    def truncate(self, offsets: Mapping[str, int]) -> None:
        """Take back what was written since `offsets`; a file it doesn't name is emptied."""
        for name, file in self._files().items():
            file.truncate(offsets.get(name, 0))

    def _files(self) -> dict[str, Any]:
        return {
            "metrics": self._metrics,
            "warmup": self._warmup,
            "evaluations": self._evaluations,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        for file in self._files().values():
            file.close()
