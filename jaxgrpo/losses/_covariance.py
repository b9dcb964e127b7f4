"""Clip-Cov and KL-Cov: tokens whose log-probability covaries most with the advantage are held back.

Both look at all trainable tokens of the optimiser step at once.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_count, masked_mean, zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import kl1
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import masked_surrogate, surrogate_inputs

_LOCAL = (
    "The count is max(1, floor(fraction N)) of the whole step here, of each micro-batch in verl. "
    "SkyRL folds the normaliser into A first, which rescales the covariance."
)


@LOSSES.register(
    Card(
        formula="PPO's clip; a random fraction of the tokens with low < cov < high has loss 0",
        source="Clip-Cov, arXiv:2505.22617",
        level="batch",
        gradient="none",
        defaults="fraction 2e-4, bounds 1 and 5 (verl, SkyRL)",
        disagreements=_LOCAL + " At w = 1 the chosen tokens have gradient 0, not -A.",
        needs=("key",),
    )
)
def clip_cov(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    key: Key[Array, ""],
    fraction: float = 2e-4,
    covariance_low: float = 1.0,
    covariance_high: float = 5.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Array, "*B T"]:
    """PPO's clip without a few random tokens of high covariance, against the loss of entropy.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      key: PRNG key that chooses the tokens.
      fraction: Of all trainable tokens, those dropped; at least one, if there are candidates.
      covariance_low: Candidates have a covariance above this.
      covariance_high: And below this.
      clip_low: PPO's lower clip.
      clip_high: PPO's upper clip.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a number is negative.

    Note:
      The gradient for `log_probs` is PPO's, and 0 on the dropped tokens, which stay in the
      denominator. The covariance of a token is (A - mean A) (log pi - mean log pi).

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, advantages = jnp.array([[0.0, -4.0]]), jnp.array([[1.0, -1.0]])
      >>> jg.losses.clip_cov(log_probs, log_probs, advantages, key=jax.random.key(0))
      Array([[-1.,  0.]], dtype=float32)

    Source:
      arXiv:2505.22617.
    """
    checks.static_number(minimum=0, fraction=fraction, covariance_low=covariance_low)
    checks.static_number(minimum=covariance_low, covariance_high=covariance_high)
    log_ratios, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    change = jnp.expm1(jax.lax.stop_gradient(log_ratios))
    clipped = (spread > 0) & (change > clip_high) | (spread < 0) & (change < -clip_low)
    covariance = _covariance(log_probs, spread, where)
    candidates = (covariance > covariance_low) & (covariance < covariance_high) & ~clipped
    if where is not None:
        candidates &= where
    scores = jnp.where(candidates, jax.random.uniform(key, log_probs.shape), -1)
    kept = ~(candidates & _largest_fraction(scores, fraction, where))
    return ppo_clip(
        log_probs,
        anchor_log_probs,
        spread,
        where=kept if where is None else where & kept,
        clip_low=clip_low,
        clip_high=clip_high,
    )


@LOSSES.register(
    Card(
        formula="-w A, plus coefficient |log w| on the fraction of tokens of largest covariance",
        source="KL-Cov, arXiv:2505.22617",
        level="batch",
        gradient="policy_gradient",
        defaults="fraction 2e-4, coefficient 0.1 (verl's YAML; the fallback in its code is 1)",
        disagreements=_LOCAL + " There is no clip.",
    )
)
def kl_cov(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    fraction: float = 2e-4,
    coefficient: float = 0.1,
) -> Float[Array, "*B T"]:
    """The unclipped surrogate, with the tokens of largest covariance held by their log-ratio.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      fraction: Of all trainable tokens, those held; at least one, and all of equal covariance.
      coefficient: Weight of their absolute log-ratio.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a number is negative.

    Note:
      The gradient for `log_probs` is -w A, plus coefficient sign(log w) on the held tokens.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> anchor, advantages = jnp.zeros((1, 2)), jnp.array([[-1.0, 1.0]])
      >>> loss = jg.losses.kl_cov(log_ratios, anchor, advantages, coefficient=1.0)
      >>> [f"{x:.3f}" for x in loss[0]]
      ['1.193', '-1.307']

    Source:
      arXiv:2505.22617.
    """
    checks.static_number(minimum=0, fraction=fraction, coefficient=coefficient)
    log_ratios, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    losses = masked_surrogate(
        log_ratios,
        spread,
        keep=jnp.ones(log_ratios.shape, bool),
        dropped_ratios=1.0,
        where=where,
    )
    covariance = _covariance(log_probs, spread, where)
    trainable = jnp.isfinite(covariance) if where is None else where & jnp.isfinite(covariance)
    scores = jnp.where(trainable, covariance, -jnp.inf)
    held = trainable & _largest_fraction(scores, fraction, where)
    live = kl1(log_ratios, jnp.zeros_like(log_ratios))
    penalty = coefficient * jnp.sign(jax.lax.stop_gradient(live)) * live
    return losses + jnp.where(held, penalty, 0)


def _covariance(log_probs: Array, advantages: Array, where: Array | None) -> Array:
    log_probs = zero_where_masked(jax.lax.stop_gradient(log_probs), where)
    means = masked_mean(advantages, where), masked_mean(log_probs, where)
    return (advantages - means[0].astype(log_probs.dtype)) * (
        log_probs - means[1].astype(log_probs.dtype)
    )


def _largest_fraction(scores: Array, fraction: float, where: Array | None) -> Bool[Array, "*B T"]:
    """The entries no smaller than the count-th largest: of equals, all or none.

    The count is that fraction of the tokens inside `where`, and at least 1.
    """
    tokens = masked_count(jnp.ones(scores.shape, bool) if where is None else where)
    count = jnp.maximum(jnp.floor(fraction * tokens.astype(jnp.float32)).astype(jnp.int32), 1)
    # What the count can be at most is known beforehand, and sorting the rest would be for nothing:
    # of 262,144 tokens the default fraction asks for 52.
    most = max(int(np.floor(np.float32(fraction) * np.float32(scores.size))), 1)
    largest, _ = jax.lax.top_k(scores.reshape(-1), min(most, scores.size))
    # XLA sorts everything after all where it sees that a single one of them is read.
    largest = jax.lax.optimization_barrier(largest)
    return scores >= largest[jnp.minimum(count, largest.size) - 1]
