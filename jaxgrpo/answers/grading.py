"""Whether two answers are the same, and what happened on the way to the verdict."""

import dataclasses
import enum
import logging
import re
import time
from collections.abc import Sequence

from jaxgrpo.answers import texts
from jaxgrpo.answers.comparison import same as same_tree
from jaxgrpo.answers.extraction import final_answer
from jaxgrpo.answers.mode import Mode
from jaxgrpo.answers.reading import MAX_CHARACTERS, readings

logger = logging.getLogger(__name__)

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


class Stage(enum.StrEnum):
    """What decided a verdict, the cheapest first."""

    TEXT = "the same text"
    PLAIN = "plain numbers"
    CHOICE = "the letter of a choice"
    WORDS = "words"
    VALUES = "parsed, by structure and value"
    NONE = "nothing could be read"


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

    stage: Stage = Stage.NONE
    """What decided it."""


def is_correct(
    completion: str, gold: str, *, mode: Mode = Mode.NORMAL, markers: Sequence[str] = ()
) -> bool:
    r"""Whether the completion's final answer is the gold answer.

    Never raises, never hangs, never evaluates text.

    Args:
      completion: what the model wrote, the whole of it.
      gold: the reference answer: LaTeX with or without dollar signs, a number, or plain text.
      mode: how to judge where reasonable readers differ.
      markers: what stands before the answer in this data set, such as "A:".

    Example:
      >>> is_correct(r"... so $x = \boxed{1{,}234}$", "1234"), is_correct("1/3", "0.33")
      (True, False)
    """
    return grade(completion, gold, mode=mode, markers=markers).correct


def grade(
    completion: str, gold: str, *, mode: Mode = Mode.NORMAL, markers: Sequence[str] = ()
) -> Grade:
    """The verdict on a completion, with the extracted answer and what happened.

    Args:
      completion: what the model wrote, the whole of it.
      gold: the reference answer.
      mode: how to judge where reasonable readers differ.
      markers: what stands before the answer in this data set, such as "A:".
    """
    start = time.perf_counter()
    try:
        extracted, outcome, stage = _grade(completion, gold, mode, markers)
    except Exception:
        # Nothing is known to come here, and the soak calls what is inside; a run goes on.
        logger.exception("jaxgrpo.answers failed on %.200r against %.200r", completion, gold)
        extracted, outcome, stage = None, Outcome.UNPARSEABLE_ANSWER, Stage.NONE
    seconds = time.perf_counter() - start
    return Grade(outcome is Outcome.RIGHT, extracted, outcome, seconds, stage)


def _grade(
    completion: str, gold: str, mode: Mode, markers: Sequence[str]
) -> tuple[str | None, Outcome, Stage]:
    if len(gold) > MAX_CHARACTERS or not texts.words(gold):
        return None, Outcome.UNPARSEABLE_GOLD, Stage.NONE
    found = final_answer(completion, markers)
    answer = found.text
    if not answer or len(answer) > MAX_CHARACTERS:
        too_long = bool(answer) and found.marked
        return None, Outcome.UNPARSEABLE_ANSWER if too_long else Outcome.NO_ANSWER, Stage.NONE
    if answer == gold:
        return answer, Outcome.RIGHT, Stage.TEXT
    plain = _same_plain(answer, gold)
    if plain is not None:
        return answer, Outcome.RIGHT if plain else Outcome.WRONG, Stage.PLAIN
    same, stage = compare(answer, gold, mode=mode)
    if same:
        return answer, Outcome.RIGHT, stage
    said = texts.last_said(answer) if mode is Mode.LENIENT and not found.marked else ""
    if said:
        same, stage = compare(said, gold, mode=mode)
        return said, Outcome.RIGHT if same else Outcome.WRONG, stage
    if readings(answer):
        return answer, Outcome.WRONG, stage
    tail = _tail(answer) if found.marked else ""
    if tail:
        same, stage = compare(tail, gold, mode=mode)
        if same:
            return tail, Outcome.RIGHT, stage
    if not found.marked:
        return None, Outcome.NO_ANSWER, Stage.NONE
    if readings(gold):
        return answer, Outcome.UNPARSEABLE_ANSWER, Stage.NONE
    return answer, Outcome.WRONG, stage


def compare(answer: str, gold: str, *, mode: Mode = Mode.NORMAL) -> tuple[bool, Stage]:
    """Whether two extracted answers are the same, and what decided it."""
    if texts.is_placeholder(answer):
        return False, Stage.WORDS
    if mode is Mode.LENIENT:
        answer, gold = texts.with_symbols(answer), texts.with_symbols(gold)
    if texts.text_key(answer) == texts.text_key(gold):
        return True, Stage.TEXT
    choice = texts.same_choice(answer, gold, any_case=mode is Mode.LENIENT)
    if choice is not None:
        return choice, Stage.CHOICE
    option = texts.option(gold)
    if option is not None:
        chosen = texts.same_choice(answer, option[0])
        return (True, Stage.CHOICE) if chosen else compare(answer, option[1], mode=mode)
    if texts.is_date(gold) or texts.is_words(gold):
        return False, Stage.WORDS
    wanted = readings(gold)
    if not wanted:
        return False, Stage.WORDS
    equal = any(same_tree(given, want, mode=mode) for given in readings(answer) for want in wanted)
    return equal, Stage.VALUES


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
