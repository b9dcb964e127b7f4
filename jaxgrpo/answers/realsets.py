"""Sets of real numbers: intervals and what inequalities, unions and differences make of them."""

from fractions import Fraction
from typing import Any

from jaxgrpo.answers.approximation import approximate, context
from jaxgrpo.answers.exact import UndecidedError, chosen, exact, key
from jaxgrpo.answers.functions import CONSTANTS, SPECIAL
from jaxgrpo.answers.tree import (
    Bracketed,
    Call,
    Combined,
    Listing,
    Node,
    Number,
    Product,
    Relation,
    Sum,
    Symbol,
    symbols,
)

_DIGITS = 40
_SAME = 30
_POINTS = 3


# A point just below, at or just above a number: the ends of intervals.
End = tuple[Any, int]
# Disjoint stretches from one end to another, sorted.
Stretches = list[tuple[End, End]]


def real_set(node: Node) -> Stretches | None:
    """The set of real numbers that an answer is; None where it is no such set."""
    try:
        return _normal(_stretches(node))
    except UndecidedError:
        return None


def equal(left: Stretches, right: Stretches) -> bool:
    """Whether two sets have the same points."""
    return len(left) == len(right) and all(
        _same_end(a, b)
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def proportional(left: Node, right: Node, *, positive: bool) -> bool:
    """Whether left = c right for a constant c other than 0; c > 0 if `positive`.

    This is when two equations, or two inequalities, say the same.
    """
    names = sorted((symbols(left) | symbols(right)) - CONSTANTS.keys())
    if not names or set(names) & SPECIAL or symbols(left) != symbols(right):
        return False
    seed = repr((key(left), key(right)))
    wide = context(_DIGITS)
    ratio: Any = None
    agreed = 0
    for attempt in range(12):
        values = {name: chosen(name, f"{attempt}{seed}") for name in names}
        try:
            first, second = _value(left, values, wide), _value(right, values, wide)
        except UndecidedError:
            continue
        if first == 0 or second == 0:
            return False
        quotient = first / second
        if ratio is None:
            ratio = quotient
        if abs(quotient - ratio) > abs(ratio) * wide.mpf(10) ** -_SAME:
            return False
        agreed += 1
        if agreed == _POINTS:
            real = getattr(ratio, "imag", 0) == 0
            return not positive or (real and ratio.real > 0)
    return False


def _value(node: Node, values: dict[str, Fraction], wide: Any) -> Any:
    try:
        number = exact(node, values)
        return wide.mpf(number.numerator) / number.denominator
    except UndecidedError:
        return approximate(node, values, wide)


def _stretches(node: Node) -> Stretches:
    match node:
        case Symbol("reals"):
            return [_everything()]
        case Symbol("emptyset"):
            return []
        case Bracketed(opening, closing, (low, high)):
            return [
                ((_end(low), 1 if opening == "(" else 0), (_end(high), -1 if closing == ")" else 0))
            ]
        case Listing(items, True):
            return [((value, 0), (value, 0)) for value in map(_end, items)]
        case Listing(items):
            return [stretch for item in items for stretch in _stretches(item)]
        case Combined("cup", parts):
            return [stretch for part in parts for stretch in _stretches(part)]
        case Combined("setminus", (left, right)):
            return _intersection(_normal(_stretches(left)), _complement(_normal(_stretches(right))))
        case Combined("cap", (left, right)):
            return _intersection(_normal(_stretches(left)), _normal(_stretches(right)))
        case Relation():
            return _solutions(node)
    raise UndecidedError


def _solutions(relation: Relation) -> Stretches:
    """Of an inequality, or a chain of two, with the unknown alone on one side."""
    terms, operators = list(relation.terms), list(relation.operators)
    if operators == [r"\in"] and isinstance(terms[0], Symbol):
        return _stretches(terms[1])
    unknown = [place for place, term in enumerate(terms) if _is_unknown(term)]
    if len(unknown) != 1 or len(terms) > 3:
        raise UndecidedError
    place = unknown[0]
    result: Stretches = [_everything()]
    for position, operator in enumerate(operators):
        bound_place = position if position != place else position + 1
        if place not in (position, position + 1):
            raise UndecidedError
        bound = _end(terms[bound_place])
        below = place == position
        result = _intersection(result, _half(operator, bound, below=below))
    return result


def _half(operator: str, bound: Any, *, below: bool) -> Stretches:
    """The x with x OP bound if `below`, else with bound OP x."""
    low, high = _everything()
    if operator == r"\ne":
        return [(low, (bound, -1)), ((bound, 1), high)]
    less = operator in (r"\lt", r"\le")
    strict = operator in (r"\lt", r"\gt")
    if operator not in (r"\lt", r"\le", r"\gt", r"\ge"):
        raise UndecidedError
    if less == below:
        return [(low, (bound, -1 if strict else 0))]
    return [((bound, 1 if strict else 0), high)]


def _is_unknown(node: Node) -> bool:
    if isinstance(node, Symbol):
        return node.name not in CONSTANTS and node.name not in SPECIAL
    return isinstance(node, Call) and node.name == "apply"


def _everything() -> tuple[End, End]:
    wide = context(_DIGITS)
    return (-wide.inf, 1), (wide.inf, -1)


def _end(node: Node) -> Any:
    """The value of an end of an interval; infinity included."""
    wide = context(_DIGITS)
    if isinstance(node, Symbol) and node.name == "infty":
        return wide.inf
    if isinstance(node, Product) and len(node.factors) == 2 and node.factors[1] == Symbol("infty"):
        if node.factors[0] == Number(Fraction(-1)):
            return -wide.inf
        raise UndecidedError
    if isinstance(node, (Sum, Product, Number, Call, Symbol)) or hasattr(node, "base"):
        value = _value(node, {}, wide)
        if getattr(value, "imag", 0) != 0:
            raise UndecidedError
        return value.real
    raise UndecidedError


def _normal(stretches: Stretches) -> Stretches:
    """Sorted, with what touches or overlaps joined, and nothing empty."""
    result: Stretches = []
    for low, high in sorted((s for s in stretches if s[0] <= s[1]), key=lambda s: s[0]):
        if result and _touches(result[-1][1], low):
            result[-1] = (result[-1][0], max(result[-1][1], high))
        else:
            result.append((low, high))
    return result


def _touches(high: End, low: End) -> bool:
    """Whether no point lies between the end of one stretch and the start of the next."""
    if high >= low:
        return True
    return high[0] == low[0] and low[1] - high[1] <= 1


def _complement(stretches: Stretches) -> Stretches:
    (start, end) = _everything()
    result: Stretches = []
    for low, high in stretches:
        result.append((start, (low[0], low[1] - 1)))
        start = (high[0], high[1] + 1)
    result.append((start, end))
    return [stretch for stretch in result if stretch[0] <= stretch[1]]


def _intersection(left: Stretches, right: Stretches) -> Stretches:
    return [
        (max(a[0], b[0]), min(a[1], b[1]))
        for a in left
        for b in right
        if max(a[0], b[0]) <= min(a[1], b[1])
    ]


def _same_end(left: End, right: End) -> bool:
    if left[1] != right[1]:
        return False
    if left[0] == right[0]:
        return True
    if not abs(left[0]) < abs(left[0]) + 1 or not abs(right[0]) < abs(right[0]) + 1:
        return False
    wide = context(_DIGITS)
    return abs(left[0] - right[0]) <= (abs(left[0]) + abs(right[0])) * wide.mpf(10) ** -_SAME
