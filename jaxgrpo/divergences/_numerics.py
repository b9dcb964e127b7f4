"""The functions that the estimators stand on, accurate where the obvious form cancels."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked

# 2 / (k + 2)! for k = 0 ... 9, so that exp(x) - 1 - x = x^2 / 2 * (c0 + c1 x + c2 x^2 + ...).
_SERIES = (
    1.0,
    1 / 3,
    1 / 12,
    1 / 60,
    1 / 360,
    1 / 2520,
    1 / 20160,
    1 / 181440,
    1 / 1814400,
    1 / 19958400,
)


def near_zero(x: Float[Array, "..."]) -> tuple[Bool[Array, "..."], Float[Array, "..."]]:
    """Where exp(x) - 1 - x is better summed than subtracted, and its sum there."""
    # expm1(x) - x loses 2 / |x| of its digits. The series is cut where ten terms still suffice.
    radius = 0.5 if jnp.finfo(x.dtype).eps > 1e-10 else 0.15
    small = jnp.abs(x) < radius
    near = jnp.where(small, x, 0)
    return small, near * near / 2 * jnp.polyval(jnp.array(_SERIES[::-1], x.dtype), near)


@jax.custom_jvp
def exp_minus_1_minus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """exp(x) - 1 - x to a few units in the last place, its derivative expm1(x) too; inf at +inf."""
    small, series = near_zero(x)
    # At +inf the difference would be inf - inf.
    return jnp.where(small, series, jnp.expm1(x) - jnp.minimum(x, jnp.finfo(x.dtype).max))


@exp_minus_1_minus.defjvp
def _exp_minus_1_minus_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    return exp_minus_1_minus(x), jnp.expm1(x) * tangent


def log_complement(log_prob: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(1 - p) from log p, where 1 - p is taken to be at least the rounding error of p."""
    # A float32 log-prob within 1e-7 of 0 says no more than that: p = 1 would give -inf.
    log_prob = jnp.minimum(log_prob, -jnp.finfo(log_prob.dtype).eps)
    near_one = log_prob > -0.6931472
    by_expm1 = jnp.log(-jnp.expm1(jnp.where(near_one, log_prob, -1)))
    by_log1p = jnp.log1p(-jnp.exp(jnp.where(near_one, -1, log_prob)))
    return jnp.where(near_one, by_expm1, by_log1p)


def magnitude(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The absolute value, with derivative 0 at 0; that of `jnp.abs` is 1 there."""
    return jnp.sign(x) * x


def log_ratios(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    where: Bool[Array, "*B T"] | None,
) -> Float[Array, "*B T"]:
    """The checked inputs of an estimator as log Q/P at each token, 0 outside `where`."""
    checks.per_token(
        sampler_log_probs=sampler_log_probs, other_log_probs=other_log_probs, where=where
    )
    # Before any exponential, not after it: 0 * inf is nan, in the backward pass too.
    return zero_where_masked(other_log_probs - sampler_log_probs, where)
