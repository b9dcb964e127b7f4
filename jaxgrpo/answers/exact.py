"""Rational values of expressions, one spelling for a tree, and stand-ins for unknowns.

Everything has a bound: a power tower or a factorial of a factorial is given up at once
(`UndecidedError`), never computed.
"""

import functools
import hashlib
from collections.abc import Hashable, Mapping
from fractions import Fraction
from math import comb, factorial, isqrt

from jaxgrpo.answers.functions import CONSTANTS, FUNCTIONS
from jaxgrpo.answers.tree import (
    Based,
    Bracketed,
    Call,
    Combined,
    Listing,
    Matrix,
    Measured,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Relation,
    Sum,
    Symbol,
    children,
)

MAX_BITS = 20_000
_MAX_FACTORIAL = 1000


class UndecidedError(Exception):
    """The value is not rational, not defined, or out of bounds."""


class OutOfBoundsError(UndecidedError):
    """The value is too large to be computed, here or by anything else."""


# -- one spelling for a tree ---------------------------------------------------------------------


@functools.lru_cache(maxsize=8192)
def key(node: Node) -> Hashable:
    """Equal for trees that differ in the order of terms and factors, or in undone arithmetic."""
    value = _folded(node)
    if value is not None:
        return ("Number", value)
    match node:
        case Sum() | Product():
            kind = type(node)
            parts, number = [], Fraction(kind is Product)
            for part in _flat(node, kind):
                value = _folded(part)
                if value is None:
                    parts.append(key(part))
                else:
                    number = number * value if kind is Product else number + value
            if number != (kind is Product):
                parts.append(("Number", number))
            if len(parts) == 1:
                return parts[0]
            return (kind.__name__, tuple(sorted(parts, key=repr)))
        case Symbol(name):
            return ("Symbol", name)
        case Relation(_, operators):
            fields: tuple[Hashable, ...] = operators
        case Matrix(kind, rows):
            fields = (kind, len(rows))
        case Call("max" | "min" as name, parts):
            return (name, tuple(sorted(map(key, parts), key=repr)))
        case Call(name) | Combined(name):
            fields = (name,)
        case Bracketed(opening, closing):
            fields = (opening, closing)
        case Measured(_, unit):
            fields = (unit,)
        case PlusMinus(_, sign):
            fields = (sign,)
        case Based(digits, base):
            fields = (digits, base)
        case Listing(_, braced):
            fields = (braced,)
        case _:
            fields = ()
    return (type(node).__name__, *fields, tuple(key(child) for child in children(node)))


def _flat(node: Node, kind: type) -> list[Node]:
    if not isinstance(node, kind):
        return [node]
    return [part for child in children(node) for part in _flat(child, kind)]


def _folded(node: Node) -> Fraction | None:
    try:
        return exact(node, {})
    except UndecidedError:
        return None


# -- exact values --------------------------------------------------------------------------------


def exact(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    """The rational value of an expression.

    Raises:
      UndecidedError: it is not rational, not defined, or has more than 20,000 bits.
    """
    match node:
        case Number(value):
            return value
        case Symbol(name) if name in values and name not in CONSTANTS:
            return values[name]
        case Sum(terms):
            return _bounded(sum((exact(term, values) for term in terms), Fraction()))
        case Product(factors):
            result = Fraction(1)
            for factor in factors:
                result = _bounded(result * exact(factor, values))
            return result
        case Power(base, exponent):
            return _power(exact(base, values), exact(exponent, values))
        case Call(name, arguments) if name in _EXACT:
            return _bounded(_EXACT[name](*(exact(argument, values) for argument in arguments)))
        case Call(name) if name not in FUNCTIONS and values:
            return stand_in(node)
    raise UndecidedError


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        if base < 0:
            if exponent.denominator % 2 == 0:
                raise UndecidedError
            size = _power(-base, exponent)
            return -size if exponent.numerator % 2 else size
        base = Fraction(
            _exact_root(base.numerator, exponent.denominator),
            _exact_root(base.denominator, exponent.denominator),
        )
        exponent = Fraction(exponent.numerator)
    if base == 0 and exponent <= 0:
        raise UndecidedError
    if bits(base) * abs(exponent.numerator) > MAX_BITS and base not in (1, -1, 0):
        raise UndecidedError
    return base ** (exponent.numerator % 2 if abs(base) == 1 else exponent.numerator)


def _exact_root(number: int, order: int) -> int:
    if number in (0, 1):
        return number
    if order > 64 or number.bit_length() > MAX_BITS:
        raise UndecidedError
    if order == 2:
        root = isqrt(number)
    else:
        # Newton from above.
        root = 1 << -(-number.bit_length() // order)
        while True:
            better = ((order - 1) * root + number // root ** (order - 1)) // order
            if better >= root:
                break
            root = better
    if root**order != number:
        raise UndecidedError
    return root


def _root(value: Fraction, order: Fraction) -> Fraction:
    if order.denominator != 1 or order < 1:
        raise UndecidedError
    if value < 0:
        if order.numerator % 2 == 0:
            raise UndecidedError
        return -_power(-value, 1 / order)
    return _power(value, 1 / order)


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or not 0 <= value <= _MAX_FACTORIAL:
        raise UndecidedError
    return Fraction(factorial(value.numerator))


def _binomial(top: Fraction, bottom: Fraction) -> Fraction:
    if top.denominator != 1 or bottom.denominator != 1 or not 0 <= bottom <= top <= _MAX_FACTORIAL:
        raise UndecidedError
    return Fraction(comb(top.numerator, bottom.numerator))


def _logarithm(value: Fraction, base: Fraction) -> Fraction:
    """Whole logarithms alone: log_2 8."""
    if value <= 0 or base <= 1 or base.denominator != 1:
        raise UndecidedError
    sign, number = (1, value) if value >= 1 else (-1, 1 / value)
    if number.denominator != 1:
        raise UndecidedError
    count, rest = 0, number.numerator
    while rest > 1:
        rest, remainder = divmod(rest, base.numerator)
        if remainder:
            raise UndecidedError
        count += 1
    return Fraction(sign * count)


_EXACT = {
    "abs": abs,
    "floor": lambda x: Fraction(x.__floor__()),
    "ceil": lambda x: Fraction(x.__ceil__()),
    "max": lambda *xs: max(xs),
    "min": lambda *xs: min(xs),
    "root": _root,
    "factorial": _factorial,
    "binom": _binomial,
    "log": _logarithm,
}


def bits(value: Fraction) -> int:
    """The bits of the longer of numerator and denominator."""
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Fraction) -> Fraction:
    if bits(value) > MAX_BITS:
        raise UndecidedError
    return value


def stand_in(node: Node) -> Fraction:
    """A value for what cannot be evaluated (a sum, f(x)): the same for the same, else another."""
    return chosen(repr(key(node)))


def chosen(name: str, seed: str = "") -> Fraction:
    """A rational between -3 and 3, not near 0, that a name and a seed decide."""
    digest = hashlib.blake2b(f"{seed}|{name}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    size = Fraction(number % 2_711 + 301, 1_009)
    return -size if number >> 63 else size
