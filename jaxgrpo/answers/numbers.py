"""Numbers in an answer, read exactly: integers, decimals, fractions, percentages, units beside."""

import dataclasses
import re
from fractions import Fraction

from jaxgrpo.answers import expressions

_MAX_FRACTIONS = 20

_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_MIXED = [
    re.compile(r"(?<![0-9.}^/*])([0-9]+)\s?\\frac\{([0-9]+)\}\{([0-9]+)\}"),
    re.compile(r"(?<![0-9.}^/*])([0-9]+)\s([0-9]+)\s?/\s?([0-9]+)"),
]
_OPERATORS = {r"\times": "*", r"\cdot": "*", r"\div": "/", "**": "^", "{": "(", "}": ")"}
# The arithmetic up to the first letter that is not the exponent in 1.5e3.
_HEAD = re.compile(r"(?:[0-9.,+\-*/^()\s]|(?<=[0-9.])[eE](?=[+-]?[0-9]))*")
_UNIT = re.compile(r"[A-Za-z][A-Za-z./ ]*(?:\^?\s?\(?[0-9]\)?)?")
# With these a tail says more than a unit does.
_NO_UNIT = frozenset(("or", "and", "not", "to", "is", "are", "but", "if", "than", "about"))
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_ONE_LETTER_UNITS = frozenset("mgshlLVWNJKCFA")
_UNIT_ALIASES = {
    "cm": "centimeter", "mm": "millimeter", "km": "kilometer", "m": "meter", "in": "inch",
    "ft": "foot", "feet": "foot", "inches": "inch", "mi": "mile", "kg": "kilogram", "g": "gram",
    "lb": "pound", "s": "second", "sec": "second", "min": "minute", "h": "hour", "hr": "hour",
    "deg": "degree", "metre": "meter", "centimetre": "centimeter", "kilometre": "kilometer",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number, whether a percent sign stood by it, and its unit ("" for none)."""

    number: Fraction
    percent: bool
    unit: str

    def equals(self, other: "Quantity") -> bool:
        """The same number; units and percent signs may be left out, but not contradict."""
        if self.unit and other.unit and self.unit != other.unit:
            return False
        if self.percent == other.percent or self.number == other.number:
            return self.number == other.number
        return self._plain() == other._plain()

    def _plain(self) -> Fraction:
        return self.number / 100 if self.percent else self.number


def read(text: str) -> Quantity | None:
    """The quantity that a normalised answer is, None where it is anything more or else."""
    currency = text.removeprefix("-").lstrip().startswith(r"\dollar")
    text = text.replace(r"\dollar", "", 1) if currency else text
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    for mixed in _MIXED:
        text = mixed.sub(r"(\1+\2/\3)", text)
    plain = _inline_fractions(text)
    if plain is None:
        return None
    for latex, sign in _OPERATORS.items():
        plain = plain.replace(latex, sign)
    head = _HEAD.match(plain)
    end = head.end() if head else 0
    tail = plain[end:].strip()
    word, _, rest = tail.partition(" ")
    scale = 1
    if word.lower() in _SCALES:
        scale, tail = 10 ** _SCALES[word.lower()], rest
    percent = tail == "%"
    unit = "dollar" if currency else ""
    if tail and not percent:
        if currency or not _is_unit(tail, spaced=plain[:end].endswith(" ")):
            return None
        unit = _canonical_unit(tail)
    expression = expressions.parse(plain[:end], powers=True)
    return None if expression is None else Quantity(expression.value * scale, percent, unit)


def _inline_fractions(text: str) -> str | None:
    r"""`\frac{a}{b}` as ((a)/(b)); the rightmost first, so that arguments hold no further one."""
    for _ in range(_MAX_FRACTIONS):
        start = text.rfind(r"\frac")
        if start < 0:
            return text
        top_end = _closing(text, start + len(r"\frac"))
        bottom_end = _closing(text, top_end)
        if bottom_end < 0:
            return None
        top, bottom = text[start + len(r"\frac") : top_end], text[top_end:bottom_end]
        text = f"{text[:start]}({top}/{bottom}){text[bottom_end:]}"
    return None


def _closing(text: str, start: int) -> int:
    """The position behind the brace group that starts at `start`, -1 where none does."""
    if start < 0 or text[start : start + 1] != "{":
        return -1
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return -1


def _is_unit(tail: str, *, spaced: bool) -> bool:
    """Whether letters behind a number are a unit and no variable, second answer or prose."""
    if not _UNIT.fullmatch(tail) or _NO_UNIT & set(tail.lower().split()):
        return False
    letters = re.sub(r"[^A-Za-z]", "", tail)
    return len(letters) > 1 or (spaced and letters in _ONE_LETTER_UNITS)


def _canonical_unit(tail: str) -> str:
    words = re.sub(r"[()\s.]+", " ", tail).split()
    first = words[0].lower() if len(words[0]) > 1 else words[0]
    first = _UNIT_ALIASES.get(first, first.removesuffix("s"))
    rest = "".join(words[1:]).lower()
    return _UNIT_ALIASES.get(first, first) + rest
