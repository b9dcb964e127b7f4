"""Saving in the background and restoring exactly, on Orbax.

A checkpoint is a folder such as `checkpoints/00000040` with the arrays (Orbax), `meta.json` and a
manifest that is written last. Which one is latest is computed from the disk, never stored.
"""

import concurrent.futures
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import types
from collections.abc import Callable, Mapping
from typing import Any, Self

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from jaxgrpo.checkpoints import ending, fit
from jaxgrpo.checkpoints import manifest as manifests
from jaxgrpo.checkpoints.config import CheckpointConfig
from jaxgrpo.checkpoints.fit import PyTree
from jaxgrpo.checkpoints.loading import ARRAYS, load_arrays
from jaxgrpo.core.errors import HostError, UserError

logger = logging.getLogger(__name__)

_META = "meta.json"


@dataclasses.dataclass(frozen=True)
class Restored:
    """What `Checkpoints.restore` found."""

    step: int
    """Optimiser steps done when it was saved."""
    arrays: PyTree
    """The arrays, bit for bit, on the shardings that were asked for."""
    meta: dict[str, Any]
    """The JSON that was saved with them."""


class Checkpoints:
    """The checkpoints of one run; a context manager that waits for the last save.

    Saving copies the arrays and writes them in the background, so that the caller may donate them
    at once. One save is in flight at a time. If it failed, the next call of any method raises,
    `close` included.

    Example:
      >>> import tempfile, jax, jax.numpy as jnp
      >>> state = {"w": jnp.arange(3.0), "step": jnp.int32(40)}
      >>> with Checkpoints(tempfile.mkdtemp()) as checkpoints:
      ...     checkpoints.save(40, state, meta={"seed": 7})
      ...     restored = checkpoints.restore(lambda meta: jax.eval_shape(lambda: state))
      >>> restored.step, restored.meta, restored.arrays["w"]
      (40, {'seed': 7}, Array([0., 1., 2.], dtype=float32))
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: CheckpointConfig = CheckpointConfig(),  # noqa: B008 (frozen)
    ) -> None:
        if "://" in os.fspath(directory):
            raise UserError(
                f"checkpoints need a mounted file system, got {os.fspath(directory)!r}; "
                "mount the bucket and give its folder"
            )
        self._directory = pathlib.Path(directory).absolute()
        self._config = config
        self._pending: concurrent.futures.Future[None] | None = None
        self._saving = 0
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "checkpoints")
        # Steps saved or verified by this object, and those that it found damaged.
        self._sound: set[int] = set()
        self._damaged: set[int] = set()
        ending.finish_at_exit(self)

    def save(
        self,
        step: int,
        arrays: PyTree,
        meta: Mapping[str, Any],
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Save in the background; everything is committed at once or not at all.

        What another process left at the same step is replaced; a step that this object has saved
        or restored already is not saved again.

        Args:
          step: optimiser steps done, the name of the checkpoint.
          arrays: a tree of jax arrays (typed keys too) and numpy arrays. They may be donated or
            overwritten as soon as this returns.
          meta: what is not arrays; JSON-able, tuples come back as lists.
          metrics: for choosing the best; without `best_metric` among them it does not compete.

        Raises:
          TypeError: a leaf is not an array, or `meta` is not JSON-able.
          HostError: this save could not start, or the save before it failed.
        """
        self.wait()
        described = fit.described(arrays)
        text = json.dumps(meta)
        numbers = {name: float(value) for name, value in (metrics or {}).items()}
        if step in self._sound:
            logger.info("checkpoint %d is saved already", step)
            return
        folder = self._folder(step)
        try:
            if jax.process_index() == 0:
                _remove(folder)
            folder.mkdir(parents=True, exist_ok=True)
            # Orbax copies what lies on devices before it returns, and reads numpy arrays later.
            copies = jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, arrays)
            written = ocp.save_async(str(folder / ARRAYS), copies)
        except OSError as error:
            raise self._failure(step, error) from error
        self._saving = step
        self._pending = self._executor.submit(
            self._commit, written, step=step, meta=text, metrics=numbers, arrays=described
        )

    def restore(
        self,
        abstract: Callable[[dict[str, Any]], PyTree],
        *,
        step: int | None = None,
        partial: bool = False,
    ) -> Restored | None:
        """The newest checkpoint that is whole; damaged ones are passed over with a warning.

        None if no save was ever finished.

        Args:
          abstract: from the saved `meta`, the tree to restore: `jax.ShapeDtypeStruct`s with the
            shardings wanted now (any mesh; none means the first device), numpy arrays for numpy
            arrays.
          step: this checkpoint and no other.
          partial: read only what the tree, then of nested dicts, names.

        Raises:
          UserError: the tree does not fit what was saved; names the leaves. Or there is no `step`.
          HostError: checkpoint `step` is damaged, or all are, so that starting afresh would hide
            the loss of the run; or an earlier save failed.
        """
        self.wait()
        if step is not None and not self._folder(step).is_dir():
            known = ", ".join(map(str, self.steps())) or "none"
            raise UserError(f"{self._directory} has no checkpoint {step}; it has: {known}")
        lost = []
        for candidate in self._on_disk(newest_first=True) if step is None else [step]:
            folder = self._folder(candidate)
            try:
                manifest = manifests.verify(folder)
            except manifests.Damaged as damage:
                self._damaged.add(candidate)
                logger.warning("passing over checkpoint %s: %s", folder, damage)
                if step is not None or not isinstance(damage, manifests.Unfinished):
                    lost.append(f"{folder}: {damage}")
                continue
            meta = json.loads((folder / _META).read_bytes())
            arrays = load_arrays(folder, abstract(meta), manifest.arrays, partial=partial)
            self._sound.add(candidate)
            return Restored(step=candidate, arrays=arrays, meta=meta)
        if lost:
            raise HostError(f"no checkpoint is whole ({'; '.join(lost)}); to start afresh, move it")
        return None

    def steps(self) -> tuple[int, ...]:
        """Steps of the complete checkpoints, ascending; `restore` verifies what is in them."""
        self.wait()
        return tuple(sorted(self._complete()))

    def latest(self) -> int | None:
        """The newest complete checkpoint."""
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """The complete checkpoint with the best `best_metric`; the newest of equals."""
        self.wait()
        return self._best(self._complete())

    def wait(self) -> None:
        """Return when nothing is being saved.

        Raises:
          HostError: the save failed.
        """
        if self._pending is None:
            return
        try:
            self._pending.result()
        except Exception as error:
            self._pending = None
            raise self._failure(self._saving, error) from error
        self._pending = None

    def close(self) -> None:
        """Wait for the last save, and end; raises what `wait` raises."""
        try:
            self.wait()
        finally:
            self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        try:
            self.close()
        except HostError as failure:
            # The error that is on its way out is the one to see.
            if error is None:
                raise
            logger.error("%s", failure)

    def _commit(
        self,
        written: ocp.AsyncResponse[None],
        *,
        step: int,
        meta: str,
        metrics: Mapping[str, float],
        arrays: Mapping[str, str],
    ) -> None:
        """Once the arrays are written: meta, manifest, and the end of what need not be kept."""
        written.result()
        if jax.process_index() == 0:
            folder = self._folder(step)
            (folder / _META).write_text(meta)
            manifests.write(folder, step=step, metrics=metrics, arrays=arrays)
            manifests.sync_directory(self._directory)
        self._sound.add(step)
        self._damaged.discard(step)
        if jax.process_index() == 0:
            self._prune()

    def _prune(self) -> None:
        """Remove all but the newest complete checkpoints and the best."""
        complete = self._complete()
        keep = set(sorted(complete)[-self._config.max_to_keep :]) | {self._best(complete)}
        for step in set(self._on_disk()) - keep:
            self._sound.discard(step)
            try:
                _remove(self._folder(step))
            except OSError as error:
                logger.warning("cannot remove checkpoint %s: %s", self._folder(step), error)

    def _complete(self) -> dict[int, manifests.Manifest]:
        """Manifests of the checkpoints that are complete, by step."""
        complete = {}
        for step in set(self._on_disk()) - self._damaged:
            try:
                complete[step] = manifests.read(self._folder(step))
            except manifests.Damaged:
                continue
        return complete

    def _best(self, complete: Mapping[int, manifests.Manifest]) -> int | None:
        config = self._config
        return manifests.best(complete, metric=config.best_metric, mode=config.best_mode)

    def _on_disk(self, *, newest_first: bool = False) -> list[int]:
        """Steps that have a folder, complete or not."""
        if not self._directory.is_dir():
            return []
        names = [path.name for path in self._directory.iterdir() if path.is_dir()]
        return sorted((int(name) for name in names if name.isdecimal()), reverse=newest_first)

    def _folder(self, step: int) -> pathlib.Path:
        return self._directory / f"{step:08d}"

    def _failure(self, step: int, error: BaseException) -> HostError:
        return HostError(f"saving checkpoint {self._folder(step)} failed: {error}")


def _remove(folder: pathlib.Path) -> None:
    """Delete a checkpoint, its manifest first, so that half of one is never taken for one."""
    (folder / manifests.NAME).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
