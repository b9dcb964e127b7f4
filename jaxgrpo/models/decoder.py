"""The one decoder, written once with Flax NNX; what differs between families is a switch.

Parameters are declared here only: shape, initialiser and logical axes side by side. The blocks are
stored stacked along a `layers` axis, so a scan over them compiles one block whatever the depth.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from jaxgrpo.models.attention import rotate
from jaxgrpo.models.config import DecoderConfig

# attend(queries, keys, values) -> (mixed values, whatever the caller keeps of keys and values)
Attend = Callable[[Array, Array, Array], tuple[Array, Any]]


def _matrix(
    rngs: nnx.Rngs, shape: tuple[int, ...], axes: tuple[str, ...], config: DecoderConfig
) -> nnx.Param:
    """A weight that keeps the variance of what it reads: scaled by its fan-in."""
    value = jax.random.normal(rngs.params(), shape, config.parameter_dtype) * shape[-2] ** -0.5
    return nnx.Param(value, out_sharding=axes)


def _vector(
    value: float, shape: tuple[int, ...], axes: tuple[str, ...], config: DecoderConfig
) -> nnx.Param:
    return nnx.Param(jnp.full(shape, value, config.parameter_dtype), out_sharding=axes)


def rms_norm(x: Float[Array, "*B D"], scale: Float[Array, " D"], epsilon: float) -> Array:
    """RMSNorm in float32 at least, returned in the dtype of `x` (arXiv:1910.07467, eq. 4)."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    root = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
    shape = (1,) * (x.ndim - 1) + scale.shape
    return (wide * root * scale.astype(wide.dtype).reshape(shape)).astype(x.dtype)


class Block(nnx.Module):
    """All decoder blocks, stacked; a slice of the parameters along `layers` is one block."""

    def __init__(self, config: DecoderConfig, rngs: nnx.Rngs) -> None:
        self.config = config
        depth, width = config.layers, config.hidden_size
        query, key = config.heads * config.head_size, config.kv_heads * config.head_size
        inward, outward = ("layers", "embed", "mlp"), ("layers", "mlp", "embed")
        kv_axes = ("layers", "embed", "kv_heads")

        self.attention_norm = _vector(1.0, (depth, width), ("layers", "norm"), config)
        self.query = _matrix(rngs, (depth, width, query), ("layers", "embed", "heads"), config)
        self.key = _matrix(rngs, (depth, width, key), kv_axes, config)
        self.value = _matrix(rngs, (depth, width, key), kv_axes, config)
        self.output = _matrix(rngs, (depth, query, width), ("layers", "heads", "embed"), config)
        if config.attention_bias:
            self.query_bias = _vector(0.0, (depth, query), ("layers", "heads"), config)
            self.key_bias = _vector(0.0, (depth, key), ("layers", "kv_heads"), config)
            self.value_bias = _vector(0.0, (depth, key), ("layers", "kv_heads"), config)
        if config.qk_norm:
            size = config.head_size
            self.query_norm = _vector(1.0, (depth, size), ("layers", "norm"), config)
            self.key_norm = _vector(1.0, (depth, size), ("layers", "norm"), config)

        self.mlp_norm = _vector(1.0, (depth, width), ("layers", "norm"), config)
        self.gate = _matrix(rngs, (depth, width, config.mlp_size), inward, config)
        self.up = _matrix(rngs, (depth, width, config.mlp_size), inward, config)
        self.down = _matrix(rngs, (depth, config.mlp_size, width), outward, config)

    def __call__(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], attend: Attend
    ) -> tuple[Float[Array, "B T D"], Any]:
        """One block on the residual stream, with attention left to the caller."""
        config, dtype = self.config, x.dtype
        batch, length, _ = x.shape

        def project(weight: nnx.Param, bias: nnx.Param | None) -> Array:
            flat = normed @ weight[...].astype(dtype)
            if bias is not None:
                flat = flat + bias[...].astype(dtype)[None, None]
            return flat.reshape(batch, length, -1, config.head_size)

        normed = rms_norm(x, self.attention_norm[...], config.norm_epsilon)
        biased = config.attention_bias
        queries = project(self.query, self.query_bias if biased else None)
        keys = project(self.key, self.key_bias if biased else None)
        values = project(self.value, self.value_bias if biased else None)
        if config.qk_norm:
            queries = rms_norm(queries, self.query_norm[...], config.norm_epsilon)
            keys = rms_norm(keys, self.key_norm[...], config.norm_epsilon)
        queries = rotate(queries, positions, theta=config.rope_theta)
        keys = rotate(keys, positions, theta=config.rope_theta)
        mixed, kept = attend(queries, keys, values)
        x = x + mixed.reshape(batch, length, -1) @ self.output[...].astype(dtype)

        normed = rms_norm(x, self.mlp_norm[...], config.norm_epsilon)
        gate = jax.nn.silu(normed @ self.gate[...].astype(dtype))
        up = normed @ self.up[...].astype(dtype)
        return x + (gate * up) @ self.down[...].astype(dtype), kept


class Decoder(nnx.Module):
    """Embedding, stacked blocks, final norm and (tied) unembedding."""

    def __init__(self, config: DecoderConfig, rngs: nnx.Rngs) -> None:
        self.config = config
        shape, axes = (config.vocabulary_size, config.hidden_size), ("vocabulary", "embed")
        # Tied, this gives logits of unit variance; the first norm makes up for any scale inside.
        scale = config.hidden_size**-0.5
        embedding = jax.random.normal(rngs.params(), shape, config.parameter_dtype) * scale
        self.embedding = nnx.Param(embedding, out_sharding=axes)
        self.blocks = Block(config, rngs)
        self.final_norm = _vector(1.0, (config.hidden_size,), ("norm",), config)
        if not config.tied_embeddings:
            self.unembedding = _matrix(rngs, shape[::-1], axes[::-1], config)

    def embed(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """The rows of the embedding, in the compute dtype."""
        return self.embedding[...].astype(self.config.dtype)[tokens]

    def scan(
        self, x: Float[Array, "B T D"], positions: Int[Array, "B T"], attend: Attend
    ) -> tuple[Float[Array, "B T D"], Any]:
        """All blocks in turn; what `attend` keeps comes back stacked along `layers`."""
        graph, stacked = nnx.split(self.blocks)

        def body(x: Array, layer: nnx.State) -> tuple[Array, Any]:
            return nnx.merge(graph, layer)(x, positions, attend)

        return jax.lax.scan(_rematerialised(body, self.config.remat), x, stacked)

    def layers(self) -> list[Block]:
        """The blocks one by one: made outside a loop, so that nothing is sliced inside it."""
        graph, stacked = nnx.split(self.blocks)
        return [
            nnx.merge(graph, jax.tree.map(lambda leaf, index=index: leaf[index], stacked))
            for index in range(self.config.layers)
        ]

    def finish(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """The final norm: what the unembedding reads."""
        return rms_norm(x, self.final_norm[...], self.config.norm_epsilon)

    def unembedding_matrix(self) -> Float[Array, "D V"]:
        """The matrix from hidden states to logits, in the compute dtype."""
        tied = self.config.tied_embeddings
        matrix = self.embedding[...].T if tied else self.unembedding[...]
        return matrix.astype(self.config.dtype)


def _rematerialised(body: Callable[..., Any], remat: str) -> Callable[..., Any]:
    if remat == "none":
        return body
    policies = jax.checkpoint_policies
    policy = policies.dots_with_no_batch_dims_saveable if remat == "dots" else None
    # prevent_cse is needed outside a scan only, and costs inside one.
    return jax.checkpoint(body, policy=policy, prevent_cse=False)
