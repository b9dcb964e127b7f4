"""The run folder: one run at a time, one config for good, and what says that it is finished."""

import fcntl
import json
import os
import pathlib
import types
from collections.abc import Sequence
from typing import Any, Self

import yaml

from jaxgrpo.config import Experiment, dump
from jaxgrpo.core.errors import AlreadyComplete, HostError, UserError
from jaxgrpo.rollouts import finite

# A resumed run may change these: they alter nothing that was computed so far.
_FREE = (
    "mesh.",
    "checkpoints.",
    "run.",
    "training.steps",
    "training.micro_batches",
    "training.chunk_tokens",
    "training.max_mismatch",
    "evaluation.",
    "rewards.workers",
    "rewards.timeout_seconds",
    "rewards.memory_mib",
    "rewards.max_failed_fraction",
)


class RunFolder:
    """A context manager that holds the folder's lock; the lock dies with the process.

    Raises:
      UserError: another process is running in the folder, or the folder belongs to another config.
      AlreadyComplete: the run in it was finished before.
      HostError: the folder can't be made or written.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.path = pathlib.Path(experiment.run.directory)
        self._experiment = experiment
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise HostError(f"run folder {self.path}: {error.strerror}") from error
        except ValueError as error:  # a nul byte
            raise UserError(f"run folder {os.fspath(self.path)!r}: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._release()
            raise UserError(f"run folder {self.path} is in use by another process") from error
        try:
            self._claim()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._release()

    @property
    def checkpoints(self) -> pathlib.Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    def record(self, step: int) -> pathlib.Path:
        """The record of a step."""
        return self.path / "rollouts" / f"step_{step:08d}.npz"

    def forget_records_after(self, step: int) -> None:
        """Remove records of steps that will be done again."""
        for path in self._records():
            if path.stem > self.record(step).stem:
                path.unlink()

    def prune_records(self, keep: int) -> None:
        """Remove all but the newest so many records."""
        for path in self._records()[: -keep or None]:
            path.unlink()

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write `summary.json`, whole or not at all; the run counts as finished from then on."""
        text = json.dumps(finite(summary), indent=2, allow_nan=False) + "\n"
        partial = self.path / "summary.json.partial"
        partial.write_text(text)
        partial.replace(self.path / "summary.json")

    def _records(self) -> list[pathlib.Path]:
        return sorted((self.path / "rollouts").glob("step_*.npz"))

    def _claim(self) -> None:
        saved = self.path / "config.yaml"
        text = dump(self._experiment)
        if saved.exists():
            before = flatten(_read_config(saved))
            now = flatten(yaml.safe_load(text))
            changed = [
                f"{name} {before.get(name)!r} -> {now.get(name)!r}"
                for name in sorted(before.keys() | now.keys())
                if before.get(name) != now.get(name) and not name.startswith(_FREE)
            ]
            if changed:
                raise UserError(
                    f"run folder {self.path} belongs to another config ({_first_of(changed)}): "
                    "choose another --run.directory, or remove the folder"
                )
            self._refuse_finished()
        partial = self.path / "config.yaml.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(saved)

    def _refuse_finished(self) -> None:
        try:
            steps = json.loads((self.path / "summary.json").read_text()).get("steps", 0)
        except (OSError, ValueError, AttributeError):
            return
        if isinstance(steps, int) and steps >= self._experiment.training.steps:
            raise AlreadyComplete(
                f"the run in {self.path} is complete: {steps} steps; see {self.path}/summary.json, "
                "or raise --training.steps to go on"
            )

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _read_config(path: pathlib.Path) -> dict[str, Any]:
    """What an earlier start wrote.

    Raises:
      HostError: it isn't that any more.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(tree, dict):
            return tree
        reason = "no mapping"
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = f"{type(error).__name__}: {error}"
    raise HostError(
        f"{path} is damaged ({reason}): remove it if the run is this config's, and start again"
    )


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, keys joined with dots.

    Example:
      >>> flatten({"a": {"b": 1}, "c": [2]})
      {'a.b': 1, 'c': [2]}
    """
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= flatten(value, f"{prefix}.{name}" if prefix else str(name))
    return flat


def _first_of(changed: Sequence[str], most: int = 3) -> str:
    more = len(changed) - most
    return "; ".join(changed[:most]) + (f"; and {more} more" if more > 0 else "")
