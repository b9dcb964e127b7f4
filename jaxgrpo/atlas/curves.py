"""Curves over the ratio, with their jumps found to the last digits."""

import dataclasses
from collections.abc import Callable

import numpy as np

_POINTS = 129
_STEEP, _JUMP = 1e-3, 1e-6
_HALVINGS = 40


@dataclasses.dataclass(frozen=True)
class Jump:
    """A place where a curve is discontinuous."""

    x: float
    before: float
    after: float


@dataclasses.dataclass(frozen=True)
class Curve:
    """A line in a panel; nan where there is nothing to draw."""

    label: str
    x: np.ndarray
    y: np.ndarray
    jumps: tuple[Jump, ...] = ()
    style: int = 0
    """Colour and dashes: the same number, the same look."""

    def line(self) -> tuple[np.ndarray, np.ndarray]:
        """X and y of the drawn line: interrupted at each jump, and drawn right up to it."""
        x, y = list(self.x), list(self.y)
        for jump in self.jumps:
            x += [jump.x] * 3
            y += [jump.before, np.nan, jump.after]
        order = np.argsort(np.array(x), kind="stable")
        return np.array(x)[order], np.array(y)[order]


def ratio_grid(span: float) -> np.ndarray:
    """Log-ratios from that of 1 / span to that of span, 1 exactly in the middle."""
    half = np.linspace(0, np.log(span), _POINTS // 2 + 1)
    return np.concatenate([-half[:0:-1], half])


def trace_curves(
    evaluate: Callable[[np.ndarray], np.ndarray], span: float
) -> list[tuple[np.ndarray, np.ndarray, tuple[Jump, ...]]]:
    """Each column of a function of the log-ratio as (ratios, values, jumps).

    A jump is what is left of a step between two points of the grid when that interval has been
    halved until it has no width: its place is right to rounding.

    Example:
      >>> step = lambda log_ratios: np.where(log_ratios <= np.log(1.3), 1.0, 0.0)[:, None]
      >>> [(_, _, (jump,))] = trace_curves(step, span=8.0)
      >>> f"{jump.x:.9f}", jump.before, jump.after
      ('1.300000000', 1.0, 0.0)
    """
    grid = ratio_grid(span)
    values = evaluate(grid)
    return [
        (np.exp(grid), column, _jumps(lambda x, c=index: evaluate(x)[:, c], grid, column))
        for index, column in enumerate(values.T)
    ]


def _jumps(
    evaluate: Callable[[np.ndarray], np.ndarray], grid: np.ndarray, values: np.ndarray
) -> tuple[Jump, ...]:
    steep = np.abs(np.diff(values)) > _STEEP
    left, right = grid[:-1][steep], grid[1:][steep]
    before, after = values[:-1][steep], values[1:][steep]
    if not len(left):
        return ()
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        between = evaluate(middle)
        first = np.abs(between - before) >= np.abs(after - between)
        right, after = np.where(first, middle, right), np.where(first, between, after)
        left, before = np.where(first, left, middle), np.where(first, before, between)
    found: list[Jump] = []
    for x, low, high in zip((left + right) / 2, before, after, strict=True):
        if not abs(high - low) > _JUMP:
            continue
        # A value held at one point alone, as sign(0) is, makes two jumps in one place.
        if found and abs(np.log(found[-1].x) - x) < 1e-9:
            found[-1] = dataclasses.replace(found[-1], after=float(high))
        else:
            # + 0: a weight of -0 is 0.
            found.append(Jump(float(np.exp(x)), float(low) + 0, float(high) + 0))
    return tuple(found)
