r"""Expressions: a precedence-climbing (Pratt) parser from tokens to the tree of one expression.

It knows the mathematics that stands in answers: TeX's one-token arguments (`\frac12`), silent
products (`2\pi r`), mixed numbers (`1\frac12`), repeating decimals, functions without brackets
(`\sin 2x`). What it does not know is refused; nothing is ever evaluated as code.
"""

from collections.abc import Callable
from fractions import Fraction

from jaxgrpo.answers import functions
from jaxgrpo.answers.tokens import Token
from jaxgrpo.answers.units import is_abbreviation
from jaxgrpo.answers.tree import (
    Based,
    Call,
    Matrix,
    Measured,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Sum,
    Symbol,
    UnreadableError,
    symbols,
)

_MAX_DEPTH = 60
_MAX_DIGITS = 4000
_MAX_EXPONENT = 4000
_MAX_SHOWN = 40

_END = Token("end", "", False)
_SUM, _PRODUCT, _SIGN, _JUXTAPOSED, _POWER = 10, 20, 25, 20, 40
_ACCENTS = frozenset((r"\vec", r"\dot", r"\ddot", r"\hat", r"\bar", r"\overline", r"\tilde",
                      r"\overrightarrow", r"\widehat", r"\mathcal", r"\mathbb", r"\mathfrak"))  # fmt: skip
_SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
_OPAQUE = frozenset((r"\sum", r"\prod", r"\int", r"\lim"))
_MATRICES = {"matrix": "", "pmatrix": "", "bmatrix": "", "Bmatrix": "", "array": "", "vmatrix": "v",
             "smallmatrix": ""}  # fmt: skip
_CLOSING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}
_ROUNDING = {r"\lfloor": (r"\rfloor", "floor"), r"\lceil": (r"\rceil", "ceil")}
_WORDS = {"oo": "infty", "inf": "infty", "infinity": "infty", "Infinity": "infty"}
# Letters that are a word and no product of letters.
_SHORT_WORDS = frozenset("or is if to and not but yes odd all any the are for".split())


