"""The built-in reward functions, and how any reward function is found and called.

A reward function is `f(completion, *, answer, question, **fields) -> float`, where `fields` are the
example's other columns as text. It may return `Verdict(value, outcome)` to name what it saw; nan
says that it cannot tell. Arguments that a function does not declare are not passed to it.
"""

import importlib
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxgrpo.answers import Mode, Outcome, final_answer, grade
from jaxgrpo.answers.cleaning import clean
from jaxgrpo.answers.expressions import parse
from jaxgrpo.answers.tree import UnreadableError
from jaxgrpo.core.errors import closest

RewardFunction = Callable[..., Any]

_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Verdict(NamedTuple):
    """A reward with a name for what the function saw."""

    value: float
    outcome: str


def answer(
    completion: str, *, answer: str, mode: str = "normal", markers: Sequence[str] = ()
) -> Verdict:
    """1 where the final answer is the reference answer, 0 where not; see `jaxgrpo.answers`.

    A reference answer that cannot be read gives nan: the completion is not to blame for it.

    Args:
      completion: what the policy wrote.
      answer: the reference answer.
      mode: how to judge where reasonable readers differ: strict, normal or lenient.
      markers: what stands before the answer in this data, such as "A:".

    Example:
      >>> from jaxgrpo.rewards import functions
      >>> functions.answer("3+4=7, so the answer is 7.", answer="7")
      Verdict(value=1.0, outcome='right')
    """
    outcome = grade(completion, answer, mode=Mode(mode), markers=markers).outcome
    if outcome is Outcome.UNPARSEABLE_GOLD:
        return Verdict(math.nan, outcome.value)
    return Verdict(float(outcome is Outcome.RIGHT), outcome.value)


def countdown(completion: str, *, numbers: str, target: str) -> Verdict:
    """1 where the final answer is an expression over exactly the given numbers, with that target.

    Args:
      completion: ends in an expression, possibly followed by "= target".
      numbers: a JSON list of integers, each to be used once.
      target: an integer.

    Example:
      >>> countdown("#### (96 - 25) * 12 = 852", numbers="[12, 25, 96]", target="852").outcome
      'right'
      >>> countdown("#### 852", numbers="[12, 25, 96]", target="852").outcome
      'wrong'
    """
    wanted = sorted(int(number) for number in json.loads(numbers))
    extracted = final_answer(completion)
    try:
        text = clean(extracted.text[:1000])
    except UnreadableError:
        text = "?"
    for latex, sign in ((r"\times", "*"), (r"\cdot", "*"), (r"\div", "/")):
        text = text.replace(latex, sign)
    expression = parse(text.partition("=")[0])
    if expression is None:
        seen = Outcome.UNPARSEABLE_ANSWER if extracted.marked and text else Outcome.NO_ANSWER
        return Verdict(0.0, seen.value)
    right = (
        expression.only_integers
        and sorted(expression.integers) == wanted
        and expression.value == int(target)
    )
    return Verdict(float(right), (Outcome.RIGHT if right else Outcome.WRONG).value)


def marked(completion: str) -> float:
    r"""1 where the completion marks its final answer, by `\boxed{}`, `####` or in words."""
    extracted = final_answer(completion)
    return float(extracted.marked and bool(extracted.text))


BUILT_IN: Mapping[str, RewardFunction] = {
    "answer": answer,
    "countdown": countdown,
    "format": marked,
}


class Loaded(NamedTuple):
    """A reward function ready to be called."""

    call: Callable[[str, Mapping[str, str]], Any]
    """Of (completion, fields), options already given."""
    required: list[str]
    """The fields that it can't do without."""


def load(name: str, options: Mapping[str, Any]) -> Loaded:
    """The function of a name from a config.

    Raises:
      LookupError: there is no such built-in.
      TypeError: it is not callable, or does not take a completion or an option.
      Exception: whatever importing the module raises.
    """
    function = _find(name)
    try:
        first, *others = inspect.signature(function).parameters.values()
    except ValueError:
        raise TypeError("it does not take a completion") from None
    taken = {parameter.name for parameter in others if parameter.kind in _BY_NAME}
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in others)
    for option in options:
        if option not in taken and (not takes_all or option == first.name):
            raise TypeError(f"it has no option {option!r}{closest(option, taken)}")

    required = [
        parameter.name
        for parameter in others
        if parameter.kind in _BY_NAME
        and parameter.default is parameter.empty
        and parameter.name not in options
    ]

    def call(completion: str, fields: Mapping[str, str]) -> Any:
        # A column that is named like the function's first parameter would collide with it.
        arguments = {
            name: text
            for name, text in fields.items()
            if name in taken or (takes_all and name != first.name)
        }
        return function(completion, **{**arguments, **options})

    return Loaded(call, required)


def _find(name: str) -> RewardFunction:
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in BUILT_IN:
            near = closest(name, BUILT_IN) or "."
            raise LookupError(
                f"no such built-in{near} Known: {', '.join(BUILT_IN)}; your own is module:function"
            )
        return BUILT_IN[name]
    function = getattr(importlib.import_module(module), attribute)
    if not callable(function):
        raise TypeError(f"it is not callable, but {type(function).__name__}")
    return function
