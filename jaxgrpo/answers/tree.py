"""What a parsed answer is made of: small immutable nodes, compared and evaluated elsewhere."""

import dataclasses
from fractions import Fraction


class UnreadableError(Exception):
    """The text is no answer that this package understands, or passes one of its limits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A rational number; `decimals` counts the digits behind the point where it has one."""

    value: Fraction
    decimals: int | None = None
    digits: int = 0
    """Significant digits as written, where `decimals` is set."""


@dataclasses.dataclass(frozen=True, slots=True)
class Symbol:
    """An unknown or a named constant: x, x_1, pi, infty."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Sum:
    """Terms that are added."""

    terms: tuple["Node", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """Factors that are multiplied; a quotient is a factor to the power of -1."""

    factors: tuple["Node", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Power:
    """base ^ exponent."""

    base: "Node"
    exponent: "Node"


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A function of `jaxgrpo.answers.functions`, or one that is opaque, applied to arguments."""

    name: str
    arguments: tuple["Node", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PlusMinus:
    """A term with both signs; `sign` is -1 for the minus-plus sign."""

    term: "Node"
    sign: int


@dataclasses.dataclass(frozen=True, slots=True)
class Bracketed:
    """Two or more items in brackets: a tuple, a point, an interval."""

    opening: str
    closing: str
    items: tuple["Node", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """Items without an order; `braced` where they were written as a set."""

    items: tuple["Node", ...]
    braced: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Combined:
    """Sets joined by `cup`, `cap` or `setminus`."""

    operator: str
    parts: tuple["Node", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Relation:
    """A chain of terms with an operator between each two: = != < <= > >= in."""

    terms: tuple["Node", ...]
    operators: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """Parts with colons between them: a ratio or a time of day."""

    parts: tuple["Node", ...]
    clock: bool = False
    """Whether it is written like a time: 9:05."""


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries; `kind` is "v" for a determinant and "" for any other."""

    kind: str
    rows: tuple[tuple["Node", ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A value with a unit, a currency, a percent sign or a noun that counts it."""

    value: "Node"
    unit: str


@dataclasses.dataclass(frozen=True, slots=True)
class Based:
    """Digits in a base other than ten."""

    digits: str
    base: int


Node = (
    Number | Symbol | Sum | Product | Power | Call | PlusMinus | Bracketed | Listing | Combined
    | Relation | Ratio | Matrix | Measured | Based
)  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in order."""
    match node:
        case Sum(parts) | Product(parts) | Call(_, parts) | Bracketed(_, _, parts):
            return parts
        case Listing(parts) | Combined(_, parts) | Relation(parts) | Ratio(parts):
            return parts
        case Power(base, exponent):
            return (base, exponent)
        case PlusMinus(term) | Measured(term):
            return (term,)
        case Matrix(_, rows):
            return tuple(entry for row in rows for entry in row)
    return ()


def contains(node: Node, kind: type | tuple[type, ...]) -> bool:
    """Whether the node or one below it is of this kind."""
    return isinstance(node, kind) or any(contains(child, kind) for child in children(node))


def symbols(node: Node) -> frozenset[str]:
    """The names of all symbols in a node."""
    if isinstance(node, Symbol):
        return frozenset((node.name,))
    return frozenset().union(*map(symbols, children(node)))
