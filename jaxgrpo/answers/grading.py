"""Whether two answers are the same, and what happened on the way to the verdict."""

import dataclasses
import enum
import re
import time
from collections.abc import Sequence

from jaxgrpo.answers import texts
from jaxgrpo.answers.comparison import same
from jaxgrpo.answers.extraction import final_answer
from jaxgrpo.answers.structures import MAX_CHARACTERS, readings

# A decimal or a whole number, a percent sign aside: the answers that most data sets have.
_PLAIN = re.compile(r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,18})(?:\.[0-9]{1,18})?\Z")
_SENTENCE = re.compile(r"\b(?:is|are|equals|be|to)\b:?\s+(?=\S)")
_LATEX_NUMBER = re.compile(r"\\[dt]?frac\{?(-?[0-9]{1,9})\}?\{([0-9]{1,9})\}\Z")


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


def is_correct(
    completion: str, gold: str, *, lenient: bool = False, markers: Sequence[str] = ()
) -> bool:
    r"""Whether the completion's final answer is the gold answer.

    Never raises, never hangs, never evaluates text.

    Args:
      completion: what the model wrote, the whole of it.
      gold: the reference answer: LaTeX with or without dollar signs, a number, or plain text.
      lenient: let a decimal stand for an exact gold with 6 right digits instead of 10.
      markers: what stands before the answer in this data set, such as "A:".

    Example:
      >>> is_correct(r"... so $x = \boxed{1{,}234}$", "1234"), is_correct("1/3", "0.33")
      (True, False)
    """
    return grade(completion, gold, lenient=lenient, markers=markers).correct


def grade(
    completion: str, gold: str, *, lenient: bool = False, markers: Sequence[str] = ()
) -> Grade:
    """The verdict on a completion, with the extracted answer and what happened.

    Args:
      completion: what the model wrote, the whole of it.
      gold: the reference answer.
      lenient: let a decimal stand for an exact gold with 6 right digits instead of 10.
      markers: what stands before the answer in this data set, such as "A:".
    """
    start = time.perf_counter()
    extracted, outcome = _grade(completion, gold, lenient, markers)
    return Grade(outcome is Outcome.RIGHT, extracted, outcome, time.perf_counter() - start)


def _grade(
    completion: str, gold: str, lenient: bool, markers: Sequence[str]
) -> tuple[str | None, Outcome]:
    if len(gold) > MAX_CHARACTERS or not texts.words(gold):
        return None, Outcome.UNPARSEABLE_GOLD
    found = final_answer(completion, markers)
    if not found.text or len(found.text) > MAX_CHARACTERS:
        too_long = bool(found.text) and found.marked
        return None, Outcome.UNPARSEABLE_ANSWER if too_long else Outcome.NO_ANSWER
    answer = found.text
    if answer == gold:
        return answer, Outcome.RIGHT
    plain = _same_plain(answer, gold)
    if plain is not None:
        return answer, Outcome.RIGHT if plain else Outcome.WRONG
    if same_answer(answer, gold, lenient=lenient):
        return answer, Outcome.RIGHT
    if readings(answer):
        return answer, Outcome.WRONG
    tail = _tail(answer) if found.marked else ""
    if tail and same_answer(tail, gold, lenient=lenient):
        return tail, Outcome.RIGHT
    if not found.marked:
        return None, Outcome.NO_ANSWER
    return answer, Outcome.WRONG if not readings(gold) else Outcome.UNPARSEABLE_ANSWER


def same_answer(answer: str, gold: str, *, lenient: bool = False) -> bool:
    """Whether two extracted answers are the same."""
    if texts.is_placeholder(answer):
        return False
    if texts.text_key(answer) == texts.text_key(gold):
        return True
    choice = texts.same_choice(answer, gold)
    if choice is not None:
        return choice
    if texts.is_date(gold) or texts.is_words(gold):
        return False
    wanted = readings(gold)
    return bool(wanted) and any(
        same(given, want, lenient=lenient) for given in readings(answer) for want in wanted
    )


def _same_plain(answer: str, gold: str) -> bool | None:
    """The verdict on two plain numbers; None where one of them is more than that."""
    if not _PLAIN.match(answer) or not _PLAIN.match(gold):
        return None
    return _canonical(answer) == _canonical(gold)


def _canonical(number: str) -> tuple[bool, str, str]:
    whole, _, behind = number.replace(",", "").lstrip("+-").partition(".")
    whole, behind = whole.lstrip("0"), behind.rstrip("0")
    return (number[0] == "-" and bool(whole or behind)), whole, behind


def _tail(answer: str) -> str:
    """What follows the last "is" of a sentence: The largest $n$ is 34."""
    ends = [match.end() for match in _SENTENCE.finditer(answer)]
    return answer[ends[-1] :] if ends else ""
