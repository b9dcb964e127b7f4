"""Where metrics go: one line of JSON a step, always, and TensorBoard if it is installed."""

import contextlib
import json
import logging
import math
import numbers
import os
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

logger = logging.getLogger(__name__)


class Writer(Protocol):
    """What takes the metrics of a step."""

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Record flat keys with slashes and their scalars, of this step."""
        ...

    def close(self) -> None:
        """Flush, and release the file."""
        ...


class JsonLines:
    """A file with one JSON object a step, safe on disk when `write` returns.

    What is not finite is written as null, so that every JSON reader takes the file. A last line cut
    short by a crash is removed when the file is opened again.

    Example:
      >>> import tempfile, pathlib
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "metrics.jsonl"
      >>> lines = JsonLines(path)
      >>> lines.write(1, {"reward/mean": 0.5, "grad/norm": float("nan")})
      >>> lines.close()
      >>> print(path.read_text().strip())
      {"step": 1, "reward/mean": 0.5, "grad/norm": null}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Append mode: a write lands at the end whatever has been truncated before.
        self._file = self._path.open("ab")
        self._cut_torn_line()

    @property
    def offset(self) -> int:
        """Bytes written so far; a checkpoint keeps it, for `truncate` when the run resumes."""
        return self._file.seek(0, os.SEEK_END)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one line; returns when it is on disk.

        Raises:
          TypeError: a value is not a number, a string, a bool or None.
        """
        row = {"step": int(step)} | {name: _plain(name, value) for name, value in values.items()}
        self._file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        self._sync()

    def truncate(self, offset: int) -> None:
        """Forget what was written after `offset`, the steps that a resumed run does again.

        A file that someone deleted or changed since does not keep a run from going on: with a
        warning, one that is shorter stays as it is, and another is cut at the line before.
        """
        size = self.offset
        if offset > size:
            logger.warning("%s has %d bytes, not %d: lines are missing", self._path, size, offset)
            return
        whole = self._path.read_bytes()[:offset].rfind(b"\n") + 1
        if whole < offset:
            logger.warning("%s was changed: its lines do not end at %d bytes", self._path, offset)
        self._file.truncate(whole)
        self._sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _cut_torn_line(self) -> None:
        """Drop what follows the last newline."""
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            logger.warning("%s: removing a last line that was cut short", self._path)
            self._file.truncate(whole)
            self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


class TensorBoard:
    """The same scalars as TensorBoard events.

    Raises:
      ImportError: tensorboardX is not installed (`pip install "jaxgrpo[tensorboard]"`).
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        try:
            import tensorboardX
        except ImportError as error:
            message = 'TensorBoard needs tensorboardX: pip install "jaxgrpo[tensorboard]"'
            raise ImportError(message) from error
        self._directory = os.fspath(directory)
        self._make = tensorboardX.SummaryWriter
        self._events: Any = None

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Record the finite numbers; text is left to the JSON lines."""
        if self._events is None:
            # TensorBoard then hides what an earlier, interrupted process wrote from this step on.
            self._events = self._make(self._directory, purge_step=step)
        for name, value in values.items():
            plain = _plain(name, value)
            if isinstance(plain, numbers.Real):
                self._events.add_scalar(name, float(plain), step)
        self._events.flush()

    def close(self) -> None:
        """Flush and close the event file."""
        if self._events is not None:
            self._events.close()


class Writers:
    """Several writers as one; a context manager that closes them."""

    def __init__(self, lines: JsonLines | None, others: Sequence[Writer] = ()) -> None:
        self._lines = lines
        self._writers: list[Writer] = [*([lines] if lines else []), *others]

    @property
    def offset(self) -> int:
        """Bytes in the JSON lines file; 0 in a process that writes nothing."""
        return self._lines.offset if self._lines else 0

    def truncate(self, offset: int) -> None:
        """Forget the steps after `offset`; see `JsonLines.truncate`."""
        if self._lines:
            self._lines.truncate(offset)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Record the scalars of a step everywhere."""
        for writer in self._writers:
            writer.write(step, values)

    def close(self) -> None:
        """Close every writer."""
        for writer in self._writers:
            writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()


def open_writers(directory: str | os.PathLike[str], *, process_index: int = 0) -> Writers:
    """Writers of a run folder: `metrics.jsonl`, and `tensorboard/` where tensorboardX is installed.

    Only process 0 writes; elsewhere the same object takes metrics and does nothing.
    """
    if process_index != 0:
        return Writers(None)
    directory = pathlib.Path(directory)
    others: list[Writer] = []
    with contextlib.suppress(ImportError):
        others.append(TensorBoard(directory / "tensorboard"))
    return Writers(JsonLines(directory / "metrics.jsonl"), others)


def _plain(name: str, value: Any) -> float | int | str | bool | None:
    """A value as JSON has it; numpy and jax scalars become Python's, what is not finite None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    raise TypeError(
        f"metric {name!r} must be a number, a string, a bool or None, got {type(value).__name__}"
    )
