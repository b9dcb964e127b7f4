"""Grouped-query attention and rotary positions: one function for prefill, decode and training."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def rotate(
    heads: Float[Array, "B T N H"], positions: Int[Array, "B T"], *, theta: float
) -> Float[Array, "B T N H"]:
    """Rotary position embedding on the two halves of each head (the Hugging Face layout).

    Source: arXiv:2104.09864, eq. 34.
    """
    half = heads.shape[-1] // 2
    dtype = jnp.promote_types(heads.dtype, jnp.float32)
    frequencies = theta ** (-jnp.arange(half, dtype=dtype) / half)
    angles = positions[..., None, None].astype(dtype) * frequencies[None, None, None]
    # [B, T, 1, H/2]
    first, second = jnp.split(heads.astype(dtype), 2, axis=-1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(heads.dtype)


def attention(
    queries: Float[Array, "B T N H"],
    keys: Float[Array, "B S K H"],
    values: Float[Array, "B S K H"],
    visible: Bool[Array, "B T S"],
) -> Float[Array, "B T N H"]:
    """Softmax attention of each query over the keys it may see, in float32 at least.

    N is a multiple of K: each key head serves N / K query heads. A query that may see nothing gets
    the plain mean of the values: finite, so that padding rows carry no nan into the batch.
    """
    batch, length, heads, size = queries.shape
    kv_heads = keys.shape[2]
    dtype = jnp.promote_types(queries.dtype, jnp.float32)
    grouped = queries.reshape(batch, length, kv_heads, heads // kv_heads, size)
    scores = jnp.einsum("btkgh,bskh->bkgts", grouped, keys, preferred_element_type=dtype)
    # Selected, not added to: a score of nan or inf at an invisible key must not survive.
    scores = jnp.where(visible[:, None, None], scores * size**-0.5, jnp.finfo(dtype).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, values)
    return mixed.reshape(batch, length, heads, size)


def causal_visibility(mask: Bool[Array, "B T"]) -> Bool[Array, "B T T"]:
    """Which keys each query sees: real tokens, none later than itself. Padding may lie anywhere."""
    return mask[:, None, :] & jnp.tri(mask.shape[1], dtype=bool)[None]


def positions_of(mask: Bool[Array, "B T"]) -> Int[Array, "B T"]:
    """Each real token's position counted without padding; padding repeats the last one, or is 0.

    Example:
      >>> positions_of(jnp.array([[False, True, True, False, True]]))
      Array([[0, 0, 1, 1, 2]], dtype=int32)
    """
    return jnp.maximum(jnp.cumsum(mask, axis=1, dtype=jnp.int32) - 1, 0)
