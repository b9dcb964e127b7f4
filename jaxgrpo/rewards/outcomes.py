"""How often each outcome came, and how long the slowest took."""

import collections
import math
from collections.abc import Sequence

from jaxgrpo.answers import Outcome
from jaxgrpo.rewards.pool import Score

_WORDS = (*(word.value for word in Outcome), "ok", "timeout", "crash", "error", "not_finite")


def outcome_metrics(scores: Sequence[Score]) -> dict[str, float]:
    """Counts of `reward/outcome/WORD` over completions and functions, and `time/reward_p99`.

    The same keys whatever happened: words of a user's own count as "other". The time is in seconds,
    of the completion that one in a hundred is slower than.

    Example:
      >>> seen = outcome_metrics([Score(1.0, {"answer": 1.0}, {"answer": "right"}, 0.25)])
      >>> seen["reward/outcome/right"], seen["reward/outcome/timeout"], seen["time/reward_p99"]
      (1.0, 0.0, 0.25)
    """
    seen = collections.Counter(
        _word(outcome) for score in scores for outcome in score.outcomes.values()
    )
    counts = {f"reward/outcome/{word}": float(seen[word]) for word in (*_WORDS, "other")}
    spent = sorted(score.seconds for score in scores)
    last = spent[math.ceil(0.99 * len(spent)) - 1] if spent else math.nan
    return {**counts, "time/reward_p99": last}


def _word(outcome: str) -> str:
    first = outcome.partition(":")[0]
    return first if first in _WORDS else "other"
