"""Random numbers for procedural tasks: cheap to start, the same on every Python and machine."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")
_MASK = 2**64 - 1


class Draws:
    """A stream of draws that is a pure function of its key; starting one takes a microsecond.

    Source:
      SplitMix64: Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195.

    Example:
      >>> draws = Draws(7, "train", 3)
      >>> [draws.below(10) for _ in range(4)]
      [0, 8, 0, 3]
    """

    def __init__(self, *key: int | str) -> None:
        self._state = stable_hash("\0".join(map(str, key)))

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """An integer in [0, bound); the bias is under bound / 2**64."""
        return (self._next() * bound) >> 64

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high], both included."""
        return low + self.below(high - low + 1)

    def unit(self) -> float:
        """A number in [0, 1)."""
        return (self._next() >> 11) * 2.0**-53

    def choice(self, items: Sequence[_T]) -> _T:
        """One of the items."""
        return items[self.below(len(items))]


def stable_hash(text: str) -> int:
    """A 64-bit hash that does not change between processes, unlike `hash`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
