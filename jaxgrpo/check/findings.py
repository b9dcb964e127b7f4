"""What a check of one operator found: a line a property, and the map of where gradient flows."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One property of one operator."""

    name: str
    """The property, as in `jaxgrpo.check.PROPERTIES`."""
    passed: bool
    error: float | None = None
    """Largest error found, in the unit of `tolerance`; None where there is nothing to measure."""
    tolerance: float | None = None
    """What `error` may be."""
    diagnosis: str = ""
    """In words, what is wrong; empty where it passed."""
    note: str = ""
    """What else there is to say: a limit of the check, or a declared exception."""

    def as_json(self) -> dict[str, Any]:
        """Plain values only; numbers that JSON has no word for are text."""
        return {key: _plain(value) for key, value in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Region:
    """Ratios over which tokens of one sign of the advantage behave alike."""

    advantage: str
    """"A > 0" or "A < 0"."""
    low: float
    """The smallest ratio policy / anchor of the region; 0 where the map ends."""
    high: float
    """The largest; inf where the map ends."""
    flow: str
    """"with the advantage", "against the advantage" or "none"."""

    def __str__(self) -> str:
        return f"{self.advantage}, ratio {self.low:.4g} to {self.high:.4g}: {self.flow}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that was found about one operator."""

    name: str
    family: str
    claims: str
    """The gradient that the operator declares."""
    findings: Sequence[Finding]
    regions: Sequence[Region] = ()
    card: Mapping[str, Any] | None = None
    """Of a registered operator: formula, source and the rest."""
    seconds: float = math.nan

    @property
    def passed(self) -> bool:
        """Whether every property holds."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> list[Finding]:
        """The properties that don't hold."""
        return [finding for finding in self.findings if not finding.passed]

    def as_json(self) -> dict[str, Any]:
        """Plain values only, for `--json`."""
        return {
            "name": self.name,
            "family": self.family,
            "claims": self.claims,
            "passed": self.passed,
            "seconds": _plain(round(self.seconds, 3)),
            "findings": [finding.as_json() for finding in self.findings],
            "regions": [
                {key: _plain(value) for key, value in dataclasses.asdict(region).items()}
                for region in self.regions
            ],
            "card": None if self.card is None else dict(self.card),
        }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
