"""The ratio interval that a bound on a divergence allows, in float64 on the host."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from jaxgrpo.core import checks
from jaxgrpo.core.errors import closest


def ratio_interval(name: str, delta: float) -> tuple[float, float]:
    r"""The ratios w = policy/anchor with D(anchor || policy) <= delta at the sampled token.

    With it a trust region is a clip: `trust_region(divergence=name, delta=delta)` and a clip of the
    ratio to this interval keep the same tokens. For kl3 these are the two roots of
    :math:`w - 1 - \log w = \delta`, found by Newton in :math:`y = \log w`; the closed form by the
    Lambert function loses half its digits when delta is small.

    Args:
      name: A divergence of the ratio alone: kl1, kl2, kl3, tv, chi2 or hellinger.
      delta: The bound, in the divergence's unit. A Python number, not traced.

    Returns:
      (low, high) as Python floats: (1, 1) for delta = 0 where the divergence has that, (0, inf)
      for delta = inf. kl1 is one-sided and has no upper end.

    Raises:
      LookupError: the divergence is unknown or has no ratio interval.
      ValueError: delta is negative or nan.

    Example:
      >>> import jaxgrpo as jg
      >>> low, high = jg.clipping.ratio_interval("kl3", 0.02)
      >>> f"{low:.5f} {high:.5f}"
      '0.81311 1.21355'

    Source:
      arXiv:2602.05494 (the kl3 interval); the others by hand.
    """
    checks.static_number(minimum=0, delta=delta)
    if name not in INTERVALS:
        known = ", ".join(INTERVALS)
        raise LookupError(
            f"divergence {name!r} has no ratio interval{closest(name, INTERVALS) or '.'} "
            f"These have one: {known}"
        )
    return (0.0, math.inf) if delta == math.inf else INTERVALS[name](float(delta))


def _kl1(delta: float) -> tuple[float, float]:
    return math.exp(-delta), math.inf


def _kl2(delta: float) -> tuple[float, float]:
    width = math.sqrt(2 * delta)
    return _exp(-width), _exp(width)


def _kl3(delta: float) -> tuple[float, float]:
    # exp(y) - 1 - y is convex: from either side Newton reaches the root after one step at most
    # beyond it. Upper start: sqrt(2 delta) is above the root, but overflows exp when delta is
    # large, where log(1 + delta), below it, is close. Lower start: -(1 + delta) is below the root.
    upper = math.sqrt(2 * delta) if delta < 1 else math.log1p(delta)
    return _exp(_newton(delta, -(1 + delta))), _exp(_newton(delta, upper))


def _tv(delta: float) -> tuple[float, float]:
    return max(1 - 2 * delta, 0.0), 1 + 2 * delta


def _chi2(delta: float) -> tuple[float, float]:
    return max(1 - math.sqrt(delta), 0.0), 1 + math.sqrt(delta)


def _hellinger(delta: float) -> tuple[float, float]:
    return max(1 - math.sqrt(delta), 0.0) ** 2, (1 + math.sqrt(delta)) ** 2


INTERVALS: Mapping[str, Callable[[float], tuple[float, float]]] = MappingProxyType(
    {"kl1": _kl1, "kl2": _kl2, "kl3": _kl3, "tv": _tv, "chi2": _chi2, "hellinger": _hellinger}
)


def _newton(delta: float, y: float) -> float:
    """The root of exp(y) - 1 - y = delta on the side of the start."""
    if delta == 0:
        return 0.0
    for _ in range(100):
        step = (_exp_minus_1_minus(y) - delta) / math.expm1(y)
        y -= step
        if abs(step) <= 1e-16 * abs(y):
            break
    return y


def _exp_minus_1_minus(y: float) -> float:
    """exp(y) - 1 - y without cancellation."""
    if abs(y) > 0.5:
        return math.expm1(y) - y
    total = term = y * y / 2
    for k in range(3, 20):
        term *= y / k
        total += term
    return total


def _exp(y: float) -> float:
    """exp, with inf instead of an OverflowError."""
    return math.exp(y) if y < 709 else math.inf