class Parser:
    """A cursor over tokens; `group` parses what stands between brackets, commas included."""

    def __init__(
        self, tokens: list[Token], group: "Callable[[Parser, str, str], Node]", *, tight: bool = False
    ) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.bars = 0
        self.group = group
        # Whether 1/2x is read as 1/(2x).
        self.juxtaposed = 30 if tight else _JUXTAPOSED

    # -- the cursor ----------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes `ahead` tokens later, an end token behind the last."""
        at = self.position + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    def take(self) -> Token:
        """The next token, consumed."""
        token = self.peek()
        self.position += 1
        return token

    def accept(self, *texts: str) -> bool:
        """Consume the next token if it is one of these signs or commands."""
        token = self.peek()
        if token.text in texts and token.kind in ("sign", "command"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume this sign or fail."""
        if not self.accept(text):
            raise UnreadableError

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, power: int = 0) -> Node:
        """An expression in operators that bind more tightly than `power`."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadableError
        left = self._operand()
        while True:
            following = self._infix(left, power)
            if following is None:
                break
            left = following
        self.depth -= 1
        return left

    def _infix(self, left: Node, power: int) -> Node | None:
        token = self.peek()
        text = token.text if token.kind in ("sign", "command") else ""
        if text in ("+", "-", r"\pm", r"\mp") and power < _SUM:
            self.take()
            right = self.expression(_SUM)
            if text == "-":
                right = negated(right)
            elif text != "+":
                right = PlusMinus(right, 1 if text == r"\pm" else -1)
            return added(left, right)
        if text in ("*", "/") and power < _PRODUCT:
            self.take()
            right = self.expression(_PRODUCT)
            return multiplied(left, right if text == "*" else inverted(right))
        if text in ("^", "!", "_", "%", r"\degree", "'") and power <= _POWER:
            return self._postfix(left, text)
        if text == "{" and self.peek(1).text == "}":
            self.position += 2
            return left
        if power < self.juxtaposed and self.starts_factor(token):
            if token.kind == "letters" and is_abbreviation(token.text) and not symbols(left):
                return None
            if token.kind in ("number", "based") and isinstance(left, Number):
                raise UnreadableError
            return multiplied(left, self.expression(self.juxtaposed))
        return None

    def _postfix(self, left: Node, text: str) -> Node | None:
        if text == "^":
            self.take()
            if self._degree():
                return Measured(left, "degree")
            if self.accept("'"):
                return _primed(left)
            return Power(left, self._exponent())
        if text == "!":
            self.take()
            return Call("factorial", (left,))
        if text in ("%", r"\degree"):
            self.take()
            return Measured(left, "percent" if text == "%" else "degree")
        if text == "'":
            self.take()
            return _primed(left)
        if isinstance(left, Number) and left.value.denominator == 1 and left.decimals is None:
            self.take()
            base = self._argument()
            if isinstance(base, Number) and 2 <= base.value <= 36 and left.value >= 0:
                return Based(str(left.value), int(base.value))
        raise UnreadableError

    def _degree(self) -> bool:
        if self.accept(r"\circ", r"\degree"):
            return True
        if self.peek().text == "{" and self.peek(1).text in (r"\circ", r"\degree"):
            if self.peek(2).text != "}":
                raise UnreadableError
            self.position += 3
            return True
        return False

    def _exponent(self) -> Node:
        if self.peek().text == "{":
            return self._argument()
        return self.expression(_POWER - 1)

    def starts_factor(self, token: Token) -> bool:
        """Whether a factor may begin here without a sign before it."""
        if token.kind in ("number", "based"):
            return True
        if token.kind == "letters":
            return not self.is_word(token)
        if token.kind == "text":
            return token.text in ("i", "e", "d")
        if token.kind == "command":
            return (
                token.text in (r"\frac", r"\sqrt", r"\binom", r"\lfloor", r"\lceil", r"\begin", r"\infty")
                or token.text in _ACCENTS
                or token.text[1:] in functions.GREEK
                or token.text[1:] in functions.PREFIX
            )
        return token.text in ("(", "{", "[") or (token.text == "|" and not self.bars)

    def is_word(self, token: Token) -> bool:
        """Whether letters are a word and neither a function nor a product of letters."""
        text = token.text
        if text in functions.FUNCTIONS or text in functions.SPELLINGS or text in ("sqrt", "pi"):
            return False
        if text in _WORDS or text in functions.GREEK:
            return False
        return (len(text) > 3 and not text.isupper()) or text in _SHORT_WORDS

    # -- operands ------------------------------------------------------------------------------

    def _operand(self) -> Node:
        token = self.take()
        text = token.text
        match token.kind:
            case "number":
                return self._number(text)
            case "based":
                digits, _, base = text.partition("_")
                return _based(digits, int(base.strip("{}")))
            case "letters":
                return self._letters(token)
            case "text":
                if len(text) == 1 and text.isalpha():
                    return self._symbol(text)
                if text in _WORDS:
                    return Symbol(_WORDS[text])
                if text in functions.FUNCTIONS or text in functions.SPELLINGS:
                    return self._function(text)
                raise UnreadableError
            case "command":
                return self._command(text)
            case "sign":
                return self._sign(text)
        raise UnreadableError

    def _sign(self, text: str) -> Node:
        if text == "-":
            return negated(self.expression(_SIGN))
        if text == "+":
            return self.expression(_SIGN)
        if text in ("(", "[", "{"):
            return self.group(self, text, _CLOSING[text])
        if text == "|":
            self.bars += 1
            inner = self.expression()
            self.bars -= 1
            self.expect("|")
            return Call("abs", (inner,))
        raise UnreadableError

    def _number(self, text: str) -> Node:
        if len(text) > _MAX_DIGITS:
            raise UnreadableError
        if "." in text and self.peek().text in (r"\overline", r"\dot", r"\bar"):
            return self._repeating(text)
        number = _read_number(text)
        if number.decimals is None:
            fraction = self._mixed_part()
            if fraction is not None:
                return Number(number.value + fraction)
        return number

    def _repeating(self, text: str) -> Node:
        self.take()
        argument = self._argument()
        if not isinstance(argument, Number) or argument.decimals is not None or argument.value < 0:
            raise UnreadableError
        # The digits as written: 0.\overline{09}.
        digits = self.tokens[self.position - 2].text
        if not digits.isdecimal() or len(digits) > _MAX_SHOWN:
            raise UnreadableError
        start = len(text.partition(".")[2])
        value = Fraction(text.rstrip(".") or "0") + Fraction(
            int(digits), (10 ** len(digits) - 1) * 10**start
        )
        return Number(value)

    def _mixed_part(self) -> Fraction | None:
        r"""The fraction of a mixed number, 1\frac{2}{3} or 1 2/3, if one stands here."""
        start = self.position
        token = self.peek()
        if token.text == r"\frac":
            self.take()
            try:
                top, bottom = self._argument(), self._argument()
            except UnreadableError:
                top = bottom = None
            if _proper(top, bottom):
                return Fraction(top.value, bottom.value)  # type: ignore[union-attr]
            self.position = start
        elif token.kind == "number" and token.spaced and self.peek(1).text == "/":
            top, bottom = self.peek(), self.peek(2)
            if bottom.kind == "number" and top.text.isdecimal() and bottom.text.isdecimal():
                if not 0 < int(top.text) < int(bottom.text):
                    raise UnreadableError
                self.position += 3
                return Fraction(int(top.text), int(bottom.text))
        return None

    def _letters(self, token: Token) -> Node:
        text = token.text
        if text in ("np", "math", "sp", "sympy") and self.accept("."):
            return self._letters(self.take())
        if text in _WORDS:
            return Symbol(_WORDS[text])
        if text == "sqrt":
            return self._root()
        if text in functions.FUNCTIONS or text in functions.SPELLINGS:
            return self._function(text)
        if text in functions.GREEK and len(text) > 1:
            return self._symbol(text)
        if self.is_word(token):
            raise UnreadableError
        if text in ("f", "g", "F", "O", "P") and self.peek().text == "(" and not self.peek().spaced:
            return self._applied(Symbol(text))
        factors = [Symbol(letter) for letter in text[:-1]]
        last = self._symbol(text[-1])
        return Product((*factors, last)) if factors else last

    def _symbol(self, name: str) -> Node:
        """A symbol with its primes and subscript."""
        while self.accept("'"):
            name += "'"
        if self.accept("_"):
            name += "_" + self._raw_group()
        if self.accept("'"):
            name += "'"
        if name.endswith("'") and self.peek().text == "(":
            return self._applied(Symbol(name))
        return Symbol(name)

    def _raw_group(self) -> str:
        """A subscript as text."""
        token = self.take()
        if token.text != "{":
            if token.kind in ("number", "letters", "command", "text"):
                if token.kind in ("number", "letters") and len(token.text) > 1:
                    self._put_back(token)
                    return token.text[0]
                return token.text
            raise UnreadableError
        depth, pieces = 1, []
        while depth:
            token = self.take()
            if token is _END or len(pieces) > _MAX_SHOWN:
                raise UnreadableError
            depth += (token.text == "{") - (token.text == "}")
            pieces.append(token.text)
        return "".join(pieces[:-1])

    def _put_back(self, token: Token) -> None:
        """Leave all but the first character of the token just taken, as TeX does."""
        self.position -= 1
        self.tokens[self.position] = Token(token.kind, token.text[1:], False)

    def _applied(self, function: Symbol) -> Node:
        self.expect("(")
        return Call("apply", (function, self.group(self, "(", ")")))

    def _argument(self) -> Node:
        """What TeX takes as an argument: a group, or a single digit, letter or command."""
        token = self.peek()
        if token.text == "{" and token.kind == "sign":
            self.take()
            return self.group(self, "{", "}")
        if token.kind in ("number", "letters") and len(token.text) > 1:
            self.take()
            self._put_back(token)
            if token.text[0] == ".":
                raise UnreadableError
            return _read_number(token.text[0]) if token.kind == "number" else Symbol(token.text[0])
        if token.kind == "number":
            self.take()
            return _read_number(token.text)
        if token.kind in ("letters", "command"):
            return self._operand()
        raise UnreadableError

    # -- commands ------------------------------------------------------------------------------

    def _command(self, text: str) -> Node:
        name = text[1:]
        if text == r"\frac":
            top = self._argument()
            return multiplied(top, inverted(self._argument()))
        if text == r"\sqrt":
            return self._root()
        if text == r"\binom":
            return Call("binom", (self._argument(), self._argument()))
        if text in (r"\pm", r"\mp"):
            return PlusMinus(self.expression(_SIGN), 1 if text == r"\pm" else -1)
        if text == r"\{":
            return self.group(self, r"\{", r"\}")
        if text in _ROUNDING:
            closing, function = _ROUNDING[text]
            inner = self.expression()
            self.expect(closing)
            return Call(function, (inner,))
        if text == r"\begin":
            return self._matrix()
        if name in functions.FUNCTIONS or name in functions.SPELLINGS:
            return self._function(name)
        if name in functions.GREEK:
            if self.peek().text == "(" and name == "Theta":
                return self._applied(Symbol(name))
            return self._symbol(name)
        if name in functions.SPECIAL:
            return Symbol(name)
        if text in _ACCENTS:
            inner = self._raw_group()
            if text == r"\mathbb" and inner in _SETS:
                return Symbol(_SETS[inner])
            return self._symbol(f"{text}{{{inner}}}")
        if text in (r"\angle", r"\triangle"):
            return Symbol(text + self.take().text)
        if text in _OPAQUE:
            return self._opaque(text)
        raise UnreadableError

    def _opaque(self, text: str) -> Node:
        """A sum, product, integral or limit, kept as it is."""
        bounds: list[Node] = []
        while self.peek().text in ("_", "^"):
            mark = self.take().text
            bounds.append(Symbol(mark + self._raw_group()))
        return Call(text, (*sorted(bounds, key=str), self.expression(_SUM)))

    def _root(self) -> Node:
        order: Node = Number(Fraction(2))
        if self.peek().text == "[":
            self.take()
            order = self.expression()
            self.expect("]")
        if self.peek().text == "(":
            self.take()
            return Call("root", (self.group(self, "(", ")"), order))
        return Call("root", (self._argument(), order))

    def _function(self, name: str) -> Node:
        name = functions.SPELLINGS.get(name, name)
        exponent: Node | None = None
        base: Node | None = None
        while self.peek().text in ("^", "_") and self.peek().kind == "sign":
            if self.take().text == "^":
                exponent = self._exponent() if self.peek().text != "{" else self._argument()
            else:
                base = self._argument()
        if exponent == Number(Fraction(-1)) and name in functions.INVERSES:
            name, exponent = functions.INVERSES[name], None
        if self.peek().text in ("(", "{", "["):
            opening = self.take().text
            inner = self.group(self, opening, _CLOSING[opening])
        elif name in functions.PREFIX:
            inner = self._implicit_argument()
        else:
            raise UnreadableError
        result = self._call(name, inner, base)
        return result if exponent is None else Power(result, exponent)

    def _call(self, name: str, inner: Node, base: Node | None) -> Node:
        from jaxgrpo.answers.tree import Listing

        if name == "cbrt":
            return Call("root", (inner, Number(Fraction(3))))
        if name == "log":
            return Call("log", (inner, base)) if base is not None else Call("ln", (inner,))
        if base is not None:
            raise UnreadableError
        arguments = inner.items if isinstance(inner, Listing) else (inner,)
        if name in ("max", "min") and len(arguments) < 2:
            raise UnreadableError
        if name not in ("max", "min", "binom") and len(arguments) != 1:
            raise UnreadableError
        if name == "binom" and len(arguments) != 2:
            raise UnreadableError
        return Call(name, arguments)

    def _implicit_argument(self) -> Node:
        r"""\sin 2\pi x: factors up to the next sign or function."""
        left = self.expression(_POWER - 1)
        while True:
            token = self.peek()
            name = token.text.lstrip("\\")
            if name in functions.FUNCTIONS or not self.starts_factor(token) or token.text == "(":
                return left
            left = multiplied(left, self.expression(_POWER - 1))

    def _matrix(self) -> Node:
        kind = self._environment()
        if kind not in _MATRICES:
            raise UnreadableError
        if kind == "array" and self.peek().text == "{":
            self._raw_group()
        rows: list[tuple[Node, ...]] = []
        row: list[Node] = []
        while True:
            if self.accept(r"\end"):
                break
            row.append(self.expression())
            if self.accept("&"):
                continue
            rows.append(tuple(row))
            row = []
            if self.accept("\\\\"):
                continue
            self.expect(r"\end")
            break
        if row or self._environment() != kind or len({len(each) for each in rows}) != 1:
            raise UnreadableError
        return Matrix(_MATRICES[kind], tuple(rows))

    def _environment(self) -> str:
        self.expect("{")
        name = self.take()
        self.expect("}")
        return name.text


# -- building trees ------------------------------------------------------------------------------


def added(left: Node, right: Node) -> Node:
    """left + right, flat."""
    terms = left.terms if isinstance(left, Sum) else (left,)
    return Sum((*terms, right))


def multiplied(left: Node, right: Node) -> Node:
    """left * right, flat."""
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


def _read_number(text: str) -> Number:
    mantissa, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > _MAX_EXPONENT:
        raise UnreadableError
    whole, point, behind = mantissa.partition(".")
    if not point and not exponent:
        return Number(Fraction(int(whole)))
    value = Fraction(int((whole + behind) or "0"), 10 ** len(behind)) * Fraction(10) ** int(exponent or 0)
    digits = len((whole + behind).lstrip("0"))
    return Number(value, max(len(behind) - int(exponent or 0), 0), digits)


def _based(digits: str, base: int) -> Based:
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits):
        raise UnreadableError
    return Based(digits.upper(), base)


def _proper(top: Node | None, bottom: Node | None) -> bool:
    return (
        isinstance(top, Number)
        and isinstance(bottom, Number)
        and top.decimals is None
        and bottom.decimals is None
        and 0 < top.value < bottom.value
    )


def _primed(node: Node) -> Node:
    if isinstance(node, Symbol):
        return Symbol(node.name + "'")
    raise UnreadableError
