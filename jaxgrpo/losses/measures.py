"""What is logged of a batch under an objective, as sums and counts."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgrpo.core.masking import masked_sum
from jaxgrpo.divergences import kl1, kl3
from jaxgrpo.losses.reasons import Reason, reasons_of
from jaxgrpo.losses.token_inputs import TokenInputs
from jaxgrpo.metrics.mean import Mean

Metrics = dict[str, Mean]


def measure(
    log_probs: Float[Array, "B T"],
    entropies: Float[Array, "B T"],
    weights: Float[Array, "B T"],
    inputs: TokenInputs,
) -> Metrics:
    """Clip fractions, divergences and entropy over the trainable tokens.

    Args:
      log_probs: [B, T], nats. The tokens under the live policy, without gradient.
      entropies: [B, T], nats. Likewise.
      weights: [B, T]. What multiplies each token's grad log p.
      inputs: the rest of the batch.
    """
    where = inputs.where
    anchor, behaviour = inputs.anchor_of(log_probs), inputs.behaviour_log_probs
    reasons = reasons_of(weights, log_probs, inputs)
    # Tokens without an advantage have no gradient to clip, nor have those that were dropped before:
    # they are in no clip fraction.
    moving = where & (inputs.token_advantages != 0)
    if inputs.dropped is not None:
        moving = moving & (inputs.dropped == 0)

    def of_sequences(values: Array) -> Mean:
        # By the chain rule the divergence of whole sequences is the expected sum over their tokens.
        return Mean.of(masked_sum(values, where, axis=-1), jnp.any(where, axis=-1))

    def fraction(reason: Reason) -> Mean:
        return Mean.of(reasons == reason, moving)

    # What was not sampled has no sampler to differ from.
    drawn = where if inputs.off_policy is None else where & ~inputs.off_policy
    moved = kl3(anchor, log_probs, where=where)
    metrics = {
        "divergence/anchor_kl3": Mean.of(moved, where),
        "divergence/sequence_kl3": of_sequences(moved),
        "clip/fraction_low": fraction(Reason.CLIPPED_LOW),
        "clip/fraction_high": fraction(Reason.CLIPPED_HIGH),
        "clip/fraction_dual": fraction(Reason.DUAL),
        "entropy/mean": Mean.of(entropies, where),
        "mismatch/mean_abs": Mean.of(jnp.abs(kl1(behaviour, log_probs, where=drawn)), drawn),
        "mismatch/kl3": Mean.of(kl3(behaviour, log_probs, where=drawn), drawn),
    }
    if inputs.reference_log_probs is not None:
        reference = kl3(log_probs, inputs.reference_log_probs, where=where)
        metrics["divergence/reference_kl3"] = Mean.of(reference, where)
        metrics["divergence/reference_sequence_kl3"] = of_sequences(reference)
    if inputs.reference_kl is not None:
        metrics["divergence/reference_exact_kl"] = Mean.of(inputs.reference_kl, where)
        metrics["divergence/reference_sequence_exact_kl"] = of_sequences(inputs.reference_kl)
    return metrics
