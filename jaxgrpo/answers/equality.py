"""Whether two expressions have the same value, at every point where both have one."""

from fractions import Fraction
from typing import Any

from jaxgrpo.answers import symbolic
from jaxgrpo.answers.approximation import approximate, context
from jaxgrpo.answers.exact import OutOfBoundsError, UndecidedError, chosen, exact, key
from jaxgrpo.answers.functions import CONSTANTS, SPECIAL
from jaxgrpo.answers.mode import Mode
from jaxgrpo.answers.tree import Call, Node, Number, children, contains, symbols

_TRIES = 24
_POINTS = 4
_MANY_POINTS = 8
_FEW_POINTS = 2
_CLOSE = 1e-7
_FEW, _MANY = 40, 80
# Digits that a decimal needs in order to stand for an exact value.
DIGITS = 10
_LENIENT_DIGITS = 6
# Digits that a gold decimal needs before an exact answer may round to it.
_ROUNDED_DIGITS = 3
_DOUBLE_DIGITS = 15


def same_value(answer: Node, gold: Node, *, mode: Mode = Mode.NORMAL) -> bool:
    """Whether two expressions are equal.

    Rational values are compared exactly. What cannot be is compared to 40 and 80 digits, and
    expressions in unknowns at points that the two texts themselves decide, so that no answer can
    be made to fit the points. A decimal stands for an exact value where it has at least 10 right
    digits (6 if lenient), and an exact answer for a gold decimal of at least 3 digits that it
    rounds to. Integers know no tolerance.
    """
    if key(answer) == key(gold):
        return True
    if symbolic.is_opaque(answer) and not symbolic.is_opaque(gold):
        # It restates the question.
        return False
    if symbolic.is_opaque(gold):
        return symbolic.same(answer, gold)
    names = (symbols(answer) | symbols(gold)) - CONSTANTS.keys()
    if names & SPECIAL:
        return False
    if names:
        return _same_function(answer, gold, sorted(names))
    return _same_constant(answer, gold, mode)


def _same_constant(answer: Node, gold: Node, mode: Mode) -> bool:
    answer_value, gold_value = _exact_or_none(answer), _exact_or_none(gold)
    if answer_value is not None and gold_value is not None:
        if answer_value == gold_value:
            return True
    else:
        try:
            if _agree(answer, gold, {}):
                return True
        except UndecidedError:
            return False
    return _stands_for(answer, gold, mode) or _rounds_to(answer, gold, mode)


def _stands_for(answer: Node, gold: Node, mode: Mode) -> bool:
    """Whether a long decimal stands for an exact gold that no decimal can equal."""
    wanted = _LENIENT_DIGITS if mode is Mode.LENIENT else DIGITS
    if not isinstance(answer, Number) or answer.decimals is None or answer.digits < wanted:
        return False
    gold_value = _exact_or_none(gold)
    if gold_value is not None and _terminates(gold_value):
        return False
    try:
        wide = context(_FEW)
        value = approximate(gold, {}, wide)
        given = wide.mpf(answer.value.numerator) / answer.value.denominator
        # One unit of the last digit that has to be right, rounded or cut off.
        place = wide.floor(wide.log10(abs(value))) - wanted + 1
        return abs(value - given) <= wide.mpf(10) ** place
    except UndecidedError:
        return False


def _rounds_to(answer: Node, gold: Node, mode: Mode) -> bool:
    """Whether an exact answer without decimals rounds to a gold decimal."""
    wanted = _DOUBLE_DIGITS if mode is Mode.STRICT else _ROUNDED_DIGITS
    if not isinstance(gold, Number) or gold.decimals is None or gold.digits < wanted:
        return False
    if _has_decimals(answer) or (isinstance(answer, Number) and _terminates(answer.value)):
        return False
    try:
        wide = context(_FEW)
        value = approximate(answer, {}, wide)
        given = wide.mpf(gold.value.numerator) / gold.value.denominator
        unit = wide.mpf(10) ** -gold.decimals
        # The last digit of a printed double is not always rounded right.
        return abs(value - given) <= (unit if gold.digits >= _DOUBLE_DIGITS else unit / 2)
    except UndecidedError:
        return False


