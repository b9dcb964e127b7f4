"""Log-probs of tokens from hidden states, chunk by chunk: whole-batch logits never exist."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def row_log_probs(
    states: Float[Array, "*B D"], matrix: Float[Array, "D V"], *, temperature: float
) -> Float[Array, "*B V"]:
    """Log-softmax rows, float32 at least: the one formula that sampler and trainer share."""
    dtype = jnp.promote_types(states.dtype, jnp.float32)
    logits = jnp.matmul(states, matrix, preferred_element_type=dtype)
    return jax.nn.log_softmax(logits / temperature, axis=-1)


def token_log_probs(
    states: Float[Array, "B T D"],
    matrix: Float[Array, "D V"],
    tokens: Int[Array, "B T"],
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    r"""Log-probability of each given token, and the entropy of the distribution it came from.

    .. math:: \ell_t = \log softmax(h_t W / \tau)_{a_t}, \qquad H_t = -\sum_v p_v \log p_v

    Args:
      states: [B, T, D] hidden states, each of the position *before* its token.
      matrix: [D, V] unembedding.
      tokens: [B, T] ids; out of range they are clamped, so mask what is padding.
      temperature: divides the logits.
      chunk_tokens: about how many tokens' logits exist at once, over all rows.

    Returns:
      ([B, T], [B, T]) log-probs and entropies, nats, float32 at least. Gradients of both flow to
      `states` and `matrix`; the backward pass makes the logits of one chunk again at a time.
    """
    batch, length, _ = states.shape
    width = max(1, min(length, chunk_tokens // max(batch, 1)))
    # Chunks go along T, so that rows stay on the devices that hold them. The last one is filled up.
    padding = -length % width
    states = jnp.pad(states, ((0, 0), (0, padding), (0, 0)))
    tokens = jnp.pad(tokens, ((0, 0), (0, padding)))
    chunks = (length + padding) // width

    def split(x: Array) -> Array:  # [B, T, ...] -> [chunks, B, width, ...]
        return x.reshape(batch, chunks, width, *x.shape[2:]).swapaxes(0, 1)

    def join(x: Array) -> Array:  # [chunks, B, width] -> [B, T]
        return x.swapaxes(0, 1).reshape(batch, -1)[:, :length]

    outputs: Any = _chunked(temperature, split(states), matrix, split(tokens))
    return join(outputs[0]), join(outputs[1])


def _rows(temperature: float, states: Array, matrix: Array, tokens: Array) -> tuple[Array, Array]:
    """One chunk: the log-softmax rows and where each token lies in them."""
    rows = row_log_probs(states, matrix, temperature=temperature)
    return rows, jnp.clip(tokens, 0, rows.shape[-1] - 1)[..., None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _chunked(
    temperature: float, states: Array, matrix: Array, tokens: Array
) -> tuple[Array, Array]:
    def body(chunk: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, index = _rows(temperature, chunk[0], matrix, chunk[1])
        entropy = -jnp.sum(jnp.exp(rows) * rows, axis=-1)
        return jnp.take_along_axis(rows, index, axis=-1)[..., 0], entropy

    return jax.lax.map(body, (states, tokens))


def _chunked_forward(
    temperature: float, states: Array, matrix: Array, tokens: Array
) -> tuple[Any, tuple[Array, ...]]:
    outputs: Any = _chunked(temperature, states, matrix, tokens)
    return outputs, (states, matrix, tokens, outputs[1])


def _chunked_backward(temperature: float, saved: tuple[Array, ...], cotangents: tuple):
    states, matrix, tokens, entropies = saved

    def body(matrix_gradient: Array, chunk: tuple[Array, ...]) -> tuple[Array, Array]:
        state, token, entropy, d_log_prob, d_entropy = chunk
        rows, index = _rows(temperature, state, matrix, token)
        probs = jnp.exp(rows)
        # d log p_a = onehot(a) - p;  d H = -p (log p + H)
        gradient = -probs * (
            d_log_prob[..., None] + d_entropy[..., None] * (rows + entropy[..., None])
        )
        vocabulary = jnp.arange(rows.shape[-1], dtype=index.dtype).reshape(
            (1,) * token.ndim + (-1,)
        )
        gradient = gradient + jnp.where(index == vocabulary, d_log_prob[..., None], 0)
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
    d_matrix, d_states = jax.lax.scan(body, start, (states, tokens, entropies, *cotangents))
    return d_states, d_matrix.astype(matrix.dtype), None


_chunked.defvjp(_chunked_forward, _chunked_backward)
