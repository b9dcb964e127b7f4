"""Whole answers: lists, sets, intervals, relations, ratios and units around expressions."""

import re
from fractions import Fraction

from jaxgrpo.answers import units
from jaxgrpo.answers.building import inverted, multiplied, negated
from jaxgrpo.answers.parser import Parser
from jaxgrpo.answers.tokens import Token, tokenise
from jaxgrpo.answers.tree import (
    Bracketed,
    Call,
    Combined,
    Listing,
    Measured,
    Node,
    Number,
    Ratio,
    Relation,
    Symbol,
    UnreadableError,
    contains,
)

_RELATIONS = frozenset(("=", r"\ne", r"\lt", r"\gt", r"\le", r"\ge", r"\in", r"\approx", r"\equiv"))
_COMBINING = (r"\cup", r"\cap", r"\setminus")
_JOINING = re.compile(r"(?:,\s*)?(?:and|or)(?:\s*,)?", re.IGNORECASE)
_HALVES = {"am": "am", "a.m.": "am", "a.m": "am", "pm": "pm", "p.m.": "pm", "p.m": "pm"}
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_CURRENCIES = {r"\$": "dollar", r"\pounds": "pound sterling", r"\euro": "euro"}


def parse(text: str, *, tight: bool = False, decimal: bool = False) -> Node:
    """The tree of a cleaned answer.

    Args:
      text: what `clean` returns.
      tight: read 1/2x as 1/(2x).
      decimal: read log x as log_10 x.

    Raises:
      UnreadableError: it is none that this package understands.
    """
    parser = Parser(tokenise(text), _group, tight=tight, decimal=decimal)
    items = _items(parser)
    if parser.position < len(parser.tokens):
        raise UnreadableError
    return items[0] if len(items) == 1 else Listing(tuple(items))


def _group(parser: Parser, opening: str, closing: str) -> Node:
    """What stands between brackets whose opening one is consumed."""
    bars, parser.bars = parser.bars, 0
    if opening == r"\{" and parser.accept(closing):
        parser.bars = bars
        return Symbol("emptyset")
    if opening == "cases":
        return _cases(parser)
    if opening == r"\{":
        _skip_builder(parser)
    items = _items(parser)
    parser.bars = bars
    end = parser.take().text
    if opening == r"\{":
        if end != closing:
            raise UnreadableError
        if len(items) == 1 and isinstance(items[0], Relation):
            # The numbers that it holds for.
            return items[0]
        return Listing(tuple(items), braced=True)
    if end != closing and {opening, end} not in ({"(", "]"}, {"[", ")"}):
        raise UnreadableError
    if len(items) == 1:
        if end != closing:
            raise UnreadableError
        return items[0]
    if opening == "{":
        return Listing(tuple(items))
    return Bracketed(opening, end, tuple(items))


def _cases(parser: Parser) -> Node:
    """The rows of a system of equations; conditions beside them are not understood."""
    items = [_item(parser)]
    while parser.accept("\\\\", ","):
        if parser.peek().text == r"\end":
            break
        items.append(_item(parser))
    if not parser.ahead(r"\end", "{", "cases", "}"):
        raise UnreadableError
    parser.position += 4
    return Listing(tuple(items))


def _skip_builder(parser: Parser) -> None:
    r"""Pass over the head of {x | x > 2} and {x \in R : x > 2}."""
    if parser.peek().kind != "letters" or len(parser.peek().text) != 1:
        return
    ahead = 1
    if parser.peek(1).text == r"\in" and parser.peek(2).text in (r"\mathbb", r"\R"):
        ahead = 6 if parser.peek(3).text == "{" else 3
    if parser.peek(ahead).text in ("|", ":"):
        parser.position += ahead + 1


def _items(parser: Parser) -> list[Node]:
    items = [_item(parser)]
    while _separated(parser):
        if len(items) > 500:
            raise UnreadableError
        items.append(_item(parser))
    return items


def _separated(parser: Parser) -> bool:
    found = parser.accept(",", ";")
    token = parser.peek()
    if token.kind in ("text", "letters") and _JOINING.fullmatch(token.text.strip()):
        parser.take()
        return True
    return found


