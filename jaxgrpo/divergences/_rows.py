"""Divergences of whole distributions: one row over the vocabulary of P and of Q at each token.

They are exact where the estimators are noisy. `full_kl(policy_rows, reference_rows)` is the
Rao-Blackwellised KL of a token: for the policy's logits its gradient is p (log p/q - KL), and with
the arguments swapped it is p - q.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._numerics import exp_minus_1_minus, magnitude
from jaxgrpo.divergences._registry import ROW_DIVERGENCES
from jaxgrpo.divergences._row_inputs import row_inputs, summed

_LOG_2 = 0.6931471805599453


@ROW_DIVERGENCES.register(
    Card(
        formula="sum_v P log(P/Q)",
        source="Kullback and Leibler 1951, doi:10.1214/aoms/1177729694; arXiv:2602.04879",
        level="token",
        gradient="none",
        disagreements=(
            "Summed as P (w - 1 - log w), which never cancels and is the same for rows that sum to "
            "1. Several stacks name it in a config; none of the RL losses read had it."
        ),
    )
)
def full_kl(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """KL(P || Q) over the whole vocabulary at each token.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs; never negative. inf where Q is 0 and P is not.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_rows` is Q - P, for `sampler_rows` P log(P/Q).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.full_kl(p, q)
      Array([0.143841], dtype=float32)

    Source:
      arXiv:2602.04879, section 3.
    """
    log_p, log_q = row_inputs(sampler_rows, other_rows, where)
    return summed(_kl_terms(log_p, log_q), where)


@ROW_DIVERGENCES.register(
    Card(
        formula="sum_v |P - Q| / 2",
        source="arXiv:2602.04879, section 3",
        level="token",
        gradient="none",
    )
)
def full_tv(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Total variation of P and Q over the whole vocabulary at each token.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in [0, 1], in the dtype of the inputs. Symmetric.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_rows` is sign(Q - P) Q / 2, and 0 where they are equal.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.full_tv(p, q)
      Array([0.25], dtype=float32)

    Source:
      arXiv:2602.04879, section 3.
    """
    log_p, log_q = row_inputs(sampler_rows, other_rows, where)
    return summed(magnitude(jnp.exp(log_q) - jnp.exp(log_p)) / 2, where)


@ROW_DIVERGENCES.register(
    Card(
        formula="KL(P || M) / 2 + KL(Q || M) / 2, M = (P + Q) / 2",
        source="Lin 1991, doi:10.1109/18.61115",
        level="token",
        gradient="none",
    )
)
def full_js(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Jensen-Shannon divergence of P and Q over the whole vocabulary at each token.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in [0, log 2], in the dtype of the inputs. Symmetric, and always finite.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_rows` is Q log(Q/M) / 2.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.full_js(p, q)
      Array([0.033822], dtype=float32)

    Source:
      Lin 1991, doi:10.1109/18.61115.
    """
    log_p, log_q = row_inputs(sampler_rows, other_rows, where)
    return summed(_js_terms(log_p, log_q), where)


@jax.checkpoint  # what autodiff would keep is twelve times the rows
def _js_terms(log_p: Array, log_q: Array) -> Array:
    p, q = jnp.exp(log_p), jnp.exp(log_q)
    middle = (p + q) / 2
    both = jnp.isfinite(log_p) & jnp.isfinite(log_q)
    log_ratio = jnp.where(both, log_q - log_p, 0)
    up, down = _log_half(log_ratio), _log_half(-log_ratio)
    # Where one is 0 the other is twice the middle.
    terms = _terms(p, middle, jnp.where(both, up, -_LOG_2)) + _terms(
        q, middle, jnp.where(both, down, -_LOG_2)
    )
    return terms / 2


@ROW_DIVERGENCES.register(
    Card(
        formula="sum_v (sqrt P - sqrt Q)^2",
        source="Hellinger 1909, doi:10.1515/crll.1909.136.210",
        level="token",
        gradient="none",
        disagreements="Squared and without a factor 1/2, so that `hellinger` estimates it.",
    )
)
def full_hellinger(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Squared Hellinger distance of P and Q over the whole vocabulary at each token.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in [0, 2], in the dtype of the inputs. Symmetric.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_rows` is Q - sqrt(P Q).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.full_hellinger(p, q)
      Array([0.068148], dtype=float32)
    """
    log_p, log_q = row_inputs(sampler_rows, other_rows, where)
    difference = jnp.exp(log_p / 2) - jnp.exp(log_q / 2)
    return summed(difference * difference, where)


@ROW_DIVERGENCES.register(
    Card(
        formula="sum_v (P - Q)^2 / P",
        source="Pearson 1900, doi:10.1080/14786440009463897",
        level="token",
        gradient="none",
        disagreements="P is below, so that `chi2` estimates it on tokens that P sampled.",
    )
)
def full_chi2(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Chi-squared divergence of P and Q over the whole vocabulary at each token.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in the dtype of the inputs. inf where P is 0 and Q is not.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_rows` is 2 (Q - P) Q / P.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.full_chi2(p, q)
      Array([0.25], dtype=float32)
    """
    log_p, log_q = row_inputs(sampler_rows, other_rows, where)
    p, q = jnp.exp(log_p), jnp.exp(log_q)
    log_ratio = jnp.where(p > 0, log_q - jnp.where(p > 0, log_p, 0), 0)
    far = log_ratio > 1
    change = jnp.expm1(jnp.where(far, 0, log_ratio))
    # P (w - 1)^2 would be 0 * inf where Q is much larger; its square alone is below the root.
    root = jnp.exp(jnp.where(far, log_q - log_p / 2, 0))
    terms = jnp.where(far, root * root - 2 * q + p, p * change * change)
    return summed(jnp.where(p > 0, terms, jnp.where(q > 0, jnp.inf, 0)), where)


def _kl_terms(log_p: Array, log_q: Array) -> Array:
    """P (w - 1 - log w) for each entry: no term is negative, nothing cancels in the sum."""
    p = jnp.exp(log_p)
    log_ratio = jnp.where(p > 0, log_q - jnp.where(p > 0, log_p, 0), 0)
    return _terms(p, jnp.exp(log_q), log_ratio)


def _terms(p: Array, q: Array, log_ratio: Array) -> Array:
    far = log_ratio > 1
    near = p * exp_minus_1_minus(jnp.where(far, 0, log_ratio))
    # w alone may overflow where P w = Q does not.
    beyond = q - p * (1 + jnp.where(far, log_ratio, 0))
    # An infinite log-ratio at P = 0 costs nothing.
    return jnp.where(p > 0, jnp.where(far, beyond, near), q)


def _log_half(x: Array) -> Array:
    """log((1 + exp(x)) / 2), accurate near 0."""
    near = jnp.abs(x) < 1
    close = jnp.log1p(jnp.expm1(jnp.where(near, x, 0)) / 2)
    return jnp.where(near, close, jnp.logaddexp(jnp.where(near, 0, x), 0) - _LOG_2)
