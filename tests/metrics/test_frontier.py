import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.metrics.frontier import frontier


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ([], []),
        ([(1.0, 1.0)], [0]),
        # Beaten in both, beaten in one at an equal other, and equal.
        ([(1.0, 1.0), (2.0, 0.5)], [0]),
        ([(1.0, 0.5), (1.0, 1.0)], [1]),
        ([(2.0, 1.0), (1.0, 1.0)], [1]),
        ([(1.0, 1.0), (1.0, 1.0)], [0]),
        ([(3.0, 3.0), (1.0, 1.0), (2.0, 2.0)], [1, 2, 0]),
        ([(math.nan, 9.0), (0.0, math.nan), (0.0, math.inf), (1.0, 0.0)], [3]),
    ],
)
def test_points_by_hand(points, wanted):
    assert frontier(points) == wanted


NUMBERS = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))
def test_it_is_what_no_other_point_dominates(points):
    def beaten(point):
        return any(
            kl <= point[0] and reward >= point[1] and (kl, reward) != point for kl, reward in points
        )

    best = {point for point in points if not beaten(point)}
    kept = [points[index] for index in frontier(points)]
    assert set(kept) == best
    assert len(kept) == len(best)
    assert kept == sorted(kept)
