r"""What LaTeX commands and function names stand for: fractions, roots, matrices, sines."""

from fractions import Fraction
from typing import TYPE_CHECKING

from jaxgrpo.answers import functions
from jaxgrpo.answers.building import inverted, multiplied, read_number
from jaxgrpo.answers.tree import (
    Bracketed,
    Call,
    Listing,
    Matrix,
    Node,
    Number,
    PlusMinus,
    Power,
    Symbol,
    UnreadableError,
)

if TYPE_CHECKING:
    from jaxgrpo.answers.parser import Parser

CLOSING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}
ACCENTS = frozenset(
    (r"\vec", r"\dot", r"\ddot", r"\hat", r"\bar", r"\overline", r"\tilde", r"\overrightarrow",
     r"\widehat", r"\mathcal", r"\mathbb", r"\mathfrak")
)  # fmt: skip
_SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
_OPAQUE = frozenset((r"\sum", r"\prod", r"\int", r"\lim"))
_MATRICES = {"matrix": "", "pmatrix": "", "bmatrix": "", "Bmatrix": "", "array": "", "vmatrix": "v",
             "smallmatrix": ""}  # fmt: skip
_ROUNDING = {r"\lfloor": (r"\rfloor", "floor"), r"\lceil": (r"\rceil", "ceil")}
_SUM, _SIGN, _POWER = 10, 25, 40


def command(parser: "Parser", text: str) -> Node:
    """The operand that begins with a command, which is consumed."""
    name = text[1:]
    if text == r"\frac":
        top = parser.argument()
        return multiplied(top, inverted(parser.argument()))
    if text == r"\sqrt":
        return root(parser)
    if text == r"\binom":
        return Call("binom", (parser.argument(), parser.argument()))
    if text in (r"\pm", r"\mp"):
        return PlusMinus(parser.expression(_SIGN), 1 if text == r"\pm" else -1)
    if text == r"\{":
        return parser.group(parser, r"\{", r"\}")
    if text in _ROUNDING:
        closing, rounding = _ROUNDING[text]
        inner = parser.expression()
        parser.expect(closing)
        return Call(rounding, (inner,))
    if text == r"\begin":
        return _matrix(parser)
    if name in functions.FUNCTIONS or name in functions.SPELLINGS:
        return function(parser, name)
    if name in functions.GREEK:
        if parser.peek().text == "(" and name == "Theta":
            return parser.applied(Symbol(name))
        return parser.symbol(name)
    if name in functions.SPECIAL:
        return Symbol(name)
    if text in ACCENTS:
        inner = parser.raw_group()
        if text == r"\mathbb" and inner in _SETS:
            return Symbol(_SETS[inner])
        return parser.symbol(f"{text}{{{inner}}}")
    if text in (r"\angle", r"\triangle"):
        return Symbol(text + parser.take().text)
    if text in _OPAQUE:
        return _opaque(parser, text)
    raise UnreadableError


def _opaque(parser: "Parser", text: str) -> Node:
    """A sum, product, integral or limit, kept as it is."""
    bounds: list[Node] = []
    while parser.peek().text in ("_", "^"):
        mark = parser.take().text
        bounds.append(Symbol(mark + parser.raw_group()))
    return Call(text, (*sorted(bounds, key=str), parser.expression(_SUM)))


def root(parser: "Parser") -> Node:
    """A square root, or one of the order in square brackets."""
    order: Node = Number(Fraction(2))
    if parser.peek().text == "[":
        parser.take()
        order = parser.expression()
        parser.expect("]")
    if parser.peek().text == "(":
        parser.take()
        return Call("root", (parser.group(parser, "(", ")"), order))
    return Call("root", (parser.argument(), order))


def function(parser: "Parser", name: str) -> Node:
    """A function of `jaxgrpo.answers.functions`, with its power, base and argument."""
    name = functions.SPELLINGS.get(name, name)
    exponent: Node | None = None
    base: Node | None = None
    while parser.peek().text in ("^", "_") and parser.peek().kind == "sign":
        if parser.take().text == "^":
            exponent = parser.exponent() if parser.peek().text != "{" else parser.argument()
        else:
            base = parser.argument()
    if exponent == Number(Fraction(-1)) and name in functions.INVERSES:
        name, exponent = functions.INVERSES[name], None
    if parser.peek().text in ("(", "{", "["):
        opening = parser.take().text
        inner = parser.group(parser, opening, CLOSING[opening])
    elif name in functions.PREFIX:
        inner = _implicit_argument(parser)
    else:
        raise UnreadableError
    result = _call(parser, name, inner, base)
    return result if exponent is None else Power(result, exponent)


def _call(parser: "Parser", name: str, inner: Node, base: Node | None) -> Node:
    if name == "cbrt":
        return Call("root", (inner, Number(Fraction(3))))
    if name == "log":
        if base is None and parser.decimal:
            base = Number(Fraction(10))
        return Call("log", (inner, base)) if base is not None else Call("ln", (inner,))
    if base is not None:
        raise UnreadableError
    arguments = inner.items if isinstance(inner, Listing | Bracketed) else (inner,)
    if name in ("max", "min") and len(arguments) < 2:
        raise UnreadableError
    if name not in ("max", "min", "binom") and len(arguments) != 1:
        raise UnreadableError
    if name == "binom" and len(arguments) != 2:
        raise UnreadableError
    return Call(name, arguments)


def combination(parser: "Parser") -> Node:
    """{}_n C_k, of which the first brace is consumed."""
    parser.position += 2
    token = parser.peek()
    if token.kind == "based" and "C_" in token.text:
        parser.take()
        first, _, second = token.text.partition("C_")
        return Call("binom", (read_number(first), read_number(second.strip("{}"))))
    top = parser.argument()
    if parser.take().text != "C" or not parser.accept("_"):
        raise UnreadableError
    return Call("binom", (top, parser.argument()))


def chosen(parser: "Parser", symbol: Symbol) -> Node:
    """C(n, k), or a product with what stands in brackets."""
    parser.expect("(")
    inner = parser.group(parser, "(", ")")
    if isinstance(inner, Bracketed) and len(inner.items) == 2:
        return Call("binom", inner.items)
    return multiplied(symbol, inner)


def _implicit_argument(parser: "Parser") -> Node:
    r"""\sin 2\pi x: factors up to the next sign or function."""
    left = parser.expression(_POWER - 1)
    while True:
        token = parser.peek()
        name = token.text.lstrip("\\")
        if name in functions.FUNCTIONS or not parser.starts_factor(token) or token.text == "(":
            return left
        left = multiplied(left, parser.expression(_POWER - 1))


def _matrix(parser: "Parser") -> Node:
    kind = _environment(parser)
    if kind == "cases":
        return parser.group(parser, kind, kind)
    if kind not in _MATRICES:
        raise UnreadableError
    if kind == "array" and parser.peek().text == "{":
        parser.raw_group()
    rows: list[tuple[Node, ...]] = []
    row: list[Node] = []
    while True:
        if parser.accept(r"\end"):
            break
        row.append(parser.expression())
        if parser.accept("&"):
            continue
        rows.append(tuple(row))
        row = []
        if parser.accept("\\\\"):
            continue
        parser.expect(r"\end")
        break
    if row or _environment(parser) != kind or len({len(each) for each in rows}) != 1:
        raise UnreadableError
    return Matrix(_MATRICES[kind], tuple(rows))


def _environment(parser: "Parser") -> str:
    parser.expect("{")
    name = parser.take()
    parser.expect("}")
    return name.text
