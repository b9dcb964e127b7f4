"""The objective that a config describes; the one place where losses are looked up by name."""

import dataclasses
from typing import Any

from jaxgrpo.aggregation import AGGREGATIONS
from jaxgrpo.core.choice import Choice
from jaxgrpo.losses._registry import LOSSES, PENALTIES
from jaxgrpo.losses.objective import SUPPLIED, Objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class PenaltyConfig:
    """A penalty towards the frozen policy that GRPO started from."""

    name: str = "reverse_kl"
    """A registered penalty, or `module:function`."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its keyword arguments."""
    coefficient: float = 0.0
    """Weight in the loss; at 0 there is no reference policy and no pass over it."""

    def __post_init__(self) -> None:
        if self.coefficient < 0:
            raise ValueError(f"coefficient must not be negative, got {self.coefficient}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What a step descends: a policy loss, how its tokens are aggregated, and a penalty."""

    name: str = "atr"
    """A registered policy loss, or `module:function`."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its keyword arguments."""
    aggregation: Choice = dataclasses.field(default_factory=lambda: Choice(name="token_mean"))
    """From token losses to a scalar."""
    penalty: PenaltyConfig = dataclasses.field(default_factory=PenaltyConfig)
    """Towards the reference; off by default."""


def make_objective(config: LossConfig) -> Objective:
    """The objective of a config, every name found and every option checked.

    Raises:
      LookupError: no such loss, aggregation or penalty.
      TypeError: an option is unknown or of the wrong type.

    Example:
      >>> make_objective(LossConfig(name="atr", options={"detla": 0.02}))
      Traceback (most recent call last):
      TypeError: loss 'atr' has no option detla; did you mean 'delta'? It takes: delta
    """
    needs = LOSSES.needs(config.name)
    if unknown := set(needs) - SUPPLIED:
        raise LookupError(
            f"loss {config.name!r} needs {', '.join(sorted(unknown))}, which a run does not have; "
            f"it has {', '.join(sorted(SUPPLIED))}"
        )
    AGGREGATIONS.bind(config.aggregation.name, **config.aggregation.options)
    penalty = PENALTIES.bind(config.penalty.name, **config.penalty.options)
    return Objective(
        policy_loss=LOSSES.bind(config.name, **config.options),
        needs=needs,
        level="token" if ":" in config.name else LOSSES.card(config.name).level,
        penalty=penalty if config.penalty.coefficient else None,
        penalty_coefficient=config.penalty.coefficient,
    )
