"""Tokens left out of a batch before its loss, why, and whether denominators still count them."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from jaxgrpo.clipping import top_entropy_mask
from jaxgrpo.losses.reasons import Reason
from jaxgrpo.training import Batch


def leave_out(
    batch: Batch, tokens: Bool[np.ndarray, "B T"], reason: Reason, *, counted: bool
) -> Batch:
    """The batch without these tokens in any part of the loss.

    Args:
      batch: on the host.
      tokens: [B, T] bool. Those that are not trainable anyway are left as they are.
      reason: recorded of each.
      counted: whether denominators count them all the same.
    """
    gone = batch.trainable & tokens
    before = np.zeros(gone.shape, np.int8) if batch.dropped is None else batch.dropped
    denominators = batch.trainable if batch.counted is None else batch.counted
    changes = {
        "trainable": batch.trainable & ~gone,
        "counted": denominators if counted else denominators & ~gone,
        "dropped": np.where(gone, np.int8(reason), before),
    }
    return dataclasses.replace(batch, **changes)


def keep_top_entropy(batch: Batch, entropies: Float[np.ndarray, "B T"], fraction: float) -> Batch:
    """The batch whose policy loss trains only its most uncertain tokens; all are counted.

    Args:
      batch: all rows of one optimiser step, on the host: the threshold is over all of them.
      entropies: [B, T], nats.
      fraction: of the trainable tokens.
    """
    kept = np.asarray(
        top_entropy_mask(jnp.asarray(entropies), where=batch.trainable, fraction=fraction)
    )
    weights = kept.astype(np.float32)
    if batch.token_weights is not None:
        weights = np.where(kept, batch.token_weights, 0)
    before = np.zeros(kept.shape, np.int8) if batch.dropped is None else batch.dropped
    low = batch.trainable & ~kept & (before == 0)
    dropped = np.where(low, np.int8(Reason.LOW_ENTROPY), before)
    changes = {"token_weights": weights, "dropped": dropped}
    return dataclasses.replace(batch, **changes)
