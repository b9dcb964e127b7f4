"""Why a token's gradient is what it is."""

import enum

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.losses.token_inputs import TokenInputs


class Reason(enum.IntEnum):
    """What became of a token's gradient; the order is that of the recorded files, append only.

    A token without gradient was clipped high (A > 0, the ratio above 1), clipped low (A < 0,
    below 1), dual-clipped (A < 0, above 1), or cut by something else. A sequence gate, a mismatch
    mask, truncation and low entropy are of masks made before the loss.
    """

    PADDING = 0
    KEPT = 1
    CLIPPED_HIGH = 2
    CLIPPED_LOW = 3
    DUAL = 4
    SEQUENCE_GATE = 5
    MISMATCH_MASK = 6
    TRUNCATED = 7
    ZERO_VARIANCE = 8
    CUT = 9
    LOW_ENTROPY = 10


def reasons_of(
    weights: Float[Array, "B T"], log_probs: Float[Array, "B T"], inputs: TokenInputs
) -> Int[Array, "B T"]:
    """The reason of each token, read off its gradient weight and its side of the anchor.

    Args:
      weights: [B, T]. What multiplies each token's grad log p, from autodiff of the policy loss.
      log_probs: [B, T], nats. The tokens under the live policy.
      inputs: the rest of the batch.
    """
    advantages = inputs.token_advantages
    anchor = inputs.anchor_of(log_probs)
    further, nearer = log_probs > anchor, log_probs < anchor
    clipped = (weights == 0) & (advantages != 0)
    cases = [
        (~inputs.where, Reason.PADDING),
        (advantages == 0, Reason.ZERO_VARIANCE),
        (clipped & further & (advantages > 0), Reason.CLIPPED_HIGH),
        (clipped & nearer & (advantages < 0), Reason.CLIPPED_LOW),
        (clipped & further, Reason.DUAL),
        (clipped, Reason.CUT),
    ]
    conditions = [condition for condition, _ in cases]
    values = [jnp.full(log_probs.shape, reason, jnp.int8) for _, reason in cases]
    reasons = jnp.select(conditions, values, jnp.int8(Reason.KEPT))
    if inputs.dropped is None:
        return reasons
    return jnp.where(inputs.dropped > 0, inputs.dropped, reasons).astype(jnp.int8)
