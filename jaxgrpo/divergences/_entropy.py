"""Entropies of whole rows, their ratio, and Renyi's divergence."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._registry import ROW_DIVERGENCES
from jaxgrpo.divergences._row_inputs import masked_rows, row_inputs, summed
from jaxgrpo.divergences._rows import full_kl

_EPS = 1e-8  # of ERC's released code: two entropies of 0 have the ratio 1


@ROW_DIVERGENCES.register(
    Card(
        formula="log(sum_v P^alpha Q^(1 - alpha)) / (alpha - 1); KL(P || Q) at alpha = 1",
        source="Renyi 1961; arXiv:1206.2459, eq. 1",
        level="token",
        gradient="none",
        defaults="alpha 0.5, the symmetric one (Bhattacharyya)",
    )
)
def renyi(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    alpha: float = 0.5,
) -> Float[Array, "*B T"]:
    """Renyi divergence of order alpha of P and Q over the whole vocabulary at each token.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      alpha: The order, more than 0 and finite.

    Returns:
      [*B, T], nats, in the dtype of the inputs. It grows with alpha; near equality its rounding
      error is that of the dtype over |alpha - 1|.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_rows` is minus the row in proportion to P^alpha Q^(1 - alpha).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.renyi(p, q, alpha=2.0)
      Array([0.287682], dtype=float32)

    Source:
      arXiv:1206.2459, eq. 1.
    """
    checks.static_number(above=0, alpha=alpha)
    if alpha == float("inf"):
        raise ValueError("alpha must be finite, got inf")
    if alpha == 1:
        return full_kl(sampler_rows, other_rows, where=where)
    log_p, log_q = row_inputs(sampler_rows, other_rows, where)
    live = jnp.isfinite(log_p)
    terms = alpha * log_p + (1 - alpha) * jnp.where(live, log_q, 0)
    total = jax.nn.logsumexp(jnp.where(live, terms, -jnp.inf), axis=-1)
    return zero_where_masked(total / (alpha - 1), where)


def entropy(
    rows: Float[Array, "*B T V"], *, where: Bool[Array, "*B T"] | None = None
) -> Float[Array, "*B T"]:
    """Entropy of the distribution at each token.

    Args:
      rows: [*B, T, V], nats. Log-probabilities over the vocabulary; an entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0.

    Returns:
      [*B, T], nats, in the dtype of the input.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for the row is -P (log P + 1); for its logits, -P (log P + H).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.entropy(jnp.log(jnp.array([[0.5, 0.5]])))
      Array([0.693147], dtype=float32)
    """
    checks.floating(rows=rows)
    rows = masked_rows(rows, where)
    probs = jnp.exp(rows)
    return summed(-probs * jnp.where(probs > 0, rows, 0), where)


@ROW_DIVERGENCES.register(
    Card(
        formula="(H(Q) + 1e-8) / (H(P) + 1e-8)",
        source="ERC, arXiv:2512.05591",
        exceptions={"zero at equality": "a ratio: 1 at equality"},
        level="token",
        gradient="none",
        disagreements="Not a divergence: 1 at equality, and elsewhere too. The eps is the code's.",
    )
)
def entropy_ratio(
    sampler_rows: Float[Array, "*B T V"],
    other_rows: Float[Array, "*B T V"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Entropy of Q over that of P at each token: ERC's measure, with the anchor's rows first.

    Args:
      sampler_rows: [*B, T, V], nats. The log-probabilities of P over the vocabulary at each token.
      other_rows: [*B, T, V], nats. Those of Q. An entry may be -inf.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in the dtype of the inputs; 0 outside `where`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      Differentiable, though ERC itself uses it for a mask only.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.5]])), jnp.log(jnp.array([[0.25, 0.75]]))
      >>> jg.divergences.entropy_ratio(p, q)
      Array([0.811278], dtype=float32)

    Source:
      arXiv:2512.05591.
    """
    row_inputs(sampler_rows, other_rows, where)
    before, now = entropy(sampler_rows, where=where), entropy(other_rows, where=where)
    return zero_where_masked((now + _EPS) / (before + _EPS), where)
