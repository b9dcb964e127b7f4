"""How far an accuracy may be off, given how many prompts it was measured on."""

import numpy as np
from jaxtyping import Bool

# Two-sided 95 % of a normal distribution.
_Z = 1.959964


def accuracy_interval(correct: Bool[np.ndarray, "P N"]) -> tuple[float, float]:
    r"""A 95 % interval around the mean of `correct`, over prompts like these.

    Wilson's score interval. The N completions of a prompt are alike, so they don't count as N
    independent ones: with :math:`m_i` the share of prompt i that is right,
    :math:`n = p (1 - p) P / Var(m_i)`, which is P for N = 1.

    Args:
      correct: [P, N], a prompt's completions in a row.

    Example:
      >>> low, high = accuracy_interval(np.array([[True]] * 8 + [[False]] * 2))
      >>> f"{low:.3f} {high:.3f}"
      '0.490 0.943'

    Source: Wilson 1927, doi:10.1080/01621459.1927.10502953; the effective number of draws is that
      of Korn and Graubard 1998, Survey Methodology 24(2).
    """
    prompts, samples = correct.shape
    p = float(correct.mean())
    spread = float(correct.mean(axis=1).var())
    # All right or all wrong says nothing of how alike completions are: count prompts.
    count = prompts if p in (0.0, 1.0) else prompts * samples
    if spread > 0:
        count = min(count, p * (1 - p) * prompts / spread)
    centre = (p + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z * np.sqrt(p * (1 - p) / count + _Z**2 / (4 * count**2)) / (1 + _Z**2 / count)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))
