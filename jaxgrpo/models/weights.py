"""The tensors of a folder's safetensors files, by name, wherever they lie; read slice by slice."""

import contextlib
import json
import pathlib
import types
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open

from jaxgrpo.core.errors import UserError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_DTYPES = ("F32", "BF16", "F16", "F64")


class Weights:
    """A context manager that holds the files open; only what is asked for is read.

    Raises:
      UserError: there are no such files, or one of them is missing or broken.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._stack = contextlib.ExitStack()
        self._file_of: dict[str, Any] = {}

    def __enter__(self) -> Self:
        with self._stack:
            for path in _files(self.directory):
                try:
                    file = self._stack.enter_context(safe_open(path, framework="numpy"))
                except (OSError, SafetensorError) as error:
                    raise UserError(f"{path}: cannot be read: {error}") from error
                for name in file.keys():  # noqa: SIM118 (no mapping)
                    if name in self._file_of:
                        raise UserError(f"{path}: tensor {name} is in another file too")
                    self._file_of[name] = file
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._stack.close()

    def names(self) -> set[str]:
        """Of all tensors."""
        return set(self._file_of)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one tensor.

        Raises:
          UserError: its numbers aren't floating point, as those of a quantised model.
        """
        header = self._file_of[name].get_slice(name)
        if header.get_dtype() not in _DTYPES:
            raise UserError(
                f"{self.directory}: tensor {name} has dtype {header.get_dtype()}, "
                f"wanted one of {', '.join(_DTYPES)}"
            )
        return tuple(header.get_shape())

    def read(self, name: str, index: Sequence[slice]) -> np.ndarray:
        """A part of one tensor, a slice an axis."""
        return self._file_of[name].get_slice(name)[tuple(index)]


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files that hold the model, and not what else may lie beside them."""
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        try:
            names = sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
            paths = [folder / name for name in names]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{folder / INDEX}: no weight_map of file names there") from error
        for path in paths:
            if not path.is_file():
                raise UserError(f"{path}: missing, though {INDEX} names it")
        return paths
    paths = sorted(folder.glob("*.safetensors"))
    if len(paths) != 1:
        raise UserError(f"{folder}: no {SINGLE} or {INDEX} there, and {len(paths)} *.safetensors")
    return paths
