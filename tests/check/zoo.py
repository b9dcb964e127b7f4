"""Broken operators: each has one fault that people have shipped, and the words that name it."""

import jax
import jax.numpy as jnp

sg = jax.lax.stop_gradient


def ratio(log_probs, anchor_log_probs, where):
    """The ratio done right, so that each fault is the only one."""
    return jnp.exp(jnp.where(where, log_probs - anchor_log_probs, 0))


def masked(x, where):
    return jnp.where(where, x, 0)


def tokens(advantages, where):
    """Advantages done right: one a token, none outside the mask."""
    return masked(jnp.broadcast_to(advantages[:, None], where.shape), where)


# Losses ------------------------------------------------------------------------------------------


def cispo_live_weight(log_probs, anchor_log_probs, advantages, *, where=None):
    weight = jnp.minimum(ratio(log_probs, anchor_log_probs, where), 5)
    return masked(-weight * tokens(advantages, where) * masked(log_probs, where), where)


def tie_at_zero(log_probs, anchor_log_probs, advantages, *, where=None, delta: float = 0.0):
    w, a = ratio(log_probs, anchor_log_probs, where), tokens(advantages, where)
    return masked(-jnp.minimum(w * a, jnp.clip(w, 1 - delta, 1 + delta) * a), where)


def mask_after_exp(log_probs, anchor_log_probs, advantages, *, where=None):
    return masked(-jnp.exp(log_probs - anchor_log_probs) * advantages[:, None], where)


def mask_multiplies(log_probs, anchor_log_probs, advantages, *, where=None):
    mask = where.astype(log_probs.dtype)
    return -jnp.exp(log_probs - anchor_log_probs) * advantages[:, None] * mask


