r"""Cleaned text to tokens: numbers, letters, words, LaTeX commands and signs."""

import re
from typing import NamedTuple

from jaxgrpo.answers.tree import UnreadableError

MAX_TOKENS = 1000


class Token(NamedTuple):
    """A piece of an answer."""

    kind: str
    """number, based, text (of \\text{}), letters, command or sign."""

    text: str
    spaced: bool
    """Whether white space stands before it."""


# Spellings that mean the same sign or command.
_ALIASES = {
    "**": "^", "<=": r"\le", ">=": r"\ge", "!=": r"\ne", "==": "=", "<": r"\lt", ">": r"\gt",
    r"\leq": r"\le", r"\leqslant": r"\le", r"\leqq": r"\le", r"\geq": r"\ge", r"\geqq": r"\ge",
    r"\geqslant": r"\ge", r"\neq": r"\ne", r"\not=": r"\ne", r"\less": r"\lt", r"\ast": "*",
    r"\times": "*", r"\cdot": "*", r"\bullet": "*", r"\div": "/", r"\dfrac": r"\frac",
    r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom", r"\tbinom": r"\binom",
    r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|", r"\lbrace": r"\{",
    r"\rbrace": r"\}", r"\lbrack": "[", r"\rbrack": "]", r"\degrees": r"\degree",
    r"\dots": r"\ldots", r"\cdots": r"\ldots", "...": r"\ldots", r"\varnothing": r"\emptyset",
    r"\imath": "i", r"\simeq": r"\approx", r"\fallingdotseq": r"\approx",
    r"\backslash": r"\setminus",
    r"\colon": ":", r"\lg": r"\log", r"\%": "%", r"\,": "", r"\prime": "'", r"\varphi": r"\phi",
    r"\varepsilon": r"\epsilon", r"\vartheta": r"\theta", r"\land": r"\text{and}", "≈": r"\approx",
    r"\infin": r"\infty", r"\arctg": r"\arctan", r"\tg": r"\tan", r"\ctg": r"\cot",
}  # fmt: skip
_FONTS = (
    r"text(?:bf|it|rm|normal|sf|tt|up|sc)?|math(?:rm|bf|it|sf|tt|normal)|mbox|hbox|operatorname\*?"
    r"|rm|bold|boldsymbol|pmb"
)
_SPACES = r"[,;:!> ]|(?:q?quad|thinspace|medspace|enspace|space)(?![A-Za-z])"
_TOKEN = re.compile(
    rf"""
      (?P<space> (?: \s | ~ | (?:np|numpy|math|sympy)\.(?=[a-z]) | \\(?:{_SPACES}) )+ )
    | (?P<based> [0-9][0-9A-Fa-f]* _ (?: \{{ [0-9]{{1,2}} \}} | [0-9](?![0-9]) ) )
    | 0[xX] (?P<hex> [0-9A-Fa-f]+ ) (?![0-9A-Za-z])
    | (?P<ideographs> [\u3400-\u9fff]+ )
    | (?P<number>
        (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]{{1,9}} (?![A-Za-z0-9]) )? )
    | (?P<font> \\(?:{_FONTS}) \s* \{{ (?P<content>[^{{}}\\]*) \}} )
    | (?P<command> \\[A-Za-z]+ | \\[{{}}|%$&\#_\\] )
    | (?P<letters> [A-Za-z]+ )
    | (?P<sign> \*\* | <= | >= | != | == | \.\.\. | [-+*/^_=<>()\[\]{{}}|,;:!%&'] )
    """,
    re.VERBOSE,
)
_STYLES = re.compile(rf"\\(?:{_FONTS}|underline|displaystyle|mathstrut|ensuremath)\Z")
_PLAIN = re.compile(r"[0-9.,+-]+|[A-Za-z]")


def tokenise(text: str) -> list[Token]:
    """The tokens of a cleaned answer.

    Raises:
      UnreadableError: a character belongs to none, or there are more than 1,000 of them.
    """
    tokens: list[Token] = []
    position, end, spaced, letters = 0, len(text), False, 0
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or len(tokens) + letters > MAX_TOKENS:
            raise UnreadableError
        kind, position = match.lastgroup or "", match.end()
        if kind == "space":
            spaced = True
            continue
        if kind == "content":
            kind = "font"
        piece = match[kind]
        if kind == "ideographs":
            kind = "text"
        elif kind == "hex":
            kind, piece = "based", f"{piece}_16"
        # Letters may each be a factor.
        letters += len(piece) if kind == "letters" else 0
        if kind == "font":
            content = match["content"].replace("~", " ").strip()
            if not content:
                spaced = True
                continue
            if _PLAIN.fullmatch(content) and (content.isdecimal() or "." in content):
                tokens.append(Token("number", content, spaced))
            elif content[0].isdecimal():
                # Text is no place for mathematics, but "20 dollars" stands in it all the same.
                tokens += tokenise(content)
            else:
                # A letter in a font is a symbol, and a unit where a number stands before it.
                tokens.append(Token("text", content, spaced))
        elif kind == "command" and _STYLES.match(piece):
            continue
        else:
            piece = _ALIASES.get(piece, piece)
            tokens.append(
                Token("sign" if kind == "command" and len(piece) == 1 else kind, piece, spaced)
            )
        spaced = False
    return tokens
