"""The list of properties, each a function from an operator to what was measured."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from jaxgrpo.check.findings import Region
from jaxgrpo.check.subject import Subject

LOG_PROB_FAMILIES = ("loss", "penalty", "divergence", "top-divergence", "weight")
EVERY = (*LOG_PROB_FAMILIES, "row-divergence", "row-penalty")
DIFFERENTIABLE = tuple(family for family in EVERY if family != "weight")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one property came to; it holds where there is no diagnosis."""

    error: float | None = None
    tolerance: float | None = None
    diagnosis: str = ""
    note: str = ""
    regions: Sequence[Region] = ()


@dataclasses.dataclass(frozen=True)
class Property:
    """A property and the families of operators that should have it."""

    name: str
    families: tuple[str, ...]
    measure: Callable[[Subject], Outcome]


PROPERTIES: dict[str, Property] = {}


def register(
    name: str, families: tuple[str, ...]
) -> Callable[[Callable[[Subject], Outcome]], Callable[[Subject], Outcome]]:
    """Decorator: adds a property at the end of the list."""

    def add(measure: Callable[[Subject], Outcome]) -> Callable[[Subject], Outcome]:
        PROPERTIES[name] = Property(name, families, measure)
        return measure

    return add


def compared(
    got: object,
    expected: object,
    *,
    tolerance: float,
    diagnosis: Callable[[], str] | str,
    note: str = "",
) -> Outcome:
    """The largest difference relative to the largest expected entry (at least 1), and a diagnosis.

    Entries that are the same infinity agree; nan agrees with nothing.
    """
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where(got == expected, 0.0, np.abs(got - expected))
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    error = float(np.max(np.nan_to_num(difference, nan=np.inf), initial=0.0)) / scale
    if error <= tolerance:
        return Outcome(error=error, tolerance=tolerance, note=note)
    said = diagnosis if isinstance(diagnosis, str) else diagnosis()
    return Outcome(error=error, tolerance=tolerance, diagnosis=said, note=note)