def mean_for_sum(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(-w * tokens(advantages, where) / log_probs.shape[1], where)


def mean_over_padding(log_probs, anchor_log_probs, advantages, *, where=None):
    shift = masked(log_probs - anchor_log_probs, where)
    row = jnp.exp(shift.mean(1, keepdims=True))  # over T, whatever the row's length
    return masked(-row * tokens(advantages, where), where)


def wrong_sign(log_probs, anchor_log_probs, advantages, *, where=None):
    return masked(ratio(log_probs, anchor_log_probs, where) * tokens(advantages, where), where)


def clamped_log_prob(log_probs, anchor_log_probs, advantages, *, where=None):
    return masked(-tokens(advantages, where) * jnp.clip(masked(log_probs, where), -3, 0), where)


def clamped_ratio(log_probs, anchor_log_probs, advantages, *, where=None):
    shift = jnp.clip(masked(log_probs - anchor_log_probs, where), -0.2, 0.2)
    return masked(-jnp.exp(shift) * tokens(advantages, where), where)


def shifted_anchor(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, jnp.roll(anchor_log_probs, 1, axis=1), where)
    return masked(-w * tokens(advantages, where), where)


def shifted_policy(log_probs, anchor_log_probs, advantages, *, where=None):
    return masked(-tokens(advantages, where) * masked(jnp.roll(log_probs, 1, axis=1), where), where)


def wrong_axis(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(-w * jnp.broadcast_to(advantages, w.shape), where)


def wrong_side_for_negative(log_probs, anchor_log_probs, advantages, *, where=None):
    w, a = ratio(log_probs, anchor_log_probs, where), tokens(advantages, where)
    return masked(-jnp.where(w > 1.2, 1.2, w) * a, where)


def largest_instead_of_smallest(log_probs, anchor_log_probs, advantages, *, where=None):
    w, a = ratio(log_probs, anchor_log_probs, where), tokens(advantages, where)
    return masked(-jnp.maximum(w * a, jnp.clip(w, 0.8, 1.2) * a), where)


def no_anchor(log_probs, anchor_log_probs, advantages, *, where=None):
    return masked(-jnp.exp(masked(log_probs, where)) * tokens(advantages, where), where)


def ratio_twice(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(-w * w * tokens(advantages, where), where)


def python_branch(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(-(w if (w < 10).all() else 1 + 0 * w) * tokens(advantages, where), where)


def mixed_rows(log_probs, anchor_log_probs, advantages, *, where=None):
    w, a = ratio(log_probs, anchor_log_probs, where), tokens(advantages, where)
    return masked(-w * a / sg(w.mean()), where)


def outside_the_mask(log_probs, anchor_log_probs, advantages, *, where=None):
    return 1 - ratio(log_probs, anchor_log_probs, where) * tokens(advantages, where)


def reduced(log_probs, anchor_log_probs, advantages, *, where=None):
    return -jnp.sum(ratio(log_probs, anchor_log_probs, where) * tokens(advantages, where))


def all_detached(log_probs, anchor_log_probs, advantages, *, where=None):
    return masked(-sg(ratio(log_probs, anchor_log_probs, where)) * tokens(advantages, where), where)


def narrow_dtype(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs.astype(jnp.float32), anchor_log_probs.astype(jnp.float32), where)
    return masked(-w * tokens(advantages.astype(jnp.float32), where), where)


@jax.custom_vjp
def _doubled(x):
    return x


_doubled.defvjp(lambda x: (x, None), lambda _, g: (2 * g,))


def wrong_derivative(log_probs, anchor_log_probs, advantages, *, where=None):
    shift = masked(log_probs - anchor_log_probs, where)
    return masked(-jnp.exp(_doubled(shift)) * tokens(advantages, where), where)


# Penalties and divergences -----------------------------------------------------------------------


def k1_as_loss(log_probs, reference_log_probs, *, where=None):
    return masked(log_probs - reference_log_probs, where)


def k3_as_reverse(log_probs, reference_log_probs, *, where=None):
    k = masked(log_probs - reference_log_probs, where)
    return masked(jnp.expm1(-k) + k, where)


def detached_correction(log_probs, reference_log_probs, *, where=None):
    k = masked(log_probs - reference_log_probs, where)
    return masked(sg(jnp.exp(0 * k)) * (jnp.expm1(-k) + k), where)


def away_from_the_reference(log_probs, reference_log_probs, *, where=None):
    return -(masked(log_probs - reference_log_probs, where) ** 2) / 2


def absolute(log_probs, reference_log_probs, *, where=None):
    return jnp.abs(masked(log_probs - reference_log_probs, where))


def doubled_square(log_probs, reference_log_probs, *, where=None):
    return masked(log_probs - reference_log_probs, where) ** 2


def inverse_kl3(sampler_log_probs, other_log_probs, *, where=None):
    shift = masked(sampler_log_probs - other_log_probs, where)
    return masked(jnp.expm1(shift) - shift, where)


def praise_alone(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(-w * jnp.maximum(tokens(advantages, where), 0), where)


_CALLS = []


def call_counter(log_probs, anchor_log_probs, advantages, *, where=None):
    _CALLS.append(None)
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(-w * tokens(advantages, where) * (1 + len(_CALLS) / 100), where)


def entropy_in_passing(log_probs, anchor_log_probs, advantages, *, where=None):
    w = ratio(log_probs, anchor_log_probs, where)
    return masked(0.1 * masked(log_probs, where) - w * tokens(advantages, where), where)


def nothing_returned(log_probs, anchor_log_probs, advantages, *, where=None):
    ratio(log_probs, anchor_log_probs, where)


def half_precision(log_probs, anchor_log_probs, advantages, *, where=None):
    shift = masked(log_probs - anchor_log_probs, where).astype(jnp.bfloat16)
    ratios = jnp.exp(shift).astype(log_probs.dtype)
    return masked(-ratios * tokens(advantages, where), where)


def negative_kl1(sampler_log_probs, other_log_probs, *, where=None):
    return masked(other_log_probs - sampler_log_probs, where)


def half_kl3(sampler_log_probs, other_log_probs, *, where=None):
    shift = masked(other_log_probs - sampler_log_probs, where)
    return masked(jnp.expm1(shift) - shift, where) / 6


def not_zero(sampler_log_probs, other_log_probs, *, where=None):
    return masked(jnp.exp(masked(other_log_probs - sampler_log_probs, where)), where)


def mask_multiplies_alone(sampler_log_probs, other_log_probs, *, where=None):
    return (other_log_probs - sampler_log_probs) * where


# Function, family, the property that must fail, and what its diagnosis must say.
ZOO = [
    (cispo_live_weight, "loss", "every probability", "not detached: sign flips below p = 0.37"),
    (tie_at_zero, "loss", "on-policy gradient is -A", "a tie of min and clip, as at delta = 0"),
    (mask_after_exp, "loss", "padding has no effect", "the mask comes after exp"),
    (mask_multiplies, "loss", "padding has no effect", "the mask multiplies"),
    (mean_for_sum, "loss", "on-policy gradient is -A", "a mean where a sum is wanted"),
    (mean_over_padding, "loss", "wider padding", "a mean over T counts masked tokens"),
    (wrong_sign, "loss", "on-policy gradient is -A", "wrong sign"),
    (clamped_log_prob, "loss", "every probability", "a clamp kills the gradient on-policy: none"),
    (clamped_ratio, "loss", "clip side", "a clamp kills the gradient"),
    (shifted_anchor, "loss", "what a value depends on", "a one-position shift"),
    (shifted_policy, "loss", "what a value depends on", "a one-position shift"),
    (wrong_axis, "loss", "other sizes", "broadcast against [B, T]"),
    (wrong_axis, "loss", "what a value depends on", "along the wrong axis"),
    (wrong_side_for_negative, "loss", "clip side", "the wrong side for negative advantages"),
    (largest_instead_of_smallest, "loss", "clip side", "for positive and negative advantages"),
    (no_anchor, "loss", "on-policy gradient is -A", "pi where the ratio pi / anchor is wanted"),
    (ratio_twice, "loss", "on-policy gradient is -A", "-A times 2"),
    (python_branch, "loss", "jit", "a Python branch"),
    (mixed_rows, "loss", "what a value depends on", "rows are mixed"),
    (outside_the_mask, "loss", "padding has no effect", "values outside `where` are not 0"),
    (reduced, "loss", "shape and dtype", "one value a token is wanted"),
    (all_detached, "loss", "on-policy gradient is -A", "everything is detached"),
    (narrow_dtype, "loss", "shape and dtype", "float32 came out where float64 went in"),
    (praise_alone, "loss", "on-policy gradient is -A", "no gradient at negative advantages"),
    (call_counter, "loss", "same every time", "keeps something from call to call"),
    (entropy_in_passing, "loss", "on-policy gradient is -A", "and 0.1 more at every token"),
    (entropy_in_passing, "loss", "A = 0", "something is added that no advantage multiplies"),
    (nothing_returned, "loss", "shape and dtype", "got NoneType"),
    (mask_multiplies_alone, "divergence", "padding has no effect", "the mask multiplies"),
    (half_precision, "loss", "precision kept", "rounded to bfloat16 inside"),
    (wrong_derivative, "loss", "gradient against differences", "central differences"),
    (k1_as_loss, "penalty", "expected gradient, one step", "zero: k1 used as a loss"),
    (k3_as_reverse, "penalty", "expected gradient, one step", "the forward KL"),
    (detached_correction, "penalty", "expected gradient, two steps", "the forward KL"),
    (away_from_the_reference, "penalty", "expected gradient, one step", "wrong sign"),
    (absolute, "penalty", "expected gradient, one step", "no known objective"),
    (doubled_square, "penalty", "expected gradient, one step", "2 times that of KL(policy"),
    (inverse_kl3, "divergence", "expected value", "the ratio is inverted"),
    (negative_kl1, "divergence", "expected value", "wrong sign"),
    (half_kl3, "divergence", "expected value", "a mean for a sum"),
    (not_zero, "divergence", "zero at equality", "from itself is not 0"),
]
