"""What the trainer asks of every token, chunk by chunk: whole-batch logits never exist."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.divergences import full_kl
from jaxgrpo.models.log_probs import row_log_probs

RowPenalty = Callable[[Float[Array, "B T V"], Float[Array, "B T V"]], Float[Array, "B T"]]
"""A value a token of the policy's and the reference's log-probs over the whole vocabulary."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TokenScores:
    """What one pass over hidden states says of each token; nats, float32 at least."""

    log_probs: Float[Array, "B T"]
    """Of the token itself."""
    entropies: Float[Array, "B T"]
    """Of the distribution that the token came from."""
    top_log_probs: Float[Array, "B T K"] | None = None
    """Of the ids asked for; no gradient."""
    reference_kl: Float[Array, "B T"] | None = None
    """KL(policy || reference) over the whole vocabulary; no gradient."""
    row_penalties: Float[Array, "B T"] | None = None
    """The penalty asked for."""
    squared_probs: Float[Array, "B T"] | None = None
    """Squared probabilities summed over the vocabulary, not in nats; no gradient."""


def score_tokens(
    states: Float[Array, "B T D"],
    matrix: Float[Array, "D V"],
    tokens: Int[Array, "B T"],
    *,
    top_ids: Int[Array, "B T K"] | None = None,
    reference: tuple[Float[Array, "B T D"], Float[Array, "D V"]] | None = None,
    penalty: RowPenalty | None = None,
    squares: bool = False,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> TokenScores:
    r"""Log-probability of each given token, the entropy at it, and what else is asked for.

    .. math:: \ell_t = \log softmax(h_t W / \tau)_{a_t}, \qquad H_t = -\sum_v p_v \log p_v

    Args:
      states: [B, T, D] hidden states, each of the position *before* its token.
      matrix: [D, V] unembedding.
      tokens: [B, T] ids; out of range they are clamped, so mask what is padding.
      top_ids: [B, T, K] more ids at each position, clamped too.
      reference: states and unembedding of a reference policy; they carry no gradient.
      penalty: of the policy's rows and the reference's; its gradient is that of autodiff.
      squares: whether squared probabilities are summed.
      temperature: divides the logits of both.
      chunk_tokens: about how many tokens' logits exist at once, over all rows.

    Returns:
      `TokenScores`. Gradients of log-probs, entropies and penalties flow to `states` and `matrix`;
      the backward pass makes the logits of one chunk again at a time, those of the reference only
      for a penalty.

    Raises:
      ValueError: a penalty without a reference.
    """
    if penalty is not None and reference is None:
        raise ValueError("a penalty on rows needs the reference's states, got None")
    batch, length, _ = states.shape
    width = max(1, min(length, chunk_tokens // max(batch, 1)))
    # Chunks go along T, so that rows stay on the devices that hold them. The last one is filled up.
    padding = -length % width
    chunks = (length + padding) // width

    def split(x: Array) -> Array:  # [B, T, ...] -> [chunks, B, width, ...]
        x = jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2))
        return x.reshape(batch, chunks, width, *x.shape[2:]).swapaxes(0, 1)

    def join(x: Array) -> Array:  # [chunks, B, width, ...] -> [B, T, ...]
        return x.swapaxes(0, 1).reshape(batch, -1, *x.shape[3:])[:, :length]

    reference_states, reference_matrix = reference or (None, None)
    parts = jax.tree.map(split, (states, tokens, top_ids, reference_states))
    scores: Any = _chunked(temperature, penalty, squares, matrix, reference_matrix, *parts)
    return jax.tree.map(join, scores)


def _swapped(penalty: RowPenalty, reference_rows: Array, rows: Array) -> Array:
    return penalty(rows, reference_rows)


def _index(ids: Array, vocabulary: int) -> Array:
    return jnp.clip(ids, 0, vocabulary - 1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _chunked(
    temperature: float,
    penalty: RowPenalty | None,
    squares: bool,
    matrix: Array,
    reference_matrix: Array | None,
    states: Array,
    tokens: Array,
    top_ids: Array | None,
    reference_states: Array | None,
) -> TokenScores:
    def body(chunk: tuple[Array, Array, Array | None, Array | None]) -> TokenScores:
        state, token, top, reference_state = chunk
        rows = row_log_probs(state, matrix, temperature=temperature)
        size = rows.shape[-1]
        own = jnp.take_along_axis(rows, _index(token, size)[..., None], axis=-1)[..., 0]
        scores = TokenScores(own, -jnp.sum(jnp.exp(rows) * rows, axis=-1))
        if squares:
            summed = jnp.sum(jnp.exp(2 * rows), axis=-1)
            scores = dataclasses.replace(scores, squared_probs=summed)
        if top is not None:
            gathered = jnp.take_along_axis(rows, _index(top, size), axis=-1)
            scores = dataclasses.replace(scores, top_log_probs=gathered)
        if reference_state is not None and reference_matrix is not None:
            other = row_log_probs(reference_state, reference_matrix, temperature=temperature)
            scores = dataclasses.replace(
                scores,
                reference_kl=full_kl(rows, other),
                row_penalties=None if penalty is None else penalty(rows, other),
            )
        return scores

    return jax.lax.map(body, (states, tokens, top_ids, reference_states))


def _chunked_forward(
    temperature: float, penalty: RowPenalty | None, squares: bool, *arrays: Any
) -> tuple[Any, tuple[Any, ...]]:
    scores: Any = _chunked(temperature, penalty, squares, *arrays)
    matrix, reference_matrix, states, tokens, _, reference_states = arrays
    other = (None, None) if penalty is None else (reference_matrix, reference_states)
    return scores, (matrix, states, tokens, scores.entropies, *other)


def _chunked_backward(
    temperature: float,
    penalty: RowPenalty | None,
    squares: bool,
    saved: tuple[Any, ...],
    cotangents: TokenScores,
) -> tuple[Array | None, ...]:
    matrix, states, tokens, entropies, reference_matrix, reference_states = saved

    def body(matrix_gradient: Array, chunk: tuple[Any, ...]) -> tuple[Array, Array]:
        state, token, entropy, reference_state, d_log_prob, d_entropy, d_penalty = chunk
        rows = row_log_probs(state, matrix, temperature=temperature)
        probs = jnp.exp(rows)
        # d log p_a = onehot(a) - p;  d H = -p (log p + H)
        gradient = -probs * (
            d_log_prob[..., None] + d_entropy[..., None] * (rows + entropy[..., None])
        )
        index = _index(token, rows.shape[-1])[..., None]
        vocabulary = jnp.arange(rows.shape[-1], dtype=index.dtype).reshape(
            (1,) * token.ndim + (-1,)
        )
        gradient = gradient + jnp.where(index == vocabulary, d_log_prob[..., None], 0)
        if penalty is not None:
            other = row_log_probs(reference_state, reference_matrix, temperature=temperature)
            _, pull = jax.vjp(functools.partial(_swapped, penalty, other), rows)
            (d_rows,) = pull(d_penalty)
            # Through the log-softmax: of a KL this makes p (log p/q - KL).
            gradient = gradient + d_rows - probs * jnp.sum(d_rows, axis=-1, keepdims=True)
        gradient = gradient / temperature  # d logits
        d_state = jnp.matmul(gradient.astype(matrix.dtype), matrix.T).astype(state.dtype)
        d_matrix = jnp.einsum(
            "btd,btv->dv",
            state,
            gradient.astype(state.dtype),
            preferred_element_type=matrix_gradient.dtype,
        )
        return matrix_gradient + d_matrix, d_state

    start = jnp.zeros(matrix.shape, jnp.promote_types(matrix.dtype, jnp.float32))
    d_scores = (cotangents.log_probs, cotangents.entropies, cotangents.row_penalties)
    d_matrix, d_states = jax.lax.scan(
        body, start, (states, tokens, entropies, reference_states, *d_scores)
    )
    return d_matrix.astype(matrix.dtype), None, d_states, None, None, None


_chunked.defvjp(_chunked_forward, _chunked_backward)
