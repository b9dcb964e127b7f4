"""Tokens and sequences left out for how far the policy is from their sampler: 1 kept, 0 not."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_mean, masked_sum, spread_over_tokens, zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.ratios._log_ratios import token_log_ratios
from jaxgrpo.ratios._registry import WEIGHTS


@WEIGHTS.register(
    Card(
        formula="1 if the k1, k2 or k3 of rho (token, or its sum, mean or largest) <= threshold",
        source="verl rollout_rs (token_k1 ... seq_max_k3); TRM, arXiv:2512.23075, is level max",
        level="sequence",
        gradient="none",
        defaults="k3, mean, 0.01: verl's docs give 0.001 to 0.01",
        disagreements=(
            "TRM's second bound, on the mean, is another of these weights; slime's veto is level "
            "max of k1. "
            "k1 is |log rho| here: verl tests -log rho against two bounds, which is the inverse of "
            "the interval meant. verl takes rejected tokens out of the denominator: counted_tokens."
        ),
    )
)
def rejection_mask(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    estimator: Literal["k1", "k2", "k3"] = "k3",
    level: Literal["token", "sum", "mean", "max"] = "mean",
    threshold: float = 0.01,
) -> Float[Array, "*B T"]:
    """Rejection by a KL estimate of sampler to trainer, of tokens or of whole sequences.

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens to judge; elsewhere the weight is 0.
      estimator: "k1" |log rho|, "k2" (log rho)^2 / 2, "k3" rho - 1 - log rho.
      level: Judge each "token", or the sequence by its "sum", "mean" or "max". Of k1, the sum and
        the mean are taken before the absolute value.
      threshold: Largest value that is kept, in nats.

    Returns:
      [*B, T], in the dtype of the inputs: 1 or 0. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, or `threshold` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> far, near = jnp.array([-1.0, -1.0]), jnp.array([-1.0, -3.0])
      >>> jg.ratios.rejection_mask(far, near, level="token")
      Array([1., 0.], dtype=float32)
    """
    checks.static_number(minimum=0, threshold=threshold)
    log_ratios = jax.lax.stop_gradient(
        token_log_ratios(log_probs, behaviour_log_probs, where=where)
    )
    if estimator == "k1":
        values = log_ratios
    elif estimator == "k2":
        values = log_ratios * log_ratios / 2
    else:
        values = jnp.expm1(log_ratios) - log_ratios
    if level in ("sum", "mean"):
        values = (masked_sum if level == "sum" else masked_mean)(values, where, -1)[..., None]
    values = jnp.abs(values)
    if level == "max":
        values = jnp.max(values, axis=-1, keepdims=True)
    kept = jnp.broadcast_to(values <= threshold, log_ratios.shape)
    return zero_where_masked(kept.astype(log_ratios.dtype), where)


@WEIGHTS.register(
    Card(
        formula="0 if A < 0 and mean_t log(behaviour / policy) > delta, else 1",
        source="OPSM: DeepSeek-V3.2, arXiv:2512.02556; TRL, slime, ms-swift",
        level="sequence",
        gradient="none",
        defaults="delta 0.5",
        disagreements="Against the sampler, where its log-probs are known (TRL #4857 did not).",
        needs=("advantages",),
    )
)
def off_policy_sequence_mask(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    advantages: Float[Array, "*B"],
    delta: float = 0.5,
) -> Float[Array, "*B T"]:
    """0 at sequences of negative advantage that the policy has left behind, 1 at all others.

    Args:
      log_probs: [*B, T], nats. The tokens under the policy being trained.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens of the sequence; elsewhere the weight is 0.
      advantages: [*B], in the dtype of `log_probs`.
      delta: Largest mean log-ratio of sampler to policy, in nats.

    Returns:
      [*B, T], in the dtype of the inputs: 1 or 0. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, or `delta` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> policy, sampler = jnp.array([[-2.0], [-2.0]]), jnp.array([[-1.0], [-1.0]])
      >>> jg.ratios.off_policy_sequence_mask(policy, sampler, advantages=jnp.array([1.0, -1.0]))
      Array([[1.],
             [0.]], dtype=float32)

    Source:
      arXiv:2512.02556.
    """
    checks.static_number(minimum=0, delta=delta)
    checks.shape(log_probs.shape[:-1], advantages=advantages)
    log_ratios = jax.lax.stop_gradient(
        token_log_ratios(log_probs, behaviour_log_probs, where=where)
    )
    left = masked_mean(-log_ratios, where, -1) > delta
    negative = spread_over_tokens(advantages, log_probs) < 0
    kept = ~(jnp.broadcast_to(left[..., None], negative.shape) & negative)
    return zero_where_masked(kept.astype(log_ratios.dtype), where)


@WEIGHTS.register(
    Card(
        formula="0 if mean_t |rho - 1| > delta and A log rho > 0, else 1",
        source="VACO, arXiv:2603.01365; open-instruct",
        level="sequence",
        gradient="none",
        defaults="delta 0.2, ours",
        needs=("advantages",),
    )
)
def vaco_mask(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    advantages: Float[Array, "*B"],
    delta: float = 0.2,
) -> Float[Array, "*B T"]:
    """0 at the outward-moving tokens of sequences that are too far from their sampler.

    Args:
      log_probs: [*B, T], nats. The tokens under the policy being trained.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens of the sequence; elsewhere the weight is 0.
      advantages: [*B], in the dtype of `log_probs`.
      delta: Largest mean |ratio - 1| of a sequence, twice an estimate of total variation.

    Returns:
      [*B, T], in the dtype of the inputs: 1 or 0. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, or `delta` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> policy, sampler = jnp.array([[-1.0, -3.0]]), jnp.array([[-2.0, -2.0]])
      >>> jg.ratios.vaco_mask(policy, sampler, advantages=jnp.array([1.0]))
      Array([[0., 1.]], dtype=float32)

    Source:
      arXiv:2603.01365.
    """
    checks.static_number(minimum=0, delta=delta)
    checks.shape(log_probs.shape[:-1], advantages=advantages)
    log_ratios = jax.lax.stop_gradient(
        token_log_ratios(log_probs, behaviour_log_probs, where=where)
    )
    far = masked_mean(jnp.abs(jnp.expm1(log_ratios)), where, -1) > delta
    spread = spread_over_tokens(advantages, log_probs)
    outward = (spread > 0) & (log_ratios > 0) | (spread < 0) & (log_ratios < 0)
    kept = ~(jnp.broadcast_to(far[..., None], outward.shape) & outward)
    return zero_where_masked(kept.astype(log_ratios.dtype), where)


@WEIGHTS.register(
    Card(
        formula="0 at the largest (log rho)^2, so that the mean of the others <= threshold",
        source="M2PO, arXiv:2510.01161; AReaL",
        level="batch",
        gradient="none",
        defaults="threshold 0.04",
        disagreements="All tokens are ranked here; the denominator keeps the dropped ones.",
    )
)
def second_moment_mask(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    threshold: float = 0.04,
) -> Float[Array, "*B T"]:
    """M2PO's mask: drop tokens by squared log-ratio until the second moment of the rest is small.

    All rows of the optimiser step are to be in one call.

    Args:
      log_probs: [*B, T], nats. The tokens under the policy being trained.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens to judge; elsewhere the weight is 0.
      threshold: Largest mean squared log-ratio of the tokens that are kept.

    Returns:
      [*B, T], in the dtype of the inputs: 1 or 0. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, or `threshold` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> policy, sampler = jnp.array([-1.0, -1.1, -3.0]), jnp.array([-1.0, -1.0, -1.0])
      >>> jg.ratios.second_moment_mask(policy, sampler)
      Array([1., 1., 0.], dtype=float32)

    Source:
      arXiv:2510.01161.
    """
    checks.static_number(minimum=0, threshold=threshold)
    log_ratios = jax.lax.stop_gradient(
        token_log_ratios(log_probs, behaviour_log_probs, where=where)
    )
    squares = log_ratios * log_ratios
    judged = squares.astype(jnp.promote_types(squares.dtype, jnp.float32))
    if where is not None:
        judged = jnp.where(where, judged, jnp.inf)
    ordered = jnp.sort(judged.reshape(-1))
    counts = jnp.arange(1, ordered.size + 1, dtype=ordered.dtype)
    # Of ascending values the running means ascend too. Equals of the first one dropped go with it,
    # so that the choice does not depend on the order of rows.
    fits = jnp.cumsum(ordered) / counts <= threshold
    first = jnp.min(jnp.where(fits, jnp.inf, ordered))
    return zero_where_masked((judged < first).astype(log_ratios.dtype), where)
