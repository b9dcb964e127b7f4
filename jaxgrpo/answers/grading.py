"""Whether two answers are the same, and what happened on the way to the verdict."""

import dataclasses
import enum
import re
import time

from jaxgrpo.answers import numbers
from jaxgrpo.answers.extraction import final_answer
from jaxgrpo.answers.normalisation import normalise, text_key

_MAX_CHARACTERS = 1000
_MAX_ELEMENTS = 50

# x, \theta, x_1, f(x), (p, q)
_UNKNOWN = re.compile(
    r"(?:[A-Za-z]|\\[a-z]+)(?:_\{?[A-Za-z0-9]\}?)?(?:\([a-z]\))?|\([A-Za-z](?:, ?[A-Za-z])*\)"
)
_AND = re.compile(r",?\s(?:and|or)\s")


class Outcome(enum.StrEnum):
    """What a check came to. Time limits and crashes are the reward workers' to report."""

    RIGHT = "right"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    UNPARSEABLE_GOLD = "unparseable_gold"
    UNPARSEABLE_ANSWER = "unparseable_answer"


@dataclasses.dataclass(frozen=True)
class Grade:
    """A verdict and how it came about."""

    correct: bool
    """Whether the final answer is the gold one."""

    extracted: str | None
    """The final answer as it stands in the completion; None where there is none."""

    outcome: Outcome
    """What happened."""

    seconds: float
    """How long it took, wall time."""


def is_correct(completion: str, gold: str) -> bool:
    r"""Whether the completion's final answer is the gold answer.

    Never raises, never hangs, never evaluates text.

    Args:
      completion: what the model wrote, the whole of it.
      gold: the reference answer: LaTeX with or without dollar signs, a number, or plain text.

    Example:
      >>> is_correct(r"... so $x = \boxed{1{,}234}$", "1234"), is_correct("1/3", "0.33")
      (True, False)
    """
    return grade(completion, gold).correct


def grade(completion: str, gold: str) -> Grade:
    """The verdict on a completion, with the extracted answer and what happened.

    Exact golds are compared exactly: there is no tolerance.
    """
    start = time.perf_counter()
    extracted, outcome = _grade(completion, gold)
    return Grade(outcome is Outcome.RIGHT, extracted, outcome, time.perf_counter() - start)


def _grade(completion: str, gold: str) -> tuple[str | None, Outcome]:
    wanted = normalise(gold) if len(gold) <= _MAX_CHARACTERS else ""
    if not wanted:
        return None, Outcome.UNPARSEABLE_GOLD
    extracted = final_answer(completion)
    if len(extracted.text) > _MAX_CHARACTERS:
        return None, Outcome.UNPARSEABLE_ANSWER if extracted.marked else Outcome.NO_ANSWER
    answer = normalise(extracted.text)
    if not answer:
        return None, Outcome.NO_ANSWER
    if _same(answer, wanted):
        return extracted.text, Outcome.RIGHT
    if numbers.read(wanted) is None or numbers.read(answer) is not None:
        return extracted.text, Outcome.WRONG
    if extracted.marked:
        return extracted.text, Outcome.UNPARSEABLE_ANSWER
    return None, Outcome.NO_ANSWER


def _same(answer: str, gold: str) -> bool:
    """Whether two normalised answers are the same: as text, as a number, or part by part."""
    if text_key(answer) == text_key(gold):
        return True
    answer, gold = _solved(answer, gold)
    if text_key(answer) == text_key(gold):
        return True
    answer_number, gold_number = numbers.read(answer), numbers.read(gold)
    if answer_number is not None and gold_number is not None:
        return answer_number.equals(gold_number)
    if answer_number is not None or gold_number is not None:
        return False
    return _same_parts(answer, gold)


def _solved(answer: str, gold: str) -> tuple[str, str]:
    """Both sides without "x =" or "x in", unless they name different unknowns."""
    (answer_name, answer_value), (gold_name, gold_value) = _equation(answer), _equation(gold)
    if answer_name and gold_name and answer_name != gold_name:
        return answer, gold
    return answer_value, gold_value


def _equation(text: str) -> tuple[str, str]:
    """The unknown and the value of "x = 5" or "5 = x"; no unknown where it is no such thing."""
    sign = "=" if "=" in text else r"\in "
    left, equals, right = (part.strip() for part in text.partition(sign))
    if equals and sign not in right:
        if _UNKNOWN.fullmatch(left):
            return left, right
        if _UNKNOWN.fullmatch(right):
            return right, left
    return "", text


def _same_parts(answer: str, gold: str) -> bool:
    """Lists and sets in any order, brackets of the same kind in their order."""
    (answer_brackets, answer_parts), (gold_brackets, gold_parts) = _parts(answer), _parts(gold)
    if answer_brackets != gold_brackets or len(answer_parts) != len(gold_parts):
        return False
    if not 2 <= len(gold_parts) <= _MAX_ELEMENTS:
        return False
    if gold_brackets:
        return all(map(_same_element, answer_parts, gold_parts))
    left = list(answer_parts)
    for wanted in gold_parts:
        found = next((i for i, part in enumerate(left) if _same_element(part, wanted)), None)
        if found is None:
            return False
        del left[found]
    return True


def _same_element(answer: str, gold: str) -> bool:
    answer_number, gold_number = numbers.read(answer), numbers.read(gold)
    if answer_number is not None and gold_number is not None:
        return answer_number.equals(gold_number)
    return text_key(answer) == text_key(gold)


def _parts(text: str) -> tuple[str, list[str]]:
    """The brackets around a comma-separated list ("" for a bare list or a set) and its elements."""
    text = text.replace(r"\{", "{").replace(r"\}", "}")
    ends, inside = text[:1] + text[-1:], text[1:-1]
    bracketed = ends[:1] in ("(", "[", "{") and ends[1:] in (")", "]", "}")
    parts = _split(inside) if bracketed else None
    if parts is not None:
        return "" if ends == "{}" else ends, parts
    return "", _split(_AND.sub(",", text)) or [text]


def _split(text: str) -> list[str] | None:
    """The texts between commas outside brackets; None where brackets close that never opened."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return None
        if depth == 0 and character == ",":
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]
