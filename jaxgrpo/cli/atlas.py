"""`jaxgrpo atlas [NAME ...] --out DIR`."""

import argparse
import pathlib
import time
from collections.abc import Sequence

from jaxgrpo.cli.arguments import Parser
from jaxgrpo.core.errors import UserError

EXAMPLES = """\
  jaxgrpo atlas --out atlas                                  # all of them; open atlas/index.html
  jaxgrpo atlas atr ppo_clip --span 1.5 --out atlas          # two, and a picture of both
  jaxgrpo atlas ppo_clip ppo_clip,clip_high=0.28 --out atlas # with options
  jaxgrpo atlas mine:band,width=0.1 --out atlas              # your own
"""


def main(words: Sequence[str]) -> int:
    """Draw operators."""
    parser = Parser(
        "atlas",
        "Draw what operators do: the gradient weight that a policy loss gives a token over its "
        "ratio, the gradient of a penalty, the value of a divergence. Each is a PNG and an SVG; "
        "index.html shows them with their formulas, atlas.json has the numbers.",
        EXAMPLES,
    )
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="a loss, penalty or divergence; NAME,OPTION=VALUE,...; module:function; none for all",
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="the folder to write into")
    parser.add_argument(
        "--span", type=_span, default=8.0, help="the largest ratio drawn; 1 / SPAN is the least (8)"
    )
    arguments = parser.parse_args(words)

    from jaxgrpo.atlas import draw_book, plan_book

    directory = pathlib.Path(arguments.out)
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory}: wanted a folder, and there is a file")
    subjects = plan_book(arguments.names)
    files = draw_book(subjects, directory, span=arguments.span, on_progress=_Progress())
    print(f"{len(files)} files; open {directory / 'index.html'}")
    return 0


class _Progress:
    """A line whenever a few seconds went by since the last."""

    _EVERY_SECONDS = 3.0

    def __init__(self) -> None:
        self._began = self._told = time.perf_counter()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if done < total and now - self._told < self._EVERY_SECONDS:
            return
        self._told = now
        left = (now - self._began) / done * (total - done)
        print(f"{done}/{total}  {what}  ETA {left:.0f} s", flush=True)


def _span(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 < value <= 1024:
        raise argparse.ArgumentTypeError(f"wanted a number above 1, at most 1024, got {text!r}")
    return value
