"""What the losses share: checked inputs, and surrogates whose masks and weights are explicit."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import spread_over_tokens, zero_where_masked
from jaxgrpo.ratios import token_log_ratios


def surrogate_inputs(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B T"] | Float[Array, "*B"],
    where: Bool[Array, "*B T"] | None,
) -> tuple[Float[Array, "*B T"], Float[Array, "*B T"]]:
    """Log-ratios (live) and advantages (detached), [*B, T] and 0 outside `where`."""
    checks.per_token(log_probs=log_probs, anchor_log_probs=anchor_log_probs, where=where)
    advantages = jax.lax.stop_gradient(spread_over_tokens(advantages, log_probs))
    log_ratios = token_log_ratios(log_probs, anchor_log_probs, where=where)
    return log_ratios, zero_where_masked(advantages, where)


def masked_surrogate(
    log_ratios: Float[Array, "*B T"],
    advantages: Float[Array, "*B T"],
    *,
    keep: Bool[Array, "*B T"],
    dropped_ratios: Float[Array, "*B T"] | float,
    where: Bool[Array, "*B T"] | None,
) -> Float[Array, "*B T"]:
    """-w A on the kept tokens, with gradient -w A; the constant -dropped_ratio A on the others."""
    # At A = 0 nothing is to be learnt, but an overflowed ratio would make it 0 * inf. Dropped
    # tokens leave the exponential too: its derivative would be multiplied by 0, again 0 * inf.
    live = keep & (advantages != 0)
    ratios = jnp.exp(jnp.where(live, log_ratios, 0))
    dropped_ratios = jnp.asarray(dropped_ratios, advantages.dtype)
    return zero_where_masked(-jnp.where(live, ratios, dropped_ratios) * advantages, where)


def weighted_log_probs(
    log_probs: Float[Array, "*B T"],
    weights: Float[Array, "*B T"] | float,
    advantages: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None,
) -> Float[Array, "*B T"]:
    """-w A log pi with detached weights: the gradient is -w A."""
    weights = jax.lax.stop_gradient(jnp.asarray(weights, log_probs.dtype))
    # A log-prob of -inf, or an infinite weight, at A = 0 would be nan.
    live = (advantages != 0) & (weights != 0)
    log_probs, weights = jnp.where(live, log_probs, 0), jnp.where(live, weights, 0)
    return zero_where_masked(-weights * advantages * log_probs, where)


def weighted_steps(
    log_probs: Float[Array, "*B T"],
    weights: Float[Array, "*B T"] | float,
    advantages: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None,
) -> Float[Array, "*B T"]:
    """-w A exp(log pi - sg(log pi)) with detached weights: value and gradient are both -w A."""
    weights = jax.lax.stop_gradient(jnp.asarray(weights, log_probs.dtype))
    live = advantages != 0
    steps = jnp.where(
        live & jnp.isfinite(log_probs), log_probs - jax.lax.stop_gradient(log_probs), 0
    )
    weights = jnp.where(live, weights, 0)
    return zero_where_masked(-weights * advantages * jnp.exp(steps), where)


def spread_rows(rows: Float[Array, "*B"], like: Float[Array, "*B T"]) -> Float[Array, "*B T"]:
    """One number a sequence as one a token, in the dtype of the tokens."""
    return jnp.broadcast_to(rows[..., None].astype(like.dtype), like.shape)
