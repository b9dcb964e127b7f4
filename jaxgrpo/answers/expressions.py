"""Exact arithmetic on short texts: a recursive-descent parser with limits, no code is run."""

import dataclasses
import re
from fractions import Fraction

# Chosen so that the slowest text within them takes a few milliseconds.
_MAX_CHARACTERS = 1000
_MAX_DEPTH = 50
_MAX_BITS = 8192

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)|(?P<sign>[-+*/^()]))"
)


class _Unreadable(Exception):
    """The text is no expression, or a limit is passed."""


@dataclasses.dataclass(frozen=True)
class Expression:
    """A value and the numbers it was made of."""

    value: Fraction
    """The exact value."""

    integers: tuple[int, ...]
    """Every number of the text that is written in digits alone, in order."""

    only_integers: bool
    """Whether all numbers are such."""


def parse(text: str, *, powers: bool = False) -> Expression | None:
    """The value of an expression in + - * / and brackets, and the integers in it.

    Args:
      text: decimals and exponents (1.5e3) are numbers too; nothing is multiplied silently.
      powers: also read ^ with a whole exponent, right to left.

    Returns:
      None where the text is anything else, divides by zero, or is too long, deep or large.
    """
    try:
        tokens = _tokens(text, powers)
        parser = _Parser(tokens)
        value = parser.sum(0)
        if parser.position != len(tokens):
            return None
    except _Unreadable:
        return None
    numbers = [token for token in tokens if token[0] in "0123456789."]
    integers = tuple(int(number) for number in numbers if number.isdigit())
    return Expression(value, integers, len(integers) == len(numbers))


def evaluate(text: str) -> Fraction | None:
    """The exact value of an expression in + - * / and brackets, None where it is none.

    Example:
      >>> evaluate("(1 + 2) * 3 / 4")
      Fraction(9, 4)
      >>> evaluate("2 ** 9") is None and evaluate("1 / 0") is None
      True
    """
    expression = parse(text)
    return None if expression is None else expression.value


def _tokens(text: str, powers: bool) -> list[str]:
    if len(text) > _MAX_CHARACTERS:
        raise _Unreadable
    tokens: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        token = "" if match is None else match["number"] or match["sign"]
        if match is None or (token == "^" and not powers):
            raise _Unreadable
        tokens.append(token)
        position = match.end()
    return tokens


class _Parser:
    """sum = product (+- product)*, product = signed (*/ signed)*, signed = [+-] signed | power."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self.position += 1
        return token

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self._peek() in ("+", "-"):
            sign = self._take()
            other = self._product(depth)
            value = _limited(value + other if sign == "+" else value - other)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._signed(depth)
        while self._peek() in ("*", "/"):
            sign = self._take()
            other = self._signed(depth)
            if sign == "/" and not other:
                raise _Unreadable
            value = _limited(value * other if sign == "*" else value / other)
        return value

    def _signed(self, depth: int) -> Fraction:
        if depth > _MAX_DEPTH:
            raise _Unreadable
        if self._peek() in ("+", "-"):
            sign = self._take()
            value = self._signed(depth + 1)
            return -value if sign == "-" else value
        base = self._atom(depth)
        if self._peek() != "^":
            return base
        self._take()
        return _power(base, self._signed(depth + 1))

    def _atom(self, depth: int) -> Fraction:
        token = self._take()
        if token == "(":
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise _Unreadable
            return value
        if not token or token in "-+*/^)":
            raise _Unreadable
        return _limited(Fraction(token))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or (base == 0 and exponent <= 0):
        raise _Unreadable
    if _bits(base) * abs(exponent.numerator) > _MAX_BITS:
        raise _Unreadable
    return base**exponent.numerator


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _limited(value: Fraction) -> Fraction:
    if _bits(value) > _MAX_BITS:
        raise _Unreadable
    return value
