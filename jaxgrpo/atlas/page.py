"""The atlas as one HTML page: every picture beside what the operator's card says of it."""

import html
import itertools
from collections.abc import Iterable, Iterator, Sequence

from jaxgrpo.atlas.plates import Plate, plural

_CSS = """
body{font:15px/1.45 system-ui,sans-serif;color:#111;background:#fff;margin:2rem auto;
max-width:76rem;padding:0 1rem}
nav a{margin-right:.7em;white-space:nowrap}
figure{margin:1.5rem 0;border-top:1px solid #ccc;padding-top:1rem}
img{max-width:100%;height:auto}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.5rem 0}
dt{color:#555}dd{margin:0}
figcaption{max-width:60rem}
"""


def render_page(plates: Sequence[Plate]) -> str:
    """The page; its pictures are the files beside it, and nothing comes from a network."""
    return "\n".join(_lines(plates)) + "\n"


def _lines(plates: Sequence[Plate]) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>Operators of jaxgrpo</title><style>{_CSS}</style></head><body>"
    yield "<h1>Operators of jaxgrpo</h1>"
    yield (
        "<p>Every weight is autodiff of the operator itself, every divergence its own value; the "
        'numbers are in <a href="atlas.json">atlas.json</a>. w is the ratio of the policy to its '
        "anchor, A the advantage.</p>"
    )
    groups = [
        (family, list(members))
        for family, members in itertools.groupby(plates, key=lambda plate: _family(plate))
    ]
    for family, members in groups:
        links = "".join(f'<a href="#{p.slug}">{html.escape(p.slug)}</a> ' for p in members)
        yield f"<nav><b>{html.escape(family)}</b> {links}</nav>"
    for family, members in groups:
        yield f"<h2>{html.escape(family)}</h2>"
        for plate in members:
            yield from _entry(plate)
    yield "</body></html>"


def _family(plate: Plate) -> str:
    return plural(plate.subject.family) if plate.subject else "side by side"


def _entry(plate: Plate) -> Iterator[str]:
    title, caption = html.escape(plate.title), html.escape(plate.caption)
    yield f'<figure id="{plate.slug}"><h3>{title}</h3>'
    yield f'<a href="{plate.slug}.svg"><img src="{plate.slug}.svg" alt="{title}: {caption}"></a>'
    yield f'<figcaption>{caption} <a href="{plate.slug}.png">PNG</a></figcaption>'
    if facts := list(_facts(plate)):
        yield "<dl>"
        yield from (
            f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in facts
        )
        yield "</dl>"
    yield "</figure>"


def _facts(plate: Plate) -> Iterable[tuple[str, str]]:
    if plate.subject is None:
        return
    if card := plate.subject.card:
        yield "formula", card.formula
        yield "source", card.source
        yield "level", card.level
        yield "on-policy gradient", card.gradient
        if card.defaults:
            yield "defaults", card.defaults
        if card.disagreements:
            yield "disagreements", card.disagreements
    if plate.subject.options:
        yield "drawn with", ", ".join(f"{k} = {v}" for k, v in plate.subject.options.items())
