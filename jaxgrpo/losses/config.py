"""The objective that a config describes; the one place where losses are looked up by name."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
from jaxtyping import Array

from jaxgrpo.aggregation import AGGREGATIONS
from jaxgrpo.core.choice import Choice
from jaxgrpo.core.errors import closest
from jaxgrpo.divergences import ROW_DIVERGENCES
from jaxgrpo.losses._registry import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.losses.objective import SUPPLIED, Objective, Penalty

# A quotient of entropies is a divergence from nothing.
_ROW_DIVERGENCES = tuple(name for name in ROW_DIVERGENCES.names() if name != "entropy_ratio")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PenaltyConfig:
    """A penalty towards the frozen policy that GRPO started from."""

    name: str = "reverse_kl"
    """A registered penalty of sampled tokens, or `module:function`; or of whole distributions: an
    `exact_...` one, or a divergence of rows such as `full_js`. These run the reference within every
    optimiser step."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its keyword arguments."""
    coefficient: float = 0.0
    """Weight in the loss; at 0 there is no reference policy and no pass over it."""
    measure: bool = False
    """Keep the reference at coefficient 0 too, to log how far the policy has moved from it."""
    measure_exact: bool = False
    """Log KL(policy || reference) over the whole vocabulary, whatever the penalty: a forward pass
    of the reference more in every optimiser step."""

    def __post_init__(self) -> None:
        if self.coefficient < 0:
            raise ValueError(f"coefficient must not be negative, got {self.coefficient}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightConfig:
    """A detached weight of trainer against sampler, multiplied onto the policy loss's tokens."""

    name: str
    """A registered weight, or `module:function`."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Its keyword arguments."""
    denominator: Literal["keep", "counted"] = "keep"
    """"keep": a token of weight 0 still counts, so that a step with many of them is a small one;
    "counted": it leaves the trainable tokens, and the step is a mean over those that remain."""
    mean_normalised: bool = False
    """Divide by the mean over all trainable tokens of the step."""


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
    weights: tuple[WeightConfig, ...] = ()
    """Corrections for what the sampler and the trainer disagree on; their product is applied."""
    top_entropy_fraction: float = 1.0
    """Of the trainable tokens of an optimiser step, only this share is trained by the policy loss,
    those of highest entropy before the step; all stay in the denominator. 1 trains all."""
    entropy_bonus: float = 0.0
    """Weight of the mean entropy, taken off the loss."""
    positive_nll: float = 0.0
    """Weight of -log p at the tokens of completions whose reward is above 0, added to the loss:
    imitation of what went well (VAPO, arXiv:2504.05118: 0.1). All trainable tokens count in its
    denominator."""

    def __post_init__(self) -> None:
        if not 0 < self.top_entropy_fraction <= 1:
            raise ValueError(
                f"top_entropy_fraction must be in (0, 1], got {self.top_entropy_fraction}"
            )
        if self.positive_nll < 0:
            raise ValueError(f"positive_nll must not be negative, got {self.positive_nll}")


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
    penalty, row_penalty = _penalties(config.penalty)
    _refuse_double_weights(config, needs)
    return Objective(
        policy_loss=LOSSES.bind(config.name, **config.options),
        needs=needs,
        # Nothing is known of a user's own: it may look at whole sequences.
        level="sequence" if ":" in config.name else LOSSES.card(config.name).level,
        penalty=penalty if config.penalty.coefficient else None,
        row_penalty=row_penalty if config.penalty.coefficient else None,
        penalty_coefficient=config.penalty.coefficient,
        entropy_bonus=config.entropy_bonus,
        positive_nll=config.positive_nll,
        measures_reference=config.penalty.measure,
        measures_rows=config.penalty.measure_exact,
    )


def _penalties(config: PenaltyConfig) -> tuple[Penalty | None, Penalty | None]:
    """The penalty of sampled tokens or the one of rows, whichever has that name."""
    if config.name in ROW_PENALTIES.names():
        return None, ROW_PENALTIES.bind(config.name, **config.options)
    if config.name in _ROW_DIVERGENCES:
        divergence = ROW_DIVERGENCES.bind(config.name, **config.options)
        return None, functools.partial(_towards, divergence)
    if config.name not in PENALTIES.names() and ":" not in config.name:
        known = (*PENALTIES.names(), *ROW_PENALTIES.names(), *_ROW_DIVERGENCES)
        hint = closest(config.name, known) or "."
        raise LookupError(f"no penalty named {config.name!r}{hint} Known: {', '.join(known)}")
    return PENALTIES.bind(config.name, **config.options), None


def _towards(
    divergence: Callable[..., Array],
    rows: Array,
    reference_rows: Array,
    *,
    where: Array | None = None,
) -> Array:
    """A divergence of whole rows as a penalty: D(policy || reference), exact at each token."""
    return divergence(rows, jax.lax.stop_gradient(reference_rows), where=where)


def _refuse_double_weights(config: LossConfig, needs: tuple[str, ...]) -> None:
    if config.weights and "behaviour_log_probs" in needs and ":" not in config.name:
        raise LookupError(
            f"loss {config.name!r} weighs tokens by trainer over sampler itself: weights would "
            "count that twice"
        )
