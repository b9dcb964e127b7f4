"""Countdown: reach a target from given numbers. Many expressions are right, so a reward checks."""

import json

from jaxgrpo.data.draws import Draws
from jaxgrpo.data.procedural import (
    ProceduralTask,
    Rendered,
    Split,
    check_int,
    check_operations,
)

# numbers, target, an expression that reaches it
_Problem = tuple[tuple[int, ...], int, str]


class Countdown(ProceduralTask[_Problem]):
    """Numbers and a target that some expression over all of them reaches.

    `answer` is one such expression; `fields` holds "numbers" (a JSON list) and "target", which the
    `countdown` reward reads. The same target from the same numbers in another order is the same
    problem: both are in one split.

    Args:
      min_numbers: the fewest numbers given.
      max_numbers: the most numbers given.
      low: the smallest number.
      high: the largest number.
      max_target: targets lie in [1, max_target].
      operations: signs out of "+-*/" that the hidden expression uses and the question names.
      seed: of the run.
      split: "train" or "eval".
      size: the number of examples.

    Example:
      >>> task = Countdown(seed=0, split="train", size=1)
      >>> task[0].answer, dict(task[0].fields)
      ('46 * (49 - 37)', {'numbers': '[49, 37, 46]', 'target': '552'})
    """

    name = "countdown"

    def __init__(
        self,
        *,
        min_numbers: int = 3,
        max_numbers: int = 4,
        low: int = 1,
        high: int = 99,
        max_target: int = 999,
        operations: str = "+-*/",
        seed: int,
        split: Split,
        size: int = 0,
    ) -> None:
        check_int("max_numbers", max_numbers, 2, 20)
        check_int("min_numbers", min_numbers, 2, max_numbers)
        check_int("high", high, 1, 10**6)
        check_int("low", low, 1, high)
        check_int("max_target", max_target, 1, 10**9)
        check_operations(operations, "+-*/")
        self._counts, self._range = (min_numbers, max_numbers), (low, high)
        self._max_target, self._operations = max_target, operations
        super().__init__(seed=seed, split=split, size=size)

    def _draw(self, draws: Draws) -> _Problem | None:
        count = draws.between(*self._counts)
        numbers = tuple(draws.between(*self._range) for _ in range(count))
        # (value, text, text as an operand)
        parts = [(number, str(number), str(number)) for number in numbers]
        while len(parts) > 1:
            left = parts.pop(draws.below(len(parts)))
            right = parts.pop(draws.below(len(parts)))
            sign = draws.choice(self._operations)
            value = _apply(left[0], sign, right[0])
            if value is None:
                return None
            text = f"{left[2]} {sign} {right[2]}"
            parts.append((value, text, f"({text})"))
        target, expression, _ = parts[0]
        return (numbers, target, expression) if 1 <= target <= self._max_target else None

    def _key(self, problem: _Problem) -> str:
        numbers, target, _ = problem
        return f"{sorted(numbers)}={target}"

    def _render(self, problem: _Problem, draws: Draws) -> Rendered:
        numbers, target, expression = problem
        *most, last = self._operations
        signs = f"{', '.join(most)} and {last}" if most else last
        question = (
            f"Using each of the numbers {', '.join(map(str, numbers))} exactly once, "
            f"write an expression with {signs} that equals {target}."
        )
        fields = {"numbers": json.dumps(list(numbers)), "target": str(target)}
        return Rendered(question, expression, f"#### {expression}", fields)


def _apply(left: int, sign: str, right: int) -> int | None:
    """The result, or None for a division that is not exact."""
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    return left // right if right and left % right == 0 else None
