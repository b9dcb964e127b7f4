"""Detached weights of trainer against sampler, composed: constants of a whole rollout."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.losses.config import WeightConfig
from jaxgrpo.losses.reasons import Reason
from jaxgrpo.metrics.mean import Mean
from jaxgrpo.ratios import (
    WEIGHTS,
    counted_tokens,
    effective_sample_size,
    mean_normalised_weights,
)

# What a weight's `needs` may name.
_SUPPLIED = frozenset({"advantages"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenWeight:
    """One operator of `WEIGHTS` with its options, and what is done with its zeros."""

    name: str
    function: Callable[..., Float[Array, "B T"]]
    needs: tuple[str, ...]
    by_sequence: bool
    """Whether it judges sequences: one that it drops as a whole is recorded as gated."""
    counted: bool
    """Whether denominators count only the tokens that it keeps."""
    mean_normalised: bool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Weighed:
    """What weights make of a batch."""

    weights: Float[Array, "B T"]
    """Their product; 0 outside the trainable tokens."""
    dropped: Int[Array, "B T"]
    """int8: the `Reason` of trainable tokens with weight 0, and 0 elsewhere."""
    trainable: Bool[Array, "B T"]
    """Without the tokens that a weight took out of the denominator."""
    metrics: dict[str, Array]


def make_weights(configs: Sequence[WeightConfig]) -> tuple[TokenWeight, ...]:
    """The weights of a config, every name found and every option checked.

    Raises:
      LookupError: no such weight, or it needs an array that a run does not have.
      TypeError: an option is unknown or of the wrong type.

    Example:
      >>> config = WeightConfig(name="geometric_mask", options={"high": 1.01})
      >>> [weight.by_sequence for weight in make_weights([config])]
      [True]
    """
    return tuple(_bound(config) for config in configs)


def _bound(config: WeightConfig) -> TokenWeight:
    name = config.name
    needs = WEIGHTS.needs(name)
    if unknown := set(needs) - _SUPPLIED:
        raise LookupError(
            f"weight {name!r} needs {', '.join(sorted(unknown))}, which a run does not have; it "
            f"has {', '.join(sorted(_SUPPLIED))}"
        )
    return TokenWeight(
        name=name,
        function=WEIGHTS.bind(name, **config.options),
        needs=needs,
        by_sequence=":" not in name and WEIGHTS.card(name).level == "sequence",
        counted=config.denominator == "counted",
        mean_normalised=config.mean_normalised,
    )


def weigh(
    weights: Sequence[TokenWeight],
    log_probs: Float[Array, "B T"],
    behaviour_log_probs: Float[Array, "B T"],
    advantages: Float[Array, " B"] | Float[Array, "B T"],
    where: Bool[Array, "B T"],
) -> Weighed:
    """The product of all weights, each made from the same trainable tokens.

    Args:
      weights: from `make_weights`.
      log_probs: [B, T], nats. All rows of the step, under the trainer's policy before it.
      behaviour_log_probs: [B, T], nats. As the sampler recorded them.
      advantages: [B] or [B, T].
      where: [B, T] bool. Trainable tokens.
    """
    log_probs = jax.lax.stop_gradient(log_probs)
    behaviour_log_probs = behaviour_log_probs.astype(log_probs.dtype)
    supplied = {"advantages": advantages.astype(log_probs.dtype)}
    product, trainable = zero_where_masked(jnp.ones_like(log_probs), where), where
    dropped = jnp.zeros(where.shape, jnp.int8)
    for weight in weights:
        needed = {name: supplied[name] for name in weight.needs}
        values = weight.function(log_probs, behaviour_log_probs, where=where, **needed)
        if weight.mean_normalised:
            values = mean_normalised_weights(values, where=where)
        gone = where & (values == 0)
        gated = weight.by_sequence & jnp.all(gone | ~where, axis=-1, keepdims=True)
        reason = jnp.where(gated, Reason.SEQUENCE_GATE, Reason.MISMATCH_MASK).astype(jnp.int8)
        dropped = jnp.where(gone & (dropped == 0), reason, dropped)
        # Selected: a token that one weight drops may have any value under another.
        product = jnp.where(values != 0, product, 0) * jnp.where(product != 0, values, 0)
        if weight.counted:
            trainable = trainable & counted_tokens(values, where, dropped="leave_out")
    masked = Mean.of(dropped > 0, where)
    metrics = {
        "weights/mean": Mean.of(product, where).value(),
        "weights/effective_sample_size": effective_sample_size(product, where=where),
        "weights/masked_fraction": masked.value(),
    }
    return Weighed(weights=product, dropped=dropped, trainable=trainable, metrics=metrics)
