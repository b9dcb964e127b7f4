"""Divergences on the sampler's K likeliest tokens, the sampled one, and all others as one."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._numerics import exp_minus_1_minus, log_complement, magnitude
from jaxgrpo.divergences._registry import TOP_DIVERGENCES
from jaxgrpo.divergences._row_inputs import masked_rows, summed

_SLOTS = (
    "The paper adds a slot for a sampled token outside the top K; Stable-RL and TRL let it take "
    "the K-th. Both fit: the token is taken to be among the K if it is likelier than the least of "
    "them, or the same in P and Q as one of them. Where the rest has no probability, it has the "
    "rounding error of the dtype."
)


@TOP_DIVERGENCES.register(
    Card(
        formula="sum over slots of |P - Q| / 2; slots: the top K, the sampled token, the rest",
        source="DPPO, arXiv:2602.04879, eq. 15",
        level="token",
        gradient="none",
        defaults="K = 20, the most that vLLM returns",
        disagreements=_SLOTS,
    )
)
def topk_tv(
    sampler_top_log_probs: Float[Array, "*B T K"],
    other_top_log_probs: Float[Array, "*B T K"],
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Total variation on the sampler's top K, the sampled token and the rest as one token.

    At least the binary and at most the full one.

    Args:
      sampler_top_log_probs: [*B, T, K], nats. P at its K likeliest tokens.
      other_top_log_probs: [*B, T, K], nats. Q at the same tokens.
      sampler_log_probs: [*B, T], nats. P at the sampled token.
      other_log_probs: [*B, T], nats. Q at the sampled token.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in [0, 1], in the dtype of the inputs.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_top_log_probs` is sign(Q - P) Q / 2 minus the rest's sign times Q / 2.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.2]])), jnp.log(jnp.array([[0.25, 0.3]]))
      >>> own = jnp.log(jnp.array([0.1]))
      >>> jg.divergences.topk_tv(p, q, own, own)
      Array([0.25], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 15.
    """
    inputs = (sampler_top_log_probs, other_top_log_probs, sampler_log_probs, other_log_probs)
    moves = [jnp.exp(log_q) - jnp.exp(log_p) for log_p, log_q in _slots(*inputs, where)]
    rest = moves[1] + jnp.sum(moves[0], axis=-1, keepdims=True)
    return _total([magnitude(move) / 2 for move in (*moves, rest)], where)


@TOP_DIVERGENCES.register(
    Card(
        formula="sum over slots of P log(P/Q); slots: the top K, the sampled token, the rest",
        source="DPPO, arXiv:2602.04879, eq. 16",
        level="token",
        gradient="none",
        defaults="K = 20, the most that vLLM returns",
        disagreements=_SLOTS,
    )
)
def topk_kl(
    sampler_top_log_probs: Float[Array, "*B T K"],
    other_top_log_probs: Float[Array, "*B T K"],
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """KL(P || Q) on the sampler's top K, the sampled token and the rest as one token.

    At least the binary and at most the full one.

    Args:
      sampler_top_log_probs: [*B, T, K], nats. P at its K likeliest tokens.
      other_top_log_probs: [*B, T, K], nats. Q at the same tokens.
      sampler_log_probs: [*B, T], nats. P at the sampled token.
      other_log_probs: [*B, T], nats. Q at the sampled token.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs; never negative.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit. There is no broadcasting.

    Note:
      The gradient for `other_top_log_probs` is Q (rest of P / rest of Q) - P.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> p, q = jnp.log(jnp.array([[0.5, 0.25]])), jnp.log(jnp.array([[0.25, 0.5]]))
      >>> own = jnp.log(jnp.array([0.125]))
      >>> jg.divergences.topk_kl(p, q, own, own)
      Array([0.173287], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 16.
    """
    inputs = (sampler_top_log_probs, other_top_log_probs, sampler_log_probs, other_log_probs)
    slots = _slots(*inputs, where)
    rests = [_log_rest(of_one) for of_one in zip(*slots, strict=True)]
    return _total([_kl_terms(*pair) for pair in (*slots, rests)], where)


def _kl_terms(log_p: Array, log_q: Array) -> Array:
    """The KL is their sum over slots, a mean of kl3: no term is negative, nothing cancels."""
    p = jnp.exp(log_p)
    log_ratio = jnp.where(p > 0, log_q - jnp.where(p > 0, log_p, 0), 0)
    far = log_ratio > 1
    near = p * exp_minus_1_minus(jnp.where(far, 0, log_ratio))
    beyond = jnp.exp(log_q) - p * (1 + jnp.where(far, log_ratio, 0))
    return jnp.where(p > 0, jnp.where(far, beyond, near), jnp.exp(log_q))


def _total(parts: Sequence[Array], where: Array | None) -> Array:
    # Kept apart, so that nothing as large as the rows is copied.
    return sum((summed(part, where) for part in parts[1:]), summed(parts[0], where))


def _slots(
    sampler_top: Array, other_top: Array, sampler: Array, other: Array, where: Array | None
) -> list[tuple[Array, Array]]:
    """P and Q at the top K, and [*B, T, 1] at the sampled token, -inf if it is among them."""
    checks.per_token(sampler_top_log_probs=sampler_top, other_top_log_probs=other_top)
    checks.per_token(sampler_log_probs=sampler, other_log_probs=other, where=where)
    checks.shape((*sampler.shape, None), sampler_top_log_probs=sampler_top)
    if sampler_top.dtype != sampler.dtype:
        raise TypeError(
            f"dtypes must be equal, got sampler_top_log_probs {sampler_top.dtype}, "
            f"sampler_log_probs {sampler.dtype}"
        )
    sampler_top, other_top = masked_rows(sampler_top, where), masked_rows(other_top, where)
    sampler, other = zero_where_masked(sampler, where), zero_where_masked(other, where)
    # As likely as the least of the K, it is that one or its equal beyond them: Q may tell.
    twin = (sampler_top == sampler[..., None]) & (other_top == other[..., None])
    among = (sampler > jnp.min(sampler_top, axis=-1)) | jnp.any(twin, axis=-1)
    own = [jnp.where(among, -jnp.inf, x)[..., None] for x in (sampler, other)]
    return [(sampler_top, other_top), (own[0], own[1])]


def _log_rest(log_slots: Sequence[Array]) -> Array:
    """[*B, T, 1]: log of the probability outside the slots."""
    dtype = log_slots[0].dtype
    wide = jnp.promote_types(dtype, jnp.float32)
    total = sum(jnp.sum(jnp.exp(x), axis=-1, keepdims=True, dtype=wide) for x in log_slots)
    # A total of more than 1, by rounding, leaves nothing.
    total = jnp.maximum(jnp.asarray(total), jnp.finfo(wide).tiny)
    return log_complement(jnp.log(total)).astype(dtype)
