"""Golds and rollouts looked over before they cost anything: what cannot be graded, and why."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from jaxgrpo.answers.golds import GoldKind, gold_kind
from jaxgrpo.answers.grading import Outcome, grade
from jaxgrpo.answers.mode import Mode

SLOW_SECONDS = 0.5
_SHOWN = 20


@dataclasses.dataclass(frozen=True)
class Row:
    """A gold, and a completion where there is one."""

    place: str
    """Where it stands, for people: a line number or an id."""
    gold: str
    completion: str | None = None
    correct: bool | None = None
    """The verdict that the file itself holds, if it holds one."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A row that somebody should look at."""

    row: Row
    reason: str
    quarantine: bool
    """Whether training on the row would give wrong rewards."""


@dataclasses.dataclass
class Audit:
    """What an audit saw."""

    rows: int = 0
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    outcomes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    formatting: list[tuple[Row, str]] = dataclasses.field(default_factory=list)
    """Right answers that are written in another way than their gold."""
    seconds: float = 0.0
    slowest: float = 0.0

    @property
    def quarantined(self) -> list[Row]:
        """The rows that should not be trained on, each once."""
        return list({id(f.row): f.row for f in self.findings if f.quarantine}.values())


def audit(rows: Iterable[Row], *, mode: Mode = Mode.NORMAL, markers: Sequence[str] = ()) -> Audit:
    r"""Grade golds against themselves, and completions against their golds.

    A row is to be quarantined where its gold cannot be parsed, is not its own answer, or takes
    longer than half a second.

    Args:
      rows: golds with or without completions.
      mode: as `grade`.
      markers: as `grade`.

    Example:
      >>> seen = audit([Row("1", "0.5", r"so \boxed{1/2}"), Row("2", r"\frac{1}{")])
      >>> seen.outcomes["right"], [finding.reason for finding in seen.findings]
      (1, ['the gold is unparseable'])
    """
    result = Audit()
    for row in rows:
        result.rows += 1
        kind = gold_kind(row.gold)
        result.kinds[kind.value] += 1
        if kind is GoldKind.UNPARSEABLE:
            result.findings.append(Finding(row, "the gold is unparseable", True))
            continue
        mirror = grade(f"\\boxed{{{row.gold}}}", row.gold, mode=mode)
        _timed(result, row, mirror.seconds)
        if not mirror.correct:
            result.findings.append(Finding(row, "the gold is not its own answer", True))
        if row.completion is None:
            continue
        verdict = grade(row.completion, row.gold, mode=mode, markers=markers)
        result.outcomes[verdict.outcome.value] += 1
        _timed(result, row, verdict.seconds)
        if row.correct is not None and row.correct != verdict.correct:
            told = "right" if row.correct else "wrong"
            result.findings.append(Finding(row, f"the file calls it {told}, we do not", False))
        if verdict.outcome is Outcome.RIGHT and verdict.extracted != row.gold:
            result.formatting.append((row, verdict.extracted or ""))
    return result


def _timed(result: Audit, row: Row, seconds: float) -> None:
    result.seconds += seconds
    result.slowest = max(result.slowest, seconds)
    if seconds > SLOW_SECONDS:
        result.findings.append(Finding(row, f"it takes {seconds:.2f} s to grade", True))


def report(seen: Audit, source: str) -> str:
    """What an audit saw, as Markdown that reads well as plain text too."""
    lines = [
        f"# Audit of {source}",
        "",
        f"{seen.rows} rows, graded in {seen.seconds:.2f} s (slowest {seen.slowest * 1000:.1f} ms); "
        f"{len(seen.quarantined)} to quarantine.",
        "",
        "| golds | rows |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in seen.kinds.most_common()),
    ]
    if seen.outcomes:
        total = sum(seen.outcomes.values())
        lines += ["", "| completions | rows | share |", "|---|---|---|"]
        lines += [
            f"| {outcome} | {count} | {count / total:.1%} |"
            for outcome, count in seen.outcomes.most_common()
        ]
    by_reason = collections.Counter(finding.reason for finding in seen.findings)
    if by_reason:
        lines += ["", "## To look at", ""]
        lines += [f"- {count} rows: {reason}" for reason, count in by_reason.most_common()]
        lines += ["", "| row | gold | why |", "|---|---|---|"]
        lines += [
            f"| {f.row.place} | `{_short(f.row.gold)}` | {f.reason} |"
            for f in seen.findings[:_SHOWN]
        ]
        if len(seen.findings) > _SHOWN:
            lines += ["", f"and {len(seen.findings) - _SHOWN} more."]
    if seen.formatting:
        lines += ["", "## Equal up to formatting", "", "| row | gold | answer |", "|---|---|---|"]
        lines += [
            f"| {row.place} | `{_short(row.gold)}` | `{_short(answer)}` |"
            for row, answer in seen.formatting[:_SHOWN]
        ]
        if len(seen.formatting) > _SHOWN:
            lines += ["", f"and {len(seen.formatting) - _SHOWN} more."]
    return "\n".join(lines) + "\n"


def _short(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= 60 else f"{text[:57]}..."
