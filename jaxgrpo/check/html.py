"""Reports as one page that needs nothing else: a table an operator, and its map of the ratio."""

import html
import math
from collections.abc import Iterator, Sequence

from jaxgrpo.check.findings import Finding, Region, Report

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 1rem }
table { border-collapse: collapse; width: 100%; margin: .6rem 0 1.6rem }
td, th { text-align: left; padding: .15rem .7rem .15rem 0; border-bottom: 1px solid #ddd }
td, th { vertical-align: top }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.fail { color: #a3000b; font-weight: 600 } .pass { color: #00614a }
.note { color: #555 } h2 { margin: 2rem 0 0 } code { font-size: .95em }
svg { display: block; margin: .5rem 0 }
"""
_SPAN = math.log(16)
# Okabe and Ito's colours, and a pattern of strokes for print.
_FILLS = {"with the advantage": "#56b4e9", "none": "#ffffff", "against the advantage": "#d55e00"}


def page(reports: Sequence[Report]) -> str:
    """One HTML document."""
    failed = sum(not report.passed for report in reports)
    summary = (
        "every property of every operator holds"
        if not failed
        else f"{failed} of {len(reports)} operators do not have every property"
    )
    body = "\n".join(part for report in reports for part in _report(report))
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
        f"<title>jaxgrpo check</title><style>{_STYLE}</style>\n"
        f"<h1>jaxgrpo check</h1><p>{len(reports)} operators: {summary}.</p>\n{_index(reports)}\n"
        f"{body}\n</html>\n"
    )


def _index(reports: Sequence[Report]) -> str:
    links = " &middot; ".join(
        f'<a class="{_verdict(report.passed)}" href="#{_anchor(report)}">'
        f"{html.escape(report.name)}</a>"
        for report in reports
    )
    return f"<p>{links}</p>"


def _report(report: Report) -> Iterator[str]:
    yield f'<h2 id="{_anchor(report)}">{html.escape(report.name)}</h2>'
    yield (
        f"<p>{html.escape(report.family)}, claims <code>{html.escape(report.claims)}</code>, "
        f'<span class="{_verdict(report.passed)}">{_verdict(report.passed)}</span>, '
        f"{report.seconds:.1f} s</p>"
    )
    if report.card:
        formula, source = (html.escape(str(report.card[key])) for key in ("formula", "source"))
        yield f"<p><code>{formula}</code><br>{source}</p>"
    if report.regions:
        yield _map(report.regions)
    yield "<table><tr><th></th><th>property</th><th>error</th><th>bound</th><th></th></tr>"
    yield from map(_row, report.findings)
    yield "</table>"


def _row(finding: Finding) -> str:
    verdict = _verdict(finding.passed)
    said = (
        f'<span class="fail">{html.escape(finding.diagnosis)}</span>' if finding.diagnosis else ""
    )
    note = f'<span class="note">{html.escape(finding.note)}</span>' if finding.note else ""
    return (
        f'<tr><td class="{verdict}">{verdict}</td><td>{html.escape(finding.name)}</td>'
        f'<td class="number">{_number(finding.error)}</td>'
        f'<td class="number">{_number(finding.tolerance)}</td><td>{said}{note}</td></tr>'
    )


def _map(regions: Sequence[Region]) -> str:
    """Two bars over the ratio, from 1/16 to 16: coloured where gradient flows."""
    parts = []
    for line, sign in enumerate(("A > 0", "A < 0")):
        top = 22 * line
        parts.append(f'<text x="0" y="{top + 14}" font-size="13">{html.escape(sign)}</text>')
        for region in regions:
            if region.advantage == sign:
                left, right = _place(region.low), _place(region.high)
                parts.append(
                    f'<rect x="{left:.1f}" y="{top + 2}" width="{right - left:.1f}" height="16" '
                    f'fill="{_FILLS[region.flow]}" stroke="#333"><title>'
                    f"{html.escape(str(region))}</title></rect>"
                )
    for ratio in (1 / 16, 1 / 4, 1, 4, 16):
        x = _place(ratio)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="44" stroke="#333" stroke-dasharray="2 3"/>'
            f'<text x="{x:.1f}" y="58" font-size="12" text-anchor="middle">{ratio:g}</text>'
        )
    said = "gradient flows where coloured, over the ratio policy / anchor"
    return (
        f'<svg width="620" height="64" role="img" aria-label="{said}"><title>{said}</title>'
        f"{''.join(parts)}</svg>"
    )


def _place(ratio: float) -> float:
    position = math.log(max(ratio, 1e-9)) if math.isfinite(ratio) else math.inf
    return 60 + 540 * (min(max(position / _SPAN, -1), 1) + 1) / 2


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.1e}"


def _verdict(passed: bool) -> str:
    return "pass" if passed else "fail"


def _anchor(report: Report) -> str:
    return html.escape(f"{report.family}-{report.name}".replace(":", "-"), quote=True)