def _item(parser: Parser) -> Node:
    """A relation or what stands on one side of it."""
    # "About" is said of the value that is given.
    parser.accept(r"\approx", r"\sim")
    terms, operators = [_side(parser)], []
    while parser.peek().text in _RELATIONS and parser.peek().kind in ("sign", "command"):
        operators.append(parser.take().text.replace(r"\equiv", "="))
        terms.append(_side(parser))
    return Relation(tuple(terms), tuple(operators)) if operators else terms[0]


def _side(parser: Parser) -> Node:
    """Sets joined by union, intersection or difference."""
    token = parser.peek()
    named = token.kind == "text" or (token.kind == "letters" and parser.is_word(token))
    if named and parser.peek(1).text in _RELATIONS:
        parser.take()
        return Symbol(token.text.lower())
    result = _ratio(parser)
    if parser.accept(r"\choose"):
        return Call("binom", (result, _ratio(parser)))
    if parser.accept(r"\over"):
        return multiplied(result, inverted(_ratio(parser)))
    if parser.accept(r"\pmod", r"\bmod", r"\mod"):
        return Call("mod", (result, parser.argument()))
    while parser.peek().text in _COMBINING:
        operator = parser.take().text[1:]
        right = _ratio(parser)
        if isinstance(result, Combined) and result.operator == operator == "cup":
            result = Combined(operator, (*result.parts, right))
        else:
            result = Combined(operator, (result, right))
    return result


def _ratio(parser: Parser) -> Node:
    parts = [_measured(parser)]
    clock = False
    while True:
        token = parser.peek()
        if token.text == ":":
            parser.take()
            following = parser.peek().text
            clock = len(following) == 2 and following.isdecimal() and following < "60"
        elif token.kind in ("text", "letters") and token.text.strip() == "to":
            parser.take()
        else:
            break
        parts.append(_measured(parser))
    if len(parts) == 1:
        return parts[0]
    half = _HALVES.get(parser.peek().text.strip().lower())
    if half:
        parser.take()
        return Measured(Ratio(tuple(parts), True), half)
    return Ratio(tuple(parts), clock)


def _measured(parser: Parser) -> Node:
    """An expression with its currency before it or its unit behind it."""
    sign = parser.peek().text == "-" and parser.peek(1).text in _CURRENCIES
    if sign:
        parser.take()
    currency = _CURRENCIES.get(parser.peek().text)
    if currency:
        parser.take()
    value = parser.expression()
    if sign:
        value = negated(value)
    if currency:
        value = Measured(value, currency)
    # Plain letters behind letters are prose.
    if parser.peek().kind == "letters" and not contains(value, (Number, Call)):
        return value
    phrase = _unit_phrase(parser)
    scale, _, rest = phrase.partition(" ")
    if scale.lower() in _SCALES:
        value = multiplied(value, Number(Fraction(10 ** _SCALES[scale.lower()])))
        phrase = rest
    if phrase:
        if isinstance(value, Measured):
            if value.unit != "degree":
                raise UnreadableError
            return Measured(value.value, units.canonical(f"degree {phrase}"))
        return Measured(value, units.canonical(phrase))
    return value


def _unit_phrase(parser: Parser) -> str:
    """The words and signs of a unit, consumed; "" where none stands here."""
    if not _starts_unit(parser, parser.peek()):
        return ""
    pieces: list[str] = []
    while True:
        token = parser.peek()
        if token.kind in ("text", "letters"):
            words = token.text.strip()
            if _JOINING.fullmatch(words) or words == "to" or words.lower() in _HALVES:
                break
            pieces.append(words)
        elif token.kind == "number":
            if pieces[-1] not in ("^", "{") and (token.spaced or len(token.text) > 1):
                break
            pieces.append(token.text)
        elif token.text in ("/", "^", "{", "}", "*", "-", "."):
            if token.text == "}" and "{" not in pieces:
                break
            pieces.append(token.text)
        else:
            break
        parser.take()
    return " ".join(pieces)


def _starts_unit(parser: Parser, token: Token) -> bool:
    if token.kind == "text":
        return not _JOINING.fullmatch(token.text.strip()) and token.text.strip() != "to"
    if token.kind != "letters" or _JOINING.fullmatch(token.text) or token.text == "to":
        return False
    return parser.is_word(token) or units.is_abbreviation(token.text)
