r"""Expressions: a precedence-climbing (Pratt) parser from tokens to the tree of one expression.

It knows the mathematics that stands in answers: TeX's one-token arguments (`\frac12`), silent
products (`2\pi r`), mixed numbers (`1\frac12`), repeating decimals, functions without brackets
(`\sin 2x`). What it does not know is refused; nothing is ever evaluated as code.
"""

from collections.abc import Callable

from jaxgrpo.answers import commands, functions
from jaxgrpo.answers.building import (
    added,
    based,
    inverted,
    multiplied,
    negated,
    primed,
    read_number,
)
from jaxgrpo.answers.cursor import Cursor
from jaxgrpo.answers.numerals import numeral
from jaxgrpo.answers.tokens import Token
from jaxgrpo.answers.tree import (
    Based,
    Call,
    Measured,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Symbol,
    UnreadableError,
    symbols,
)
from jaxgrpo.answers.units import is_abbreviation

_MAX_DEPTH = 60
_SUM, _PRODUCT, _SIGN, _JUXTAPOSED, _TIGHT, _POWER = 10, 20, 25, 20, 30, 40
_WORDS = {"oo": "infty", "inf": "infty", "infinity": "infty", "Infinity": "infty"}
# Letters that are a word and no product of letters.
_SHORT_WORDS = frozenset(
    ("or", "is", "if", "to", "and", "not", "but", "yes", "odd", "all", "any", "the", "are", "for")
)
_FACTORS = frozenset(
    (r"\frac", r"\sqrt", r"\binom", r"\lfloor", r"\lceil", r"\begin", r"\infty")
)  # fmt: skip
_SCALES = {"C": "celsius", "F": "fahrenheit"}
_POSTFIXES = frozenset(("^", "!"))
_HALVES = frozenset(("AM", "PM", "am", "pm"))
_APPLICABLE = frozenset("fgFOP")


