"""The shape of a decoder: sizes and switches, nothing that costs anything."""

import dataclasses
import math
from typing import Any, Literal

import jax.numpy as jnp


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """A pre-norm decoder with RMSNorm, rotary positions, grouped-query attention and SwiGLU."""

    vocabulary_size: int = 0
    """Tokens, special ones included; a run takes 0 for as many as its tokenizer has."""
    layers: int = 4
    """Decoder blocks."""
    hidden_size: int = 128
    """Width of the residual stream, D."""
    heads: int = 4
    """Query heads, N."""
    kv_heads: int = 2
    """Key and value heads, K; divides `heads`."""
    head_size: int = 32
    """Width of one head, H; even, since rotary positions rotate pairs."""
    mlp_size: int = 384
    """Width of the feed-forward block."""
    rope_theta: float = 10_000.0
    """Base of the rotary wavelengths."""
    norm_epsilon: float = 1e-6
    """Added to the mean square inside each RMSNorm."""
    qk_norm: bool = False
    """RMSNorm on every query and key head before the rotation (Qwen3)."""
    attention_bias: bool = False
    """Biases on the query, key and value projections (Qwen2)."""
    tied_embeddings: bool = True
    """The unembedding is the embedding, transposed."""
    compute_dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    """Dtype of activations and matrix products; log-probs are float32 at least whatever this is."""
    parameter_dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    """Dtype of the stored (master) parameters."""
    remat: Literal["none", "dots", "full"] = "none"
    """What the backward pass recomputes: nothing, all but matrix products, or every block."""

    def __post_init__(self) -> None:
        if self.vocabulary_size < 0:
            raise ValueError(f"vocabulary_size must not be negative, got {self.vocabulary_size}")
        for name in ("layers", "hidden_size", "heads", "kv_heads", "mlp_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads {self.heads}, got {self.kv_heads}")
        if self.head_size < 2 or self.head_size % 2:
            raise ValueError(f"head_size must be even and at least 2, got {self.head_size}")
        for name in ("rope_theta", "norm_epsilon"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)}")

    @property
    def dtype(self) -> Any:
        """The compute dtype as JAX knows it."""
        return jnp.dtype(self.compute_dtype)
