"""The manifest of a checkpoint: written last, it is what makes the checkpoint one.

It lists every file with its size and checksum, so that a file that was cut short, lost or changed
is found before its numbers are trusted, and the shapes of the arrays, so that a state that
does not fit is named leaf by leaf.
"""

import dataclasses
import json
import math
import os
import pathlib
import zlib
from collections.abc import Mapping

NAME = "manifest.json"
_VERSION = 1
_CHUNK = 1 << 22


class Damaged(Exception):
    """The folder is not a complete, unchanged checkpoint; the message says what is wrong."""


class Unfinished(Damaged):
    """The save was interrupted: the folder never was a checkpoint."""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a checkpoint holds."""

    step: int
    """Optimiser steps done."""
    metrics: Mapping[str, float]
    """The metrics it was saved with, for choosing the best."""
    arrays: Mapping[str, str]
    """Dtype and shape of each array, by its path in the tree."""
    files: Mapping[str, tuple[int, int]]
    """Bytes and CRC-32 of each file, by its path in the folder."""


def write(
    folder: pathlib.Path, *, step: int, metrics: Mapping[str, float], arrays: Mapping[str, str]
) -> None:
    """Checksum every file in the folder, get all of it onto the disk, and only then commit."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    body = {
        "version": _VERSION,
        "step": step,
        "metrics": dict(metrics),
        "arrays": dict(arrays),
        "files": {
            path.relative_to(folder).as_posix(): _size_and_checksum(path, sync=True)
            for path in paths
        },
    }
    for directory in [path for path in folder.rglob("*") if path.is_dir()]:
        sync_directory(directory)
    text = json.dumps({"crc32": _checksum_of(body), "body": body}, indent=1)
    partial = folder / f"{NAME}.partial"
    partial.write_text(text)
    _size_and_checksum(partial, sync=True)
    partial.replace(folder / NAME)
    sync_directory(folder)


def read(folder: pathlib.Path) -> Manifest:
    """The manifest, if the folder is complete by the sizes of its files.

    Raises:
      Unfinished: there is no manifest.
      Damaged: the manifest was changed, or a file is missing or has another size.
    """
    try:
        document = json.loads((folder / NAME).read_bytes())
        body = document["body"]
        intact = document["crc32"] == _checksum_of(body)
    except FileNotFoundError:
        raise Unfinished("it was never finished: there is no manifest") from None
    except OSError as error:
        raise Damaged(f"its manifest cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Damaged("its manifest cannot be read") from None
    if not intact:
        raise Damaged("its manifest was changed after it was written")
    if body["version"] != _VERSION:
        raise Damaged(f"its format is version {body['version']}, this program reads {_VERSION}")
    files = {name: (size, checksum) for name, (size, checksum) in body["files"].items()}
    for name, (size, _) in files.items():
        try:
            found = (folder / name).stat().st_size
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror}") from None
        if found != size:
            raise Damaged(f"{name} has {found} bytes, not {size}")
    return Manifest(step=body["step"], metrics=body["metrics"], arrays=body["arrays"], files=files)


def verify(folder: pathlib.Path) -> Manifest:
    """The manifest, if every file is what was written; reads all of them.

    Raises:
      Damaged: as `read`, or a file's checksum differs.
    """
    manifest = read(folder)
    for name, expected in manifest.files.items():
        try:
            found = _size_and_checksum(folder / name)
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror}") from None
        if found != expected:
            raise Damaged(f"{name} was changed after it was written")
    return manifest


def best(manifests: Mapping[int, Manifest], *, metric: str | None, mode: str) -> int | None:
    """The step whose metric is largest, or smallest in mode "min"; the newest of equals.

    A checkpoint without the metric, or with nan, does not compete.
    """
    sign = -1 if mode == "min" else 1
    scores = {
        step: sign * manifest.metrics[metric]
        for step, manifest in manifests.items()
        if metric is not None and not math.isnan(manifest.metrics.get(metric, math.nan))
    }
    return max(scores, key=lambda step: (scores[step], step), default=None)


def sync_directory(directory: pathlib.Path) -> None:
    """Get the names in a directory onto the disk, not only the files behind them."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size_and_checksum(path: pathlib.Path, *, sync: bool = False) -> tuple[int, int]:
    """Bytes and CRC-32 of a file, read in pieces."""
    size = checksum = 0
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        while piece := file.read(_CHUNK):
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
    return size, checksum


def _checksum_of(body: object) -> int:
    """CRC-32 of a JSON value, whatever its layout in the file."""
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
