"""Exact penalties: of the whole distribution at each token, whichever token was sampled."""

import jax
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
    return full_kl(rows, jax.lax.stop_gradient(reference_rows), where=where)


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
    return full_kl(jax.lax.stop_gradient(reference_rows), rows, where=where)
