"""Numbers that a run does not go on from."""

import collections
import math
from collections.abc import Mapping, Sequence

from jaxgrpo.core.errors import NumbersError


def refuse_nan(values: Mapping[str, float], step: int) -> None:
    """Raise if the loss or the gradient norm of a step is not finite."""
    for name in ("loss/total", "grad/norm"):
        if not math.isfinite(values[name]):
            raise NumbersError(f"{name} is {values[name]} at step {step}")


def refuse_mismatch(values: Mapping[str, float], limit: float) -> None:
    """Raise if sampler and trainer differ by more than the limit, in nats; 0 is no limit."""
    found = values["mismatch/mean_abs"]
    if limit and found > limit:
        raise NumbersError(
            f"sampler and trainer differ by {found:.3g} nats a token, training.max_mismatch is "
            f"{limit:.3g}"
        )


def refuse_failed(failures: Sequence[str], limit: float, what: str) -> None:
    """Raise if more than this share of rewards failed, naming the commonest failures.

    Args:
      failures: of each completion what failed, or an empty text.
      limit: the largest share.
      what: whose rewards they are, for the message.
    """
    counts = collections.Counter(failure for failure in failures if failure)
    share = counts.total() / len(failures)
    if share <= limit:
        return
    worst = ", ".join(f"{failure} ({count}x)" for failure, count in counts.most_common(3))
    raise NumbersError(
        f"{share:.0%} of {what} failed, rewards.max_failed_fraction is {limit:.0%}: {worst}"
    )
