"""From a feasibility test to the tokens that keep their gradient, and back to ratio intervals."""

from jaxgrpo.clipping._intervals import INTERVALS, ratio_interval
from jaxgrpo.clipping._keep import keep_mask

__all__ = ["INTERVALS", "keep_mask", "ratio_interval"]
