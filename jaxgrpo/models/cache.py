"""The key-value cache: filled once a prompt, shared out to its group, extended a token at a time.

A list of per-layer buffers, not one stacked array: inside a loop each is then updated in place.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.models.attention import attention, causal_visibility, positions_of
from jaxgrpo.models.config import DecoderConfig
from jaxgrpo.models.decoder import Block, Decoder
from jaxgrpo.models.policy import Params, bind

Layer = tuple[Float[Array, "B S K H"], Float[Array, "B S K H"]]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KVCache:
    """Keys and values of the tokens so far, a pair a layer, and which slots hold a real token."""

    layers: list[Layer]
    filled: Bool[Array, "B S"]

    def repeat(self, times: int) -> "KVCache":
        """Each row `times` times over, side by side: one prompt's cache for its whole group."""
        return jax.tree.map(lambda leaf: jnp.repeat(leaf, times, axis=0), self)

    def extend(self, slots: int) -> "KVCache":
        """The same cache with room for that many more tokens."""

        def pad(leaf: Array) -> Array:
            return jnp.pad(leaf, [(0, 0), (0, slots)] + [(0, 0)] * (leaf.ndim - 2))

        return jax.tree.map(pad, self)


def prefill(
    config: DecoderConfig, params: Params, tokens: Int[Array, "B T"], mask: Bool[Array, "B T"]
) -> tuple[Float[Array, "B D"], KVCache]:
    """The last real token's hidden state of each prompt, and the cache of all its tokens.

    A prompt of padding alone gives a finite row that means nothing.
    """
    visible = causal_visibility(mask)
    decoder = bind(config, params)
    x, (keys, values) = decoder.scan(
        decoder.embed(jnp.where(mask, tokens, 0)),
        positions_of(mask),
        lambda q, k, v: (attention(q, k, v, visible), (k, v)),
    )
    last = jnp.max(jnp.where(mask, jnp.arange(tokens.shape[1])[None], 0), axis=1)
    state = jnp.take_along_axis(decoder.finish(x), last[:, None, None], axis=1)[:, 0]
    layers = [(keys[index], values[index]) for index in range(config.layers)]
    return state, KVCache(layers=layers, filled=mask)


def decode_step(
    decoder: Decoder,
    blocks: list[Block],
    tokens: Int[Array, " B"],
    positions: Int[Array, " B"],
    slot: Int[Array, ""],
    cache: KVCache,
) -> tuple[Float[Array, "B D"], KVCache]:
    """The hidden state after one more token a row, written to one slot of the cache for all rows.

    Args:
      decoder: the model, bound to its parameters.
      blocks: its blocks one by one, `decoder.layers()`.
      tokens: [B] ids.
      positions: [B] position of that token in its own row, counted without padding.
      slot: where in the cache it goes.
      cache: of the tokens before it.
    """
    filled = cache.filled.at[:, slot].set(True)
    visible = filled[:, None]
    x = decoder.embed(tokens[:, None])
    layers = []
    for block, (old_keys, old_values) in zip(blocks, cache.layers, strict=True):

        def append(
            queries: Array, keys: Array, values: Array, old: Layer = (old_keys, old_values)
        ) -> tuple[Array, Layer]:
            keys = jax.lax.dynamic_update_slice_in_dim(old[0], keys, slot, axis=1)
            values = jax.lax.dynamic_update_slice_in_dim(old[1], values, slot, axis=1)
            return attention(queries, keys, values, visible), (keys, values)

        x, layer = block(x, positions[:, None], append)
        layers.append(layer)
    return decoder.finish(x)[:, 0], KVCache(layers=layers, filled=filled)
