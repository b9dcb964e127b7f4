"""Answers in words: names, choices, dates, statements."""

import re

from jaxgrpo.answers.cleaning import clean
from jaxgrpo.answers.tree import UnreadableError

_FONT = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|sf|tt|up|sc)?|mbox|hbox|math(?:rm|bf|it|sf|tt|normal)"
    r"|operatorname\*?|underline|emph)\s*\{([^{}]*)\}"
)
_ARTICLE = re.compile(r"\b(?:the|an?)\s(?=[a-z]{2})")
_SPACE = re.compile(r"(?:\s|~|\\[,;:! ]|\\q?quad(?![A-Za-z]))+")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])\s+(?=[0-9])")
_WORD = re.compile(r"[A-Za-z]{2,}")
_CHOICE = re.compile(r"\(?([A-J])\)?[.:]?")
_MORE = r"(?:(?!\bor\b|\band\b)[^,])*"
_CHOSEN = re.compile(rf"\(?([A-J])\)?(?:[.:]\s?{_MORE})?|\(([A-J])\)\s{_MORE}")
_OPTION = re.compile(r"\(([A-J])\)\s+(\S.*)", re.DOTALL)
_DATE = re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_BARE = re.compile(r"[A-Za-z][A-Za-z' -]*")
_SHORT = frozenset(("no", "on", "if", "ok"))
_SYMBOLS = {
    "infinity": r"\infty", "infinite": r"\infty", "negative infinity": r"-\infty",
    "all real numbers": r"\mathbb{R}", "all reals": r"\mathbb{R}", "empty set": r"\emptyset",
}  # fmt: skip
_SAID = re.compile(
    r"(?<!\\)\$([^$]{1,200})\$|\*\*([^*]{1,200})\*\*|(\$?[-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:/[0-9]+)?%?)"
)
_MOST_SAID = 1000
_PLACEHOLDER = frozenset(("answer", "none", "null", "nan", "zoo", "correct", "?", ""))


def text_key(text: str) -> str:
    r"""Equal for texts that say the same: no fonts, articles, spaces, or case in words.

    Example:
      >>> text_key(r"\text{An ellipse}."), text_key("x_{1}") == text_key("x_1")
      ('ellipse', True)
    """
    text = words(text)
    text = _ARTICLE.sub("", _WORD.sub(lambda word: word[0].casefold(), text))
    text = re.sub(r"([_^])\{([A-Za-z0-9])\}", r"\1\2", text)
    # 4 2 is not 42.
    return "".join(_BETWEEN_DIGITS.sub("_", text).split())


def words(text: str) -> str:
    """A text without dollar signs, fonts and the stop at its end."""
    try:
        text = clean(text)
    except UnreadableError:
        text = text.strip()
    for _ in range(3):
        replaced = _FONT.sub(r" \1 ", text)
        if replaced == text:
            break
        text = replaced
    return _SPACE.sub(" ", text).strip().rstrip(" .,;")


def same_choice(answer: str, gold: str, *, any_case: bool = False) -> bool | None:
    """Whether the answer picks the gold's letter; None where the gold is no choice."""
    wanted = _CHOICE.fullmatch(words(gold))
    if wanted is None:
        return None
    plain = words(answer)
    given = _CHOSEN.fullmatch(plain.upper() if any_case and len(plain) == 1 else plain)
    return given is not None and (given[1] or given[2]) == wanted[1]


def option(gold: str) -> tuple[str, str] | None:
    """The letter and the text of a gold such as (D) 15."""
    match = _OPTION.fullmatch(words(gold))
    return (match[1], match[2]) if match else None


def with_symbols(text: str) -> str:
    """A text with symbols for the words that stand for them, and O for Theta."""
    symbol = _SYMBOLS.get(words(text).casefold())
    return symbol or text.replace(r"\Theta", "O")


def last_said(text: str) -> str:
    """The last formula, bold text or number of the last line; "" where it has none."""
    lines = text.rstrip().rsplit("\n", 1)
    found = _SAID.findall(lines[-1][-_MOST_SAID:])
    return next((piece.strip() for piece in found[-1] if piece), "") if found else ""


def is_date(text: str) -> bool:
    """Whether a text is a date in figures and no quotient."""
    return _DATE.fullmatch(text.strip()) is not None


def is_words(text: str) -> bool:
    """Whether a text is words alone, so that its letters are no product."""
    plain = words(text)
    return _BARE.fullmatch(plain) is not None and (len(plain) > 2 or plain.lower() in _SHORT)


def is_placeholder(text: str) -> bool:
    """Whether a text stands where an answer should."""
    return words(text).casefold() in _PLACEHOLDER
