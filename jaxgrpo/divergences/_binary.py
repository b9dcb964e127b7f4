"""Divergences of the two-outcome policies "this token" and "any other": DPPO's binary KL and TV."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._numerics import exp_minus_1_minus, log_ratios, magnitude
from jaxgrpo.divergences._registry import DIVERGENCES


@DIVERGENCES.register(
    Card(
        formula="P log(P/Q) + (1 - P) log((1 - P)/(1 - Q))",
        source="arXiv:2602.04879, eq. 14",
        level="token",
        gradient="none",
        disagreements=(
            "The authors add 1e-8 inside the logarithms, TRL clamps probabilities at 1 - 1e-7; "
            "here 1 - P and 1 - Q are at least the rounding error of the dtype."
        ),
    )
)
def binary_kl(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""KL of the two-outcome policies "the sampled token" against "any other" at each token.

    A lower bound of KL(P || Q) that depends on the probabilities themselves, not on their ratio
    alone: a rare token may move by a large factor, a confident one may not.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs; never negative. Finite at P = 1 and at Q = 1: 1 - P
      and 1 - Q are taken to be at least the rounding error of the dtype.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for `other_log_probs` is (Q - P) / (1 - Q).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.binary_kl(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.143841], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 14.
    """
    log_ratio = log_ratios(sampler_log_probs, other_log_probs, where)
    sampler_log_probs = zero_where_masked(sampler_log_probs, where)
    other_log_probs = zero_where_masked(other_log_probs, where)
    return _kl(sampler_log_probs, other_log_probs, log_ratio)


@jax.custom_jvp
def _kl(log_p: Array, log_q: Array, log_ratio: Array) -> Array:
    prob, rest = jnp.exp(log_p), _rest(log_p)
    # A KL is the mean of kl3 over its outcomes, here two: no term is negative, nothing cancels.
    others = exp_minus_1_minus(_rest_log_ratio(log_p, log_q, log_ratio))
    return _times_exp_minus_1_minus(prob, log_q, log_ratio) + rest * others


@_kl.defjvp
def _kl_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """In closed form: autodiff of the two branches would keep fourteen arrays."""
    log_p, log_q, log_ratio = primals
    # The log-ratio is the difference of the other two, whose tangents are all that there is.
    tangent_p, tangent_q, _ = tangents
    moved = jnp.sign(log_ratio) * _gap(log_p, log_q, log_ratio)
    # Where 1 - Q is held at the rounding error, it has no derivative.
    held = log_q > -jnp.finfo(log_q.dtype).eps
    along_q = moved / jnp.where(held, 1, _rest(log_q))
    possible = jnp.isfinite(log_p)  # of a token of probability 0 the limit is 0
    shift = _rest_log_ratio(log_p, log_q, log_ratio) - jnp.where(possible, log_ratio, 0)
    along_p = jnp.exp(log_p) * shift
    return _kl(log_p, log_q, log_ratio), along_p * tangent_p + along_q * tangent_q


def _rest(log_prob: Array) -> Array:
    return jnp.maximum(-jnp.expm1(log_prob), jnp.finfo(log_prob.dtype).eps)


def _rest_log_ratio(log_p: Array, log_q: Array, log_ratio: Array) -> Array:
    """Log (1 - Q)/(1 - P)."""
    # It is log1p(-lost), lost = (Q - P)/(1 - P): exact for small moves, where the logarithm of a
    # quotient next to 1 is all rounding; for large ones that logarithm is safe.
    lost = jnp.sign(log_ratio) * _gap(log_p, log_q, log_ratio) / _rest(log_p)
    near = jnp.abs(lost) < 0.5
    return jnp.where(
        near,
        jnp.log1p(-jnp.where(near, lost, 0)),
        jnp.log(jnp.where(near, 1, _rest(log_q) / _rest(log_p))),
    )


@DIVERGENCES.register(
    Card(
        formula="|P - Q|",
        source="arXiv:2602.04879, eq. 13",
        level="token",
        gradient="none",
        defaults="DPPO bounds it by 0.15 or 0.2.",
    )
)
def binary_tv(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Total variation of the two-outcome policies "the sampled token" and "any other": |P - Q|.

    A lower bound of TV(P, Q), symmetric in its arguments.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], a probability in [0, 1], in the dtype of the inputs.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for `other_log_probs` is sign(Q - P) Q, and 0 at Q = P.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.binary_tv(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.25], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 13.
    """
    log_ratio = log_ratios(sampler_log_probs, other_log_probs, where)
    sampler_log_probs = zero_where_masked(sampler_log_probs, where)
    return _gap(sampler_log_probs, zero_where_masked(other_log_probs, where), log_ratio)


def _gap(sampler_log_probs: Array, other_log_probs: Array, log_ratio: Array) -> Array:
    """|P - Q|, from the larger one, so that a sampler's probability of 0 gives no 0 * inf."""
    larger = jnp.where(log_ratio > 0, other_log_probs, sampler_log_probs)
    return jnp.exp(larger) * -jnp.expm1(-magnitude(log_ratio))


def _times_exp_minus_1_minus(prob: Array, log_q: Array, log_ratio: Array) -> Array:
    """P (w - 1 - log w); for large w as Q - P (1 + log w), which is finite at P = 0."""
    far = log_ratio > 5
    near = prob * exp_minus_1_minus(jnp.where(far, 0, log_ratio))
    moved = jnp.where(far & jnp.isfinite(log_ratio), log_ratio, 0)
    return jnp.where(far, jnp.exp(jnp.where(far, log_q, 0)) - prob * (1 + moved), near)
