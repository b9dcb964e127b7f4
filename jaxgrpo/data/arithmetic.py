"""Sums written out in digits: small enough for a model that trains on a laptop's CPU."""

from jaxgrpo.data.draws import Draws
from jaxgrpo.data.procedural import (
    ProceduralTask,
    Rendered,
    Split,
    check_int,
    check_operations,
)

_Problem = tuple[int, str, int]


class Arithmetic(ProceduralTask[_Problem]):
    """Questions like "385+247=" whose answer is "632".

    The worked example is "#### 632", or, in a share of the examples, the working column by column
    and then the answer: "5+7=12 8+4+1=13 3+2+1=6 #### 632". A policy warmed up on the mixture knows
    both ways, and the reward decides between them. Operands in either order are one problem where
    the order does not matter, so "247+385=" is never in the other split.

    Args:
      operations: signs out of "+-*", drawn evenly. Differences are never negative.
      digits: the operands' number of digits.
      min_digits: operands have this many to `digits` digits; `digits` where None.
      working_fraction: the share of worked examples that show the working, in [0, 1].
      seed: of the run.
      split: "train" or "eval".
      size: the number of examples.

    Example:
      >>> task = Arithmetic(seed=0, split="train", size=2, digits=2, working_fraction=1.0)
      >>> task[0].question, task[0].worked
      ('36+19=', '6+9=15 3+1+1=5 #### 55')
    """

    name = "arithmetic"

    def __init__(
        self,
        *,
        operations: str = "+",
        digits: int = 3,
        min_digits: int | None = None,
        working_fraction: float = 0.3,
        seed: int,
        split: Split,
        size: int = 0,
    ) -> None:
        check_operations(operations, "+-*")
        check_int("digits", digits, 1, 100)
        min_digits = digits if min_digits is None else min_digits
        check_int("min_digits", min_digits, 1, digits)
        if not 0 <= working_fraction <= 1:
            raise ValueError(f"working_fraction must be in [0, 1], got {working_fraction}")
        self._operations, self._working_fraction = operations, working_fraction
        self._min_digits, self._digits = min_digits, digits
        super().__init__(seed=seed, split=split, size=size)

    def _operand(self, draws: Draws) -> int:
        length = draws.between(self._min_digits, self._digits)
        return draws.between(10 ** (length - 1) if length > 1 else 0, 10**length - 1)

    def _draw(self, draws: Draws) -> _Problem:
        sign = draws.choice(self._operations)
        left, right = self._operand(draws), self._operand(draws)
        if sign == "-" and left < right:
            left, right = right, left
        return left, sign, right

    def _key(self, problem: _Problem) -> str:
        left, sign, right = problem
        # Differences are stored larger first, so sorting changes only what commutes.
        return f"{max(left, right)}{sign}{min(left, right)}"

    def _render(self, problem: _Problem, draws: Draws) -> Rendered:
        left, sign, right = problem
        answer = {"+": left + right, "-": left - right, "*": left * right}[sign]
        worked = f"#### {answer}"
        if draws.unit() < self._working_fraction:
            worked = f"{_WORKING[sign](left, right)} {worked}"
        return Rendered(f"{left}{sign}{right}=", str(answer), worked, {})


def _columns(left: int, right: int) -> list[tuple[int, int]]:
    """Pairs of digits, ones first, the shorter number filled up with zeros."""
    width = max(len(str(left)), len(str(right)))
    rows = (map(int, reversed(str(number).zfill(width))) for number in (left, right))
    return list(zip(*rows, strict=True))


def _addition(left: int, right: int) -> str:
    steps, carry = [], 0
    for a, b in _columns(left, right):
        total = a + b + carry
        steps.append(f"{a}+{b}+1={total}" if carry else f"{a}+{b}={total}")
        carry = total // 10
    return " ".join(steps)


def _subtraction(left: int, right: int) -> str:
    steps, borrow = [], 0
    for a, b in _columns(left, right):
        lent = 10 if a - b - borrow < 0 else 0
        rest = a + lent - b - borrow
        steps.append(f"{a + lent}-{b}-1={rest}" if borrow else f"{a + lent}-{b}={rest}")
        borrow = lent // 10
    return " ".join(steps)


def _multiplication(left: int, right: int) -> str:
    steps, total = [], 0
    for place, digit in enumerate(reversed(str(right))):
        part = int(digit) * 10**place
        steps.append(f"{left}*{part}={left * part}")
        if place:
            steps.append(f"{total}+{left * part}={total + left * part}")
        total += left * part
    return " ".join(steps)


_WORKING = {"+": _addition, "-": _subtraction, "*": _multiplication}
