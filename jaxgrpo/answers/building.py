"""Trees from their parts: flat sums and products, signs, numbers as they are written."""

from fractions import Fraction

from jaxgrpo.answers.tree import (
    Based,
    Measured,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Sum,
    Symbol,
    UnreadableError,
)

MAX_DIGITS = 4000
_MAX_EXPONENT = 4000


def added(left: Node, right: Node) -> Node:
    """Left + right, flat."""
    terms = left.terms if isinstance(left, Sum) else (left,)
    return Sum((*terms, right))


def multiplied(left: Node, right: Node) -> Node:
    """Left * right, flat."""
    factors = left.factors if isinstance(left, Product) else (left,)
    return Product((*factors, right))


def inverted(node: Node) -> Node:
    """1 / node."""
    return Power(node, Number(Fraction(-1)))


def negated(node: Node) -> Node:
    """-node; a number keeps its decimals."""
    if isinstance(node, Number):
        return Number(-node.value, node.decimals, node.digits)
    if isinstance(node, Measured):
        return Measured(negated(node.value), node.unit)
    if isinstance(node, PlusMinus):
        return PlusMinus(node.term, -node.sign)
    return multiplied(Number(Fraction(-1)), node)


def read_number(text: str) -> Number:
    """A number from its digits: 12, .5, 1.5e3."""
    mantissa, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > _MAX_EXPONENT:
        raise UnreadableError
    whole, point, behind = mantissa.partition(".")
    if not point and not exponent:
        return Number(Fraction(int(whole)))
    shift = int(exponent or 0) - len(behind)
    value = int((whole + behind) or "0") * Fraction(10) ** shift
    digits = len((whole + behind).lstrip("0"))
    return Number(value, max(-shift, 0), digits)


def based(digits: str, base: int) -> Based:
    """Digits in a base that has them all."""
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits):
        raise UnreadableError
    return Based(digits.upper(), base)


def is_proper(top: Node | None, bottom: Node | None) -> bool:
    """Whether two nodes are the parts of a proper fraction of whole numbers."""
    return (
        isinstance(top, Number)
        and isinstance(bottom, Number)
        and top.decimals is None
        and bottom.decimals is None
        and 0 < top.value < bottom.value
    )


def primed(node: Node) -> Node:
    """A symbol with a prime."""
    if isinstance(node, Symbol):
        return Symbol(node.name + "'")
    raise UnreadableError
