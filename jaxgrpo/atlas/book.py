"""All plates of an atlas, drawn and written into one folder at the very end."""

import json
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxgrpo.atlas.drawing import draw, require_matplotlib
from jaxgrpo.atlas.page import render_page
from jaxgrpo.atlas.plates import Plate, interval_plate, plate_of, plates_of_several
from jaxgrpo.atlas.subjects import Subject, all_subjects, find_subject
from jaxgrpo.clipping import INTERVALS
from jaxgrpo.core.errors import UserError

Progress = Callable[[str, int, int], None]
"""Told what was done, of how many steps, how many are behind."""


def plan_book(requests: Sequence[str]) -> list[Subject]:
    """The operators of an atlas: those asked for, each once, or all.

    Raises:
      UserError: a name or an option is not known, or matplotlib is not installed.
    """
    require_matplotlib()
    if not requests:
        return all_subjects()
    subjects = [find_subject(request) for request in dict.fromkeys(requests)]
    slugs = [subject.slug for subject in subjects]
    if twice := [slug for slug in slugs if slugs.count(slug) > 1]:
        raise UserError(f"two of the operators asked for would both be drawn as {twice[0]}.svg")
    return subjects


def draw_book(
    subjects: Sequence[Subject],
    directory: pathlib.Path,
    *,
    span: float = 8.0,
    on_progress: Progress = lambda what, done, total: None,
) -> list[pathlib.Path]:
    """Write NAME.svg and NAME.png of each operator, of several together, index.html and atlas.json.

    Nothing is written until everything is drawn.

    Args:
      subjects: from `plan_book`.
      directory: made if it isn't there; files of the same names are replaced.
      span: the largest ratio on the axis; 1 / span is the least.
      on_progress: called after every picture that was computed or drawn.

    Returns:
      The files written, `index.html` last.

    Raises:
      UserError: a user's function fails, or an option is out of range.
    """
    total, done = 2 * len(subjects) + 1, 0
    plates: list[Plate] = []
    for subject in subjects:
        plates.append(_plate(subject, span))
        done += 1
        on_progress(subject.label, done, total)
    named = {subject.label for subject in subjects}
    together = plates_of_several(plates)
    if named & set(INTERVALS):
        together.append(interval_plate())
    # The first picture is of what an atlas is for: operators beside each other.
    plates = [*together, *plates]
    total = done + len(plates)
    files: dict[str, bytes] = {}
    for plate in plates:
        for kind, content in draw(plate).items():
            files[f"{plate.slug}.{kind}"] = content
        done += 1
        on_progress(plate.slug, done, total)
    files["atlas.json"] = (json.dumps(numbers_of(plates, span)) + "\n").encode()
    files["index.html"] = render_page(plates).encode()
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return [directory / name for name in files]


def numbers_of(plates: Sequence[Plate], span: float) -> dict[str, Any]:
    """The numbers of the curves as JSON: nan is null; heat maps are left to the pictures."""
    return {"format": 1, "span": span, "plates": [_plate_numbers(plate) for plate in plates]}


def _plate(subject: Subject, span: float) -> Plate:
    # A user's function may fail in any way; one of ours, of options that are out of range.
    faults = Exception if subject.card is None else (TypeError, ValueError, LookupError)
    try:
        return plate_of(subject, span)
    except faults as error:
        raise UserError(f"{subject.label}: {type(error).__name__}: {error}") from error


def _plate_numbers(plate: Plate) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "name": plate.slug,
        "title": plate.title,
        "caption": plate.caption,
        "files": [f"{plate.slug}.svg", f"{plate.slug}.png"],
        "panels": [
            {
                "title": panel.title,
                "x": panel.x_label,
                "y": panel.y_label,
                "curves": list(_curves(panel.curves)),
            }
            for panel in plate.panels
            if panel.curves
        ],
    }
    if plate.subject is not None:
        numbers["family"] = plate.subject.family
        numbers["options"] = {name: _plain(v) for name, v in plate.subject.options.items()}
    return numbers


def _curves(curves: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for curve in curves:
        yield {
            "label": curve.label,
            "x": [_finite(x) for x in curve.x],
            "y": [_finite(y) for y in curve.y],
            "jumps": [vars(jump) for jump in curve.jumps],
        }


def _finite(value: float | np.floating) -> float | None:
    return float(value) + 0 if math.isfinite(value) else None


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
