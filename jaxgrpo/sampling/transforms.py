"""Truncated distributions, and drawing from one with a single uniform number a row."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.sampling.config import SamplingConfig

Rows = Float[Array, "B V"]


def _keep(rows: Rows, kept: Array) -> Rows:
    return jax.nn.log_softmax(jnp.where(kept, rows, -jnp.inf), axis=-1)


def top_k(rows: Rows, k: int) -> Rows:
    """The k most likely tokens, and those as likely as the k-th, renormalised.

    Args:
      rows: [B, V] log-probs.
      k: how many to keep.

    Example:
      >>> rows = top_k(jnp.log(jnp.array([[0.5, 0.3, 0.2]])), 2)
      >>> [f"{p:.3f}" for p in jnp.exp(rows)[0]]
      ['0.625', '0.375', '0.000']
    """
    threshold = jax.lax.top_k(rows, min(k, rows.shape[-1]))[0][:, -1:]
    return _keep(rows, rows >= threshold)


def top_p(rows: Rows, p: float) -> Rows:
    """The smallest set of most likely tokens with probability at least p, renormalised.

    The token that crosses p is in, so there is always one; and those as likely as it are.

    Args:
      rows: [B, V] log-probs.
      p: probability to keep, in (0, 1].

    Source: arXiv:1904.09751, section 3.1.
    """
    descending = -jnp.sort(-rows, axis=-1)
    probs = jnp.exp(descending)
    before = jnp.cumsum(probs, axis=-1) - probs
    last = jnp.sum(before < p, axis=-1, keepdims=True) - 1
    return _keep(rows, rows >= jnp.take_along_axis(descending, last, axis=-1))


def min_p(rows: Rows, p: float) -> Rows:
    """Tokens at least p times as likely as the most likely one, renormalised.

    Args:
      rows: [B, V] log-probs.
      p: share of the largest probability, in [0, 1].

    Source: arXiv:2407.01082, section 3.
    """
    peak = jnp.max(rows, axis=-1, keepdims=True)
    return _keep(rows, rows >= peak + jnp.log(p))


def transform(rows: Rows, config: SamplingConfig) -> Rows:
    """The rows that `config` samples from: top-k, then top-p, then min-p, where switched on."""
    if config.top_k > 0:
        rows = top_k(rows, config.top_k)
    if config.top_p < 1:
        rows = top_p(rows, config.top_p)
    if config.min_p > 0:
        rows = min_p(rows, config.min_p)
    return rows


def draw(rows: Rows, uniforms: Float[Array, " B"]) -> Int[Array, " B"]:
    """A token a row by inverting the cumulative distribution at one uniform number.

    One number a row, whatever the vocabulary, so a row's token depends on its own key alone.

    Args:
      rows: [B, V] log-probs; -inf never comes out.
      uniforms: [B] in [0, 1).

    Example:
      >>> draw(jnp.log(jnp.array([[0.25, 0.0, 0.75]] * 2)), jnp.array([0.2, 0.3]))
      Array([0, 2], dtype=int32)
    """
    probs = jnp.exp(rows)
    cumulative = jnp.cumsum(probs, axis=-1)
    # Scaled by the sum as it was rounded, so that a number near 1 still lands inside the row.
    above = cumulative > uniforms[:, None] * cumulative[:, -1:]
    # A parallel sum is rounded at each token by itself, so it can rise at a token of probability 0.
    possible = probs > 0
    first = jnp.argmax(above & possible, axis=-1)
    last = rows.shape[-1] - 1 - jnp.argmax(possible[:, ::-1], axis=-1)
    return jnp.where(jnp.any(above & possible, axis=-1), first, last).astype(jnp.int32)