def _has_decimals(node: Node) -> bool:
    if isinstance(node, Number):
        return node.decimals is not None
    return any(map(_has_decimals, children(node)))


def _terminates(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _exact_or_none(node: Node) -> Fraction | None:
    try:
        return exact(node, {})
    except UndecidedError:
        return None


# -- functions of unknowns -----------------------------------------------------------------------


def _same_function(answer: Node, gold: Node, names: list[str]) -> bool:
    rational = _same_rational_function(answer, gold, names)
    if rational is not None:
        return rational
    seed = repr((key(answer), key(gold)))
    # What has corners agrees on one side of them by chance.
    wanted = _MANY_POINTS if contains(answer, Call) or contains(gold, Call) else _POINTS
    # Where everything is real first: there writers agree on what roots and logarithms are.
    bounded = True
    for real in (True, False):
        agreed = 0
        for attempt in range(_TRIES):
            try:
                if not _agree_at(answer, gold, _point(names, attempt, seed), real=real):
                    return False
            except UndecidedError as error:
                bounded = bounded and not isinstance(error, OutOfBoundsError)
                continue
            agreed += 1
            if agreed == wanted:
                return True
        if agreed >= _FEW_POINTS:
            return True
    return bounded and symbolic.same(answer, gold)


def _same_rational_function(answer: Node, gold: Node, names: list[str]) -> bool | None:
    """Whether both agree at rational points; None where they are no rational functions."""
    if contains(answer, Call) or contains(gold, Call):
        return None
    seed = repr((key(answer), key(gold)))
    agreed = 0
    for attempt in range(_POINTS + 3):
        values = _point(names, attempt, seed)
        try:
            if exact(answer, values) != exact(gold, values):
                return False
        except UndecidedError:
            if attempt == 1 and not agreed:
                return None
            continue
        agreed += 1
        if agreed == _POINTS:
            return True
    return None


def _point(names: list[str], attempt: int, seed: str) -> dict[str, Fraction]:
    """Values of the unknowns; their signs take turns, so that four points have all of two."""
    values: dict[str, Fraction] = {}
    for place, name in enumerate(names):
        size = abs(chosen(name, f"{attempt}{seed}"))
        values[name] = -size if (attempt >> place % 2) & 1 else size
    return values


def _agree_at(answer: Node, gold: Node, values: dict[str, Fraction], *, real: bool) -> bool:
    """Whether both agree at a point: to a few digits first, which most that differ do not."""
    quick = context(15)
    try:
        first = approximate(answer, values, quick, real=real)
        second = approximate(gold, values, quick, real=real)
        if abs(first - second) > _CLOSE * (abs(first) + abs(second)):
            return False
    except UndecidedError:
        # Perhaps too large for doubles.
        pass
    return _agree(answer, gold, values, real=real)


def _agree(answer: Node, gold: Node, values: dict[str, Fraction], *, real: bool = False) -> bool:
    """Whether the difference vanishes as digits are added."""
    differences: list[Any] = []
    size: Any = 1
    for digits in (_FEW, _MANY):
        wide = context(digits)
        first = approximate(answer, values, wide, real=real)
        second = approximate(gold, values, wide, real=real)
        differences.append(abs(first - second))
        size = abs(first) + abs(second)
        if digits == _FEW and differences[0] > max(size, 1) * wide.mpf(10) ** -20:
            return False
    few, many = differences
    if few == 0 and many == 0:
        return True
    wide = context(_MANY)
    return many <= few * wide.mpf(10) ** -(_FEW // 2) or (
        few == 0 and many <= size * wide.mpf(10) ** -(_MANY - 20)
    )
