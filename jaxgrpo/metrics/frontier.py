"""What a policy gains against how far it went for it."""

import math
from collections.abc import Sequence


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """The points that no other one beats in both: those with the most reward for their KL.

    Read at a matched reward, runs with frontiers further to the left got it for less KL.

    Args:
      points: (KL, reward) each; points that are not finite are on no frontier.

    Returns:
      Indices by rising KL, and so by rising reward; of equal points the first.

    Source:
      The question is that of arXiv:2307.13192: a return, from as near by as possible.

    Example:
      >>> frontier([(0.0, 0.1), (2.0, 0.5), (1.0, 0.6), (3.0, 0.9)])
      [0, 2, 3]
    """
    finite = [index for index, point in enumerate(points) if all(map(math.isfinite, point))]
    kept: list[int] = []
    for index in sorted(finite, key=lambda index: (points[index][0], -points[index][1], index)):
        if not kept or points[index][1] > points[kept[-1]][1]:
            kept.append(index)
    return kept
