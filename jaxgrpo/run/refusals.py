"""Numbers that a run does not go on from."""

import math
from collections.abc import Mapping

import numpy as np

from jaxgrpo.core.errors import NumbersError
from jaxgrpo.rollouts import Rollout


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


def refuse_failed(rollout: Rollout, values: Mapping[str, float], limit: float) -> None:
    """Raise if more than this share of rewards failed, naming the commonest failures."""
    if values["reward/failed_fraction"] <= limit:
        return
    counts: dict[str, int] = {}
    for score in rollout.scores:
        for name, outcome in score.outcomes.items():
            if np.isnan(score.values[name]):
                counts[f"{name}: {outcome}"] = counts.get(f"{name}: {outcome}", 0) + 1
    worst = ", ".join(
        f"{what} ({n}x)" for what, n in sorted(counts.items(), key=lambda x: -x[1])[:3]
    )
    raise NumbersError(
        f"{values['reward/failed_fraction']:.0%} of rewards failed, rewards.max_failed_fraction is "
        f"{limit:.0%}: {worst}"
    )
