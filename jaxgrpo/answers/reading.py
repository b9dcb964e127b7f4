"""What an answer can mean: one tree where writers agree, more where they do not."""

import re
from functools import lru_cache

from jaxgrpo.answers.cleaning import clean
from jaxgrpo.answers.structures import parse
from jaxgrpo.answers.tree import Node, UnreadableError

MAX_CHARACTERS = 4000

_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_SPACED_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?")
_TIGHT = re.compile(r"/\s?[0-9]+[a-zA-Z\\]")
_BARE_LOGARITHM = re.compile(r"(?<![A-Za-z])log(?![A-Za-z_])(?!\s*_)")
_SPACED_UNIT = re.compile(r"[0-9}]\s[A-Za-z]$")


@lru_cache(maxsize=4096)
def readings(text: str) -> tuple[Node, ...]:
    r"""The trees that an answer can mean, the likeliest first; none where it is unreadable.

    There is more than one where writers differ: `1,234` is a number or a list, `1/2x` is x/2 or
    1/(2x), and `5 m` has a unit or an unknown.

    Example:
      >>> len(readings("1,234")), len(readings("x + 1")), len(readings("import os"))
      (2, 1, 0)
    """
    try:
        text = clean(text)
    except UnreadableError:
        return ()
    if len(text) > MAX_CHARACTERS:
        return ()
    if not text.endswith("..."):
        text = _without_end(text)
    # A text, whether 1/2x is 1/(2x), whether a bare logarithm is decimal.
    spellings: list[tuple[str, bool, bool]] = []
    if _SPACED_THOUSANDS.fullmatch(text):
        spellings.append((text.replace(" ", ""), False, False))
    if "," in text and not any(opening in text for opening in ("(", "[", r"\{")):
        joined = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
        if joined != text:
            spellings.append((joined, False, False))
    spellings.append((text, False, False))
    if "/" in text and _TIGHT.search(text):
        spellings.append((text, True, False))
    if _SPACED_UNIT.search(text):
        spellings.append((f"{text[:-1]}\\text{{{text[-1]}}}", False, False))
    if _BARE_LOGARITHM.search(text):
        spellings.append((text, False, True))
    trees: list[Node] = []
    for spelling, tight, decimal in spellings:
        try:
            tree = parse(spelling, tight=tight, decimal=decimal)
        except (UnreadableError, RecursionError):
            continue
        if tree not in trees:
            trees.append(tree)
    return tuple(trees)


def _without_end(text: str) -> str:
    r"""A text without the stops, commas and spaces, `\,` too, at its end."""
    end = len(text)
    while end:
        if text[end - 1] in ",;:! " and text[max(end - 2, 0)] == "\\" and end > 1:
            end -= 2
        elif text[end - 1] in " .,;\n\t\r":
            end -= 1
        else:
            break
    return text[:end]
