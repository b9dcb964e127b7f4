"""What procedural tasks share: examples made on demand, and evaluation kept apart from training."""

import abc
import logging
from collections.abc import Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from jaxgrpo.core.errors import UserError
from jaxgrpo.data.draws import Draws, stable_hash
from jaxgrpo.data.sources import Example

logger = logging.getLogger(__name__)

Split = Literal["train", "eval"]
_DEFAULT_SIZE = {"train": 16384, "eval": 256}
# One problem in eight belongs to evaluation, whatever the seed: no seed trains on another's exam.
_EVAL_SHARE = 8
# Draws in a row without a new problem after which there is none to be found.
_PATIENCE = 20_000

ProblemT = TypeVar("ProblemT")


class Rendered(NamedTuple):
    """The texts of a problem."""

    question: str
    answer: str
    worked: str
    fields: Mapping[str, str]


class ProceduralTask(abc.ABC, Generic[ProblemT]):
    """Example i is a pure function of (seed, split, i).

    Which split a problem belongs to is decided by a hash of its key, so a problem that was
    evaluated on is never trained on. Evaluation problems are distinct; training problems may recur.

    Args:
      seed: of the run, 0 or more.
      split: "train" or "eval".
      size: the number of examples; 0 for 16384 to train and 256 to evaluate.

    Raises:
      UserError: there are fewer distinct evaluation problems than asked for.
    """

    name: str

    def __init__(self, *, seed: int, split: Split, size: int = 0) -> None:
        if split not in _DEFAULT_SIZE:
            raise ValueError(f"split must be 'train' or 'eval', got {split!r}")
        if not 0 <= size < 2**31:
            raise ValueError(f"size must be in [0, 2**31), got {size}")
        self._seed, self._split = seed, split
        self._size = size or _DEFAULT_SIZE[split]
        self._evaluation = self._distinct() if split == "eval" else []
        self._problem(0)

    @abc.abstractmethod
    def _draw(self, draws: Draws) -> ProblemT | None:
        """A problem, or None where the draw came to nothing."""

    @abc.abstractmethod
    def _key(self, problem: ProblemT) -> str:
        """Equal for problems that a model should not meet in both splits."""

    @abc.abstractmethod
    def _render(self, problem: ProblemT, draws: Draws) -> Rendered:
        """The texts of a problem; `draws` for choices of form."""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int, /) -> Example:
        if not 0 <= index < self._size:
            raise IndexError(f"{self.name}: index {index} outside [0, {self._size})")
        problem, draws = self._problem(index)
        question, answer, worked, fields = self._render(problem, draws)
        return Example(index, f"{self.name}-{index}", question, answer, worked, fields)

    def _problem(self, index: int) -> tuple[ProblemT, Draws]:
        draws = Draws(self.name, self._seed, self._split, index)
        if self._split == "eval":
            return self._evaluation[index], draws
        for _ in range(_PATIENCE):
            problem = self._draw(draws)
            if problem is not None and not self._for_evaluation(self._key(problem)):
                return problem, draws
        raise UserError(f"task {self.name!r}: these options leave no training problem")

    def _for_evaluation(self, key: str) -> bool:
        return stable_hash(key) % _EVAL_SHARE == 0

    def _distinct(self) -> list[ProblemT]:
        """The first `size` different evaluation problems of an endless stream of draws."""
        draws = Draws(self.name, self._seed, "eval")
        found: dict[str, ProblemT] = {}
        in_vain = 0
        while len(found) < self._size:
            problem = self._draw(draws)
            in_vain += 1
            if problem is not None:
                key = self._key(problem)
                if key not in found and self._for_evaluation(key):
                    found[key], in_vain = problem, 0
            if in_vain > _PATIENCE:
                raise UserError(
                    f"task {self.name!r}: wanted {self._size} different evaluation problems, these "
                    f"options have about {len(found)}; ask for fewer (size) or for harder ones"
                )
        return list(found.values())


def check_int(name: str, value: Any, low: int, high: int) -> None:
    """Raise unless a task option is an integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be an integer in [{low}, {high}], got {value!r}")


def check_operations(value: Any, known: str) -> None:
    """Raise unless a task option is a string of different operation signs."""
    if not isinstance(value, str) or not value or not set(value) <= set(known):
        raise ValueError(f"operations must be signs out of {known!r}, got {value!r}")
    if len(set(value)) < len(value):
        raise ValueError(f"operations must differ from each other, got {value!r}")
