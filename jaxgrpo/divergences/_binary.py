"""Divergences of the two-outcome policies "this token" and "any other": DPPO's binary KL and TV."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._numerics import log_ratios, magnitude, near_zero
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
    return _kl_and_slopes(log_p, log_q, log_ratio)[0]


@_kl.defjvp
def _kl_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """In closed form: autodiff of the branches would keep fourteen arrays."""
    # The log-ratio is the difference of the other two, whose tangents are all that there is.
    tangent_p, tangent_q, _ = tangents
    value, along_p, along_q = _kl_and_slopes(*primals)
    return value, along_p * tangent_p + along_q * tangent_q


def _kl_and_slopes(log_p: Array, log_q: Array, log_ratio: Array) -> tuple[Array, Array, Array]:
    """The KL, and its derivatives for log P and log Q; with as few exponentials as there can be.

    A KL is the mean of kl3 over its outcomes, here two: P (w - 1 - log w) is (Q - P) - P log w, and
    the same for the rest. No term is negative, and by `near_zero` none cancels.
    """
    prob, rest, other_rest = jnp.exp(log_p), _rest(log_p), _rest(log_q)
    moved = jnp.sign(log_ratio) * _gap(log_p, log_q, log_ratio)  # Q - P
    # Of a token of probability 0 the limit of P log w is 0.
    log_ratio = jnp.where(jnp.isneginf(log_p), 0, log_ratio)
    small, series = near_zero(log_ratio)
    own = jnp.where(small & (prob > 0), prob * series, moved - prob * log_ratio)
    # log (1 - Q)/(1 - P) is log1p(-lost): exact for small moves, where the logarithm of a quotient
    # next to 1 is all rounding; for large ones that logarithm is safe.
    lost = moved / rest
    near = jnp.abs(lost) < 0.5
    far_log = jnp.log(jnp.where(near, 1, other_rest / rest))
    rest_log_ratio = jnp.where(near, jnp.log1p(-jnp.where(near, lost, 0)), far_log)
    small, series = near_zero(rest_log_ratio)
    others = jnp.where(small, rest * series, other_rest - rest - rest * rest_log_ratio)
    # Where 1 - Q is held at the rounding error, it has no derivative.
    held = log_q > -jnp.finfo(log_q.dtype).eps
    along_q = moved / jnp.where(held, 1, other_rest)
    along_p = prob * (rest_log_ratio - log_ratio)
    return own + others, along_p, along_q


def _rest(log_prob: Array) -> Array:
    return jnp.maximum(-jnp.expm1(log_prob), jnp.finfo(log_prob.dtype).eps)


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