class Parser(Cursor):
    """Tokens to a tree; `group` parses what stands between brackets, commas included."""

    def __init__(
        self,
        tokens: list[Token],
        group: "Callable[[Parser, str, str], Node]",
        *,
        tight: bool = False,
        decimal: bool = False,
    ) -> None:
        super().__init__(tokens)
        self.depth = 0
        self.bars = 0
        self.group = group
        # Whether 1/2x is read as 1/(2x).
        self.juxtaposed = _TIGHT if tight else _JUXTAPOSED
        # Whether a logarithm without a base is the decimal one.
        self.decimal = decimal

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
            unit = is_abbreviation(token.text) or token.text in _HALVES
            if token.kind == "letters" and unit and not symbols(left):
                return None
            if token.kind in ("number", "based") and isinstance(left, Number):
                raise UnreadableError
            return multiplied(left, self.expression(self.juxtaposed))
        return None

    def _postfix(self, left: Node, text: str) -> Node:
        if text == "^":
            self.take()
            if self._degree():
                return self._degrees(left)
            if self.accept("'"):
                return primed(left)
            return Power(left, self.exponent())
        if text == "!":
            self.take()
            return Call("factorial", (left,))
        if text in ("%", r"\degree"):
            self.take()
            return Measured(left, "percent") if text == "%" else self._degrees(left)
        if text == "'":
            self.take()
            return primed(left)
        if isinstance(left, Number) and left.value.denominator == 1 and left.decimals is None:
            self.take()
            base = self.argument()
            if isinstance(base, Number) and 2 <= base.value <= 36 and left.value >= 0:
                return Based(str(left.value), int(base.value))
        raise UnreadableError

    def _degrees(self, value: Node) -> Node:
        """An angle, or a temperature where its scale follows."""
        scale = _SCALES.get(self.peek().text)
        if scale is not None and self.peek().kind in ("letters", "text"):
            self.take()
        return Measured(value, scale or "degree")

    def _degree(self) -> bool:
        if self.accept(r"\circ", r"\degree"):
            return True
        if self.peek().text == "{" and self.peek(1).text in (r"\circ", r"\degree"):
            if self.peek(2).text != "}":
                raise UnreadableError
            self.position += 3
            return True
        return False

    def exponent(self) -> Node:
        """What follows a caret: a group, or all that binds as tightly."""
        if self.peek().text == "{":
            return self.argument()
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
                token.text in _FACTORS
                or token.text in commands.ACCENTS
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
                return numeral(self, text)
            case "based":
                digits, _, base = text.partition("_")
                return based(digits, int(base.strip("{}")))
            case "letters":
                return self._letters(token)
            case "text":
                if len(text) == 1 and text.isalpha():
                    return self.symbol(text)
                if text in _WORDS:
                    return Symbol(_WORDS[text])
                if text in functions.FUNCTIONS or text in functions.SPELLINGS:
                    return commands.function(self, text)
                raise UnreadableError
            case "command":
                return commands.command(self, text)
            case "sign":
                return self._sign(text)
        raise UnreadableError

    def _sign(self, text: str) -> Node:
        if text == "-":
            return negated(self.expression(_SIGN))
        if text == "+":
            return self.expression(_SIGN)
        if text == "{" and self.ahead("}", "_"):
            return commands.combination(self)
        if text in ("(", "[", "{"):
            return self.group(self, text, commands.CLOSING[text])
        if text == "|":
            self.bars += 1
            inner = self.expression()
            self.bars -= 1
            self.expect("|")
            return Call("abs", (inner,))
        raise UnreadableError

    def _letters(self, token: Token) -> Node:
        text = token.text
        if text in ("np", "math", "sp", "sympy") and self.accept("."):
            return self._letters(self.take())
        if text in _WORDS:
            return Symbol(_WORDS[text])
        if text == "sqrt":
            return commands.root(self)
        if text in functions.FUNCTIONS or text in functions.SPELLINGS:
            return commands.function(self, text)
        if text in functions.GREEK and len(text) > 1:
            return self.symbol(text)
        if self.is_word(token):
            raise UnreadableError
        if text in _APPLICABLE and self.peek().text == "(" and not self.peek().spaced:
            return self.applied(Symbol(text))
        if text == "m" and self.peek().text == r"\angle":
            return commands.command(self, self.take().text)
        if text in _APPLICABLE and self.ahead("^", "{", "-", "1", "}", "("):
            self.position += 5
            return self.applied(Symbol(f"{text}^-1"))
        if text == "C" and self.peek().text == "(" and not self.peek().spaced:
            return commands.chosen(self, Symbol(text))
        factors = [Symbol(letter) for letter in text[:-1]]
        last: Node = self.symbol(text[-1])
        # A power is the last letter's: ab^2.
        while factors and self.peek().text in _POSTFIXES and self.peek().kind == "sign":
            last = self._postfix(last, self.peek().text)
        return Product((*factors, last)) if factors else last

    def symbol(self, name: str) -> Node:
        """A symbol with its primes and subscript."""
        while self.accept("'"):
            name += "'"
        if self.accept("_"):
            name += "_" + self.raw_group().removeprefix("\\")
        if self.accept("'"):
            name += "'"
        if name.endswith("'") and self.peek().text == "(":
            return self.applied(Symbol(name))
        return Symbol(name)

    def applied(self, function: Symbol) -> Node:
        """An unknown function of what follows in brackets."""
        self.expect("(")
        return Call("apply", (function, self.group(self, "(", ")")))

    def argument(self) -> Node:
        """What TeX takes as an argument: a group, or a single digit, letter or command."""
        token = self.peek()
        if token.text == "{" and token.kind == "sign":
            self.take()
            return self.group(self, "{", "}")
        if token.kind in ("number", "letters") and len(token.text) > 1:
            self.take()
            self.put_back(token)
            if token.text[0] == ".":
                raise UnreadableError
            return read_number(token.text[0]) if token.kind == "number" else Symbol(token.text[0])
        if token.kind == "number":
            self.take()
            return read_number(token.text)
        if token.kind in ("letters", "command"):
            return self._operand()
        raise UnreadableError
