"""What a tree means as an answer: plus-minus spelt out, chains decided, names before values."""

from collections.abc import Sequence

from jaxgrpo.answers.building import negated
from jaxgrpo.answers.equality import same_value
from jaxgrpo.answers.exact import key
from jaxgrpo.answers.tree import (
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
    Ratio,
    Relation,
    Sum,
    Symbol,
    contains,
)

MAX_ITEMS = 200
SCALAR = (Number, Symbol, Sum, Product, Power, Call)


def settled(node: Node) -> Node:
    """Both values of a plus-minus as a listing, nested listings flat, decided chains short."""
    if isinstance(node, Relation):
        return _chain(node)
    if isinstance(node, Listing):
        items: list[Node] = []
        for item in node.items:
            item = settled(item)
            inner = item.items if isinstance(item, Listing) and not item.braced else (item,)
            items += inner
            if len(items) > MAX_ITEMS:
                return node
        return _shared_label(Listing(tuple(items), node.braced))
    if isinstance(node, Measured) and isinstance(node.value, Listing):
        return node
    if isinstance(node, Sum) and any(map(_is_degrees, node.terms)):
        # 180 degrees - x: an angle in degrees.
        terms = [term.value if isinstance(term, Measured) else term for term in node.terms]
        return Measured(Sum(tuple(terms)), "degree")
    if contains(node, PlusMinus) and not isinstance(node, (Matrix, Combined)):
        return Listing((_with_signs(node, 1), _with_signs(node, -1)))
    return node


def _is_degrees(node: Node) -> bool:
    return isinstance(node, Measured) and node.unit == "degree"


def _with_signs(node: Node, sign: int) -> Node:
    """The node with every plus-minus replaced by one of its signs."""
    match node:
        case PlusMinus(term, own):
            term = _with_signs(term, sign)
            return term if own * sign > 0 else negated(term)
        case Sum(parts) | Product(parts):
            return type(node)(tuple(_with_signs(part, sign) for part in parts))
        case Call(name, parts):
            return Call(name, tuple(_with_signs(part, sign) for part in parts))
        case Power(base, exponent):
            return Power(_with_signs(base, sign), _with_signs(exponent, sign))
        case Bracketed(opening, closing, parts):
            return Bracketed(opening, closing, tuple(_with_signs(part, sign) for part in parts))
        case Measured(value, unit):
            return Measured(_with_signs(value, sign), unit)
    return node


def _chain(relation: Relation) -> Node:
    """A chain of equals as its ends where all are equal; the exact side of an approximation."""
    terms, operators = relation.terms, relation.operators
    match relation:
        case Relation((Bracketed(items=names), Bracketed(items=values)), ("=",)):
            if len(names) == len(values) and all(isinstance(name, Symbol) for name in names):
                pairs = zip(names, values, strict=True)
                return Listing(tuple(relabelled(name, value) for name, value in pairs))
    if operators and operators[-1] == r"\approx":
        exact_side = terms[:-1]
        if len(exact_side) == 1 and isinstance(exact_side[0], Symbol):
            return Relation((exact_side[0], terms[-1]), ("=",))
        if len(exact_side) == 1:
            return exact_side[0]
        return _chain(Relation(exact_side, operators[:-1]))
    terms = tuple(settled(term) if contains(term, PlusMinus) else term for term in terms)
    if len(terms) > 2 and set(operators) == {"="}:
        rest = terms[1:] if _is_name(terms[0]) else terms
        if all(_same_scalar(term, rest[-1]) for term in rest[:-1]):
            return Relation((terms[0], rest[-1]), ("=",)) if _is_name(terms[0]) else rest[-1]
    return Relation(terms, operators)


