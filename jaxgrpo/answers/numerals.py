r"""Numbers as they are written: decimals, mixed numbers, repeating decimals."""

from fractions import Fraction
from typing import TYPE_CHECKING

from jaxgrpo.answers.building import MAX_DIGITS, is_proper, read_number
from jaxgrpo.answers.tree import Node, Number, UnreadableError

if TYPE_CHECKING:
    from jaxgrpo.answers.parser import Parser

_MAX_REPEATED = 40


def numeral(parser: "Parser", text: str) -> Node:
    """The number that begins with these digits, which are consumed."""
    if len(text) > MAX_DIGITS:
        raise UnreadableError
    if "." in text and parser.peek().text in (r"\overline", r"\dot", r"\bar"):
        return _repeating(parser, text)
    number = read_number(text)
    if number.decimals is None:
        fraction = _mixed_part(parser)
        if fraction is not None:
            return Number(number.value + fraction)
    return number


def _repeating(parser: "Parser", text: str) -> Node:
    parser.take()
    argument = parser.argument()
    if not isinstance(argument, Number) or argument.decimals is not None or argument.value < 0:
        raise UnreadableError
    # The digits as written: 0.\overline{09}.
    digits = parser.tokens[parser.position - 2].text
    if not digits.isdecimal() or len(digits) > _MAX_REPEATED:
        raise UnreadableError
    start = len(text.partition(".")[2])
    value = Fraction(text.rstrip(".") or "0") + Fraction(
        int(digits), (10 ** len(digits) - 1) * 10**start
    )
    return Number(value)


def _mixed_part(parser: "Parser") -> Fraction | None:
    r"""The fraction of a mixed number, 1\frac{2}{3} or 1 2/3, if one stands here."""
    start = parser.position
    token = parser.peek()
    if token.text == r"\frac":
        parser.take()
        try:
            top, bottom = parser.argument(), parser.argument()
        except UnreadableError:
            top = bottom = None
        if is_proper(top, bottom):
            return Fraction(top.value, bottom.value)  # type: ignore[union-attr]
        parser.position = start
    elif token.kind == "number" and token.spaced and parser.peek(1).text == "/":
        top, bottom = parser.peek(), parser.peek(2)
        if bottom.kind == "number" and top.text.isdecimal() and bottom.text.isdecimal():
            if not 0 < int(top.text) < int(bottom.text):
                raise UnreadableError
            parser.position += 3
            return Fraction(int(top.text), int(bottom.text))
    return None
