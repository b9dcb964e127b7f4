"""What a reference answer is, and whether it can be one at all."""

import enum
import re

from jaxgrpo.answers import texts
from jaxgrpo.answers.cleaning import clean
from jaxgrpo.answers.functions import CONSTANTS
from jaxgrpo.answers.reading import MAX_CHARACTERS, readings
from jaxgrpo.answers.tree import Number, UnreadableError, symbols

_PAIRS = re.compile(r"\\.|[{}]", re.DOTALL)
# What text has no use for: it is mathematics that was not understood.
_MATHEMATICS = re.compile(r"\\[A-Za-z]|[\^_=+<>]")


class GoldKind(enum.StrEnum):
    """How a gold is compared."""

    NUMBER = "number"
    EXPRESSION = "expression"
    STRUCTURE = "structure"
    TEXT = "text"
    OPAQUE = "opaque"
    """Mathematics that is compared as text alone."""
    UNPARSEABLE = "unparseable"


def gold_kind(gold: str) -> GoldKind:
    r"""What kind of answer a gold is.

    A gold is unparseable where it is empty, longer than 4,000 characters, has braces that do not
    match, or holds characters that hide. Everything else can be compared, text as text.

    Example:
      >>> [gold_kind(gold).value for gold in ("1/2", "x + 1", "(1, 2)", "Evelyn", r"\frac{1}{")]
      ['number', 'expression', 'structure', 'text', 'unparseable']
    """
    if len(gold) > MAX_CHARACTERS or not texts.words(gold) or texts.is_placeholder(gold):
        return GoldKind.UNPARSEABLE
    try:
        cleaned = clean(gold)
    except UnreadableError:
        return GoldKind.UNPARSEABLE
    if not _is_balanced(cleaned):
        return GoldKind.UNPARSEABLE
    if texts.is_words(gold) or texts.is_date(gold):
        return GoldKind.TEXT
    trees = readings(gold)
    if not trees:
        return GoldKind.OPAQUE if _MATHEMATICS.search(texts.words(gold)) else GoldKind.TEXT
    if isinstance(trees[0], Number):
        return GoldKind.NUMBER
    name = type(trees[0]).__name__
    if name in ("Symbol", "Sum", "Product", "Power", "Call"):
        unknowns = symbols(trees[0]) - CONSTANTS.keys()
        return GoldKind.EXPRESSION if unknowns else GoldKind.NUMBER
    return GoldKind.STRUCTURE


def _is_balanced(text: str) -> bool:
    depth = 0
    for match in _PAIRS.finditer(text):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return False
    return depth == 0
