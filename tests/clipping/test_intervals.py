import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.clipping import INTERVALS, ratio_interval

getcontext().prec = 50

# w - 1 - log w = delta, from tables of the Lambert function's two branches.
KL3_TABLE = [
    (0.005000, 0.90331, 1.10336, -0.10169, 0.09836),
    (0.010000, 0.86517, 1.14817, -0.14483, 0.13817),
    (0.020000, 0.81311, 1.21355, -0.20689, 0.19355),
    (0.023144, 0.80000, 1.23084, -0.22314, 0.20770),
    (0.033140, 0.76415, 1.28000, -0.26899, 0.24686),
    (0.050000, 0.71619, 1.35040, -0.33381, 0.30040),
    (0.100000, 0.61682, 1.51622, -0.48318, 0.41622),
]
BY_HAND = {
    "kl1": (0.5, math.exp(-0.5), math.inf),
    "kl2": (0.02, math.exp(-0.2), math.exp(0.2)),
    "kl3": (0.01767844320604541, 0.82356, 1.2),
    "tv": (0.1, 0.8, 1.2),
    "chi2": (0.04, 0.8, 1.2),
    "hellinger": (0.01, 0.81, 1.21),
}
FORMULAS = {
    "kl1": lambda w: -w.ln(),
    "kl2": lambda w: w.ln() ** 2 / 2,
    "kl3": lambda w: w - 1 - w.ln(),
    "tv": lambda w: abs(w - 1) / 2,
    "chi2": lambda w: (w - 1) ** 2,
    "hellinger": lambda w: (w.sqrt() - 1) ** 2,
}
every = pytest.mark.parametrize("name", INTERVALS)


def test_every_interval_has_its_rows():
    assert set(INTERVALS) == set(BY_HAND) == set(FORMULAS)


@pytest.mark.parametrize(("delta", "low", "high", "log_low", "log_high"), KL3_TABLE)
def test_the_kl3_table(delta, low, high, log_low, log_high):
    got = ratio_interval("kl3", delta)
    # The table has five decimals.
    np.testing.assert_allclose(got, (low, high), atol=6e-6, rtol=0)
    np.testing.assert_allclose(np.log(got), (log_low, log_high), atol=6e-6, rtol=0)


@every
def test_intervals_by_hand(name):
    delta, low, high = BY_HAND[name]
    np.testing.assert_allclose(ratio_interval(name, delta), (low, high), rtol=6e-6)


@every
@given(exponent=st.floats(-12, 2))
def test_the_ends_lie_on_the_bound(name, exponent):
    delta = 10.0**exponent
    for end in map(Decimal, ratio_interval(name, delta)):
        if 0 < end < math.inf:
            # Two roundings of the end: of log w where it is an exponential, else of 1 +- x.
            scale = (
                max(end, 1) if name in ("tv", "chi2", "hellinger") else end * (1 + abs(end.ln()))
            )
            step = scale * Decimal(2.0**-51)
            distance = FORMULAS[name](end)
            slack = max(
                abs(FORMULAS[name](end + s) - distance) for s in (step, -min(step, end / 2))
            )
            assert abs(distance - Decimal(delta)) <= slack


@given(st.floats(1e-300, 1e300))
def test_kl3_never_fails_and_brackets_1(delta):
    low, high = ratio_interval("kl3", delta)
    assert 0 <= low <= 1 <= high


@given(st.floats(1e-9, 50))
def test_kl3_is_wider_above_in_ratio_and_below_in_log_ratio(delta):
    low, high = ratio_interval("kl3", delta)
    assert high - 1 > 1 - low
    assert math.log(high) < -math.log(low)


def test_small_bounds_follow_the_expansion():
    # w = 1 +- s + s^2/3 +- s^3/36, s = sqrt(2 delta)
    delta = 1e-8
    s = math.sqrt(2 * delta)
    low, high = ratio_interval("kl3", delta)
    np.testing.assert_allclose(high - 1, s + s**2 / 3 + s**3 / 36, rtol=1e-11)
    np.testing.assert_allclose(1 - low, s - s**2 / 3 + s**3 / 36, rtol=1e-11)


@every
def test_the_ends_of_the_range(name):
    assert ratio_interval(name, 0) == ((1.0, math.inf) if name == "kl1" else (1.0, 1.0))
    assert ratio_interval(name, math.inf) == (0.0, math.inf)
    low, high = ratio_interval(name, 1e6)
    assert 0 <= low < 1 < high
    assert all(type(end) is float for end in ratio_interval(name, np.float64(0.1)))


@every
@pytest.mark.parametrize("delta", [-1e-12, -math.inf, math.nan])
def test_a_negative_bound_is_refused(name, delta):
    with pytest.raises(ValueError, match="delta must be at least 0"):
        ratio_interval(name, delta)


def test_what_has_no_interval_is_named():
    with pytest.raises(LookupError, match="'binary_tv' has no ratio interval"):
        ratio_interval("binary_tv", 0.1)
    with pytest.raises(LookupError, match="did you mean 'kl3'"):
        ratio_interval("k3", 0.1)
