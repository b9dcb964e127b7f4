"""Exact penalties: of the whole distribution at each token, whichever token was sampled."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import full_kl
from jaxgrpo.losses._registry import ROW_PENALTIES

_EXACT = (
    "An estimator's expected gradient at each prefix, without its noise. No ratio of the policy to "
    "the sampler goes with it: nothing in it was sampled but the prefix."
)


@ROW_PENALTIES.register(
    Card(
        formula="sum_v P log(P/R), P the policy, R the reference",
        source="Kullback and Leibler 1951, doi:10.1214/aoms/1177729694; arXiv:2502.04778",
        level="token",
        gradient="reverse_kl",
        disagreements=_EXACT,
    )
)
def exact_reverse_kl(
    rows: Float[Array, "*B T V"],
    reference_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""KL(policy || reference) over the whole vocabulary at each token.

    Args:
      rows: [*B, T, V], nats. The policy's log-probs of every token of the vocabulary.
      reference_rows: [*B, T, V], nats. The reference's; carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs; to be added to a loss.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for the policy's logits is :math:`p_v (\log(p_v / r_v) - KL)`. That of the KL of
      whole sequences has one more term, for how the policy changes which prefixes are met.

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> reference = jnp.log(jnp.array([[0.25, 0.75]]))
      >>> kl = lambda logits: jg.losses.exact_reverse_kl(jax.nn.log_softmax(logits), reference)
      >>> kl(jnp.zeros((1, 2)))
      Array([0.143841], dtype=float32)
      >>> jax.grad(lambda logits: kl(logits).sum())(jnp.zeros((1, 2)))
      Array([[ 0.27465308, -0.27465308]], dtype=float32)
    """
    return _reverse(rows, jax.lax.stop_gradient(reference_rows), where)


@ROW_PENALTIES.register(
    Card(
        formula="sum_v R log(R/P), P the policy, R the reference",
        source="Kullback and Leibler 1951, doi:10.1214/aoms/1177729694",
        level="token",
        gradient="forward_kl",
        disagreements=_EXACT,
    )
)
def exact_forward_kl(
    rows: Float[Array, "*B T V"],
    reference_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""KL(reference || policy) over the whole vocabulary at each token.

    Args:
      rows: [*B, T, V], nats. The policy's log-probs of every token of the vocabulary.
      reference_rows: [*B, T, V], nats. The reference's; carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs; to be added to a loss.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for the policy's logits is :math:`p_v - r_v`.

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> reference = jnp.log(jnp.array([[0.25, 0.75]]))
      >>> kl = lambda logits: jg.losses.exact_forward_kl(jax.nn.log_softmax(logits), reference)
      >>> jax.grad(lambda logits: kl(logits).sum())(jnp.zeros((1, 2)))
      Array([[ 0.25, -0.25]], dtype=float32)
    """
    return _forward(rows, jax.lax.stop_gradient(reference_rows), where)


# Autodiff of the sums keeps about ten arrays of the vocabulary's size; these need one.


@jax.custom_jvp
def _reverse(rows: Array, reference_rows: Array, where: Array | None) -> Array:
    return full_kl(rows, reference_rows, where=where)


@_reverse.defjvp
def _reverse_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    rows, reference_rows, where = primals
    probs = jnp.exp(rows)
    slopes = jnp.where(probs > 0, probs * (rows - reference_rows), 0)
    return _reverse(*primals), _along(slopes, tangents[0], where)


@jax.custom_jvp
def _forward(rows: Array, reference_rows: Array, where: Array | None) -> Array:
    return full_kl(reference_rows, rows, where=where)


@_forward.defjvp
def _forward_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    rows, reference_rows, where = primals
    slopes = jnp.exp(rows) - jnp.exp(reference_rows)
    return _forward(*primals), _along(slopes, tangents[0], where)


def _along(slopes: Array, tangents: Any, where: Array | None) -> Array:
    if where is not None:
        slopes = jnp.where(where[..., None], slopes, 0)
    return jnp.sum(slopes * tangents, axis=-1)