def _shared_label(listing: Listing) -> Node:
    """X = 1, 2, 3 and x = 1, x = 2 name one unknown for all items."""
    labels = [labelled(item) for item in listing.items]
    first = labels[0][0]
    if first is None:
        return listing
    if all(label is None for label, _ in labels[1:]) or all(
        label is not None and key(label) == key(first) for label, _ in labels
    ):
        values: list[Node] = []
        for _, value in labels:
            inner = value.items if isinstance(value, Listing) and not value.braced else (value,)
            values += inner
        return Relation((first, Listing(tuple(values), listing.braced)), ("=",))
    if _are_numbered(labels):
        return Listing(tuple(value for _, value in labels), listing.braced)
    return listing


def _are_numbered(labels: Sequence[tuple[Node | None, Node]]) -> bool:
    """x_1 = ..., x_2 = ...: the roots of one equation, with their numbers in order."""
    names = [label.name if isinstance(label, Symbol) else "" for label, _ in labels]
    stem = names[0].partition("_")[0]
    return bool(stem) and names == [f"{stem}_{number}" for number in range(1, len(names) + 1)]


def _is_name(node: Node) -> bool:
    """Whether a node can stand before an equals sign as a mere name."""
    if isinstance(node, Symbol):
        return True
    if isinstance(node, Call):
        # The length of a segment, but not |x|.
        length = node.name == "abs" and isinstance(node.arguments[0], Product)
        return node.name == "apply" or (length and _is_name(node.arguments[0]))
    if isinstance(node, Product):
        # AB, NO / BO: segments and products of capital letters alone.
        return (
            all(
                (isinstance(factor, Symbol) and factor.name[:1].isupper())
                or (isinstance(factor, Power) and _is_name(factor.base))
                for factor in node.factors
            )
            and len(node.factors) > 1
        )
    if isinstance(node, Bracketed):
        return all(isinstance(item, Symbol) for item in node.items)
    return isinstance(node, Ratio) and all(map(_is_name, node.parts))


def _is_applied(node: Node) -> bool:
    """Whether a product reads as a function of unknowns: C_B(x)."""
    return isinstance(node, Product) and all(isinstance(factor, Symbol) for factor in node.factors)


def labelled(node: Node) -> tuple[Node | None, Node]:
    """The name and the value of "x = 5", "5 = x" and "x in [0, 1]"; no name for anything else."""
    if isinstance(node, Relation) and len(node.terms) == 2 and node.operators[0] in ("=", r"\in"):
        left, right = node.terms
        if key(left) != key(right) and (
            _is_name(left) or (isinstance(right, Matrix) and _is_applied(left))
        ):
            return left, right
        if (
            node.operators[0] == "="
            and _is_name(right)
            and not _is_name(left)
            and not contains(left, Symbol)
        ):
            return right, left
    return None, node


def differ(label: Node, other: Node) -> bool:
    """Whether two names are names of different things; y and f(x) are one."""
    kinds = {type(label), type(other)}
    if kinds == {Symbol, Call} and Symbol("y") in (label, other):
        return False
    return key(label) != key(other)


def point(node: Node) -> tuple[Node, ...] | None:
    """The values of (1, 2) and of x = 1, y = 2, whose names are in the order of the alphabet."""
    if isinstance(node, Bracketed):
        return node.items if (node.opening, node.closing) == ("(", ")") else None
    if not isinstance(node, Listing):
        return None
    pairs = [labelled(item) for item in node.items]
    names = [label.name for label, _ in pairs if isinstance(label, Symbol)]
    if len(names) < len(pairs) or names != sorted(set(names)):
        return None
    return tuple(value for _, value in pairs)


def relabelled(label: Node, value: Node) -> Relation:
    """Name = value."""
    return Relation((label, value), ("=",))


def _same_scalar(left: Node, right: Node) -> bool:
    if isinstance(left, Measured) and isinstance(right, Measured):
        return left.unit == right.unit and _same_scalar(left.value, right.value)
    return key(left) == key(right) or (
        isinstance(left, SCALAR) and isinstance(right, SCALAR) and same_value(left, right)
    )
