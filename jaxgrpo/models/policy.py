"""A policy: a decoder's config and its parameters, and the pure functions of the two."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxgrpo.models.attention import attention, causal_visibility, positions_of
from jaxgrpo.models.config import DecoderConfig
from jaxgrpo.models.decoder import Decoder
from jaxgrpo.sharding import AxisRules

Params = Any  # nested dict of arrays, as `Decoder` declares them


@functools.partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["config"])
@dataclasses.dataclass(frozen=True)
class Policy:
    """Parameters and the config that gives them meaning; a pytree whose leaves are `params`."""

    config: DecoderConfig
    params: Params


@functools.cache
def _abstract(config: DecoderConfig) -> tuple[nnx.GraphDef, nnx.State]:
    # Logical axes stay metadata: the mesh is chosen later, by the rules of the sharding room.
    with nnx.use_eager_sharding(False):
        decoder = nnx.eval_shape(lambda: Decoder(config, nnx.Rngs(params=0)))
    graph, state = nnx.split(decoder, nnx.Param)
    return graph, state


def bind(config: DecoderConfig, params: Params) -> Decoder:
    """The decoder module holding these parameters; cheap, made anew inside each traced function."""
    return nnx.merge(_abstract(config)[0], params)


def abstract_params(
    config: DecoderConfig, mesh: Mesh | None = None, rules: AxisRules | None = None
) -> Params:
    """Shapes and dtypes of the parameters; with a mesh, their shardings too. Allocates nothing."""
    state = _abstract(config)[1]
    shapes = nnx.to_pure_dict(state)
    if mesh is None:
        return shapes
    rules = rules or AxisRules()
    axes = nnx.to_pure_dict(nnx.get_partition_spec(state))
    units = {"heads": config.heads, "kv_heads": config.kv_heads}
    return jax.tree.map(
        lambda leaf, logical: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=rules.sharding(mesh, tuple(logical), leaf.shape, units)
        ),
        shapes,
        axes,
    )


def init_params(config: DecoderConfig, key: PRNGKeyArray, mesh: Mesh | None = None) -> Params:
    """Fresh parameters; with a mesh, created in their shards.

    The random bits are the same on every mesh, the values up to rounding in the last places.
    """

    def create(key: PRNGKeyArray) -> Params:
        with nnx.use_eager_sharding(False):
            decoder = Decoder(config, nnx.Rngs(params=key))
        return nnx.to_pure_dict(nnx.state(decoder, nnx.Param))

    shardings = None
    if mesh is not None:
        shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract_params(config, mesh))
    return jax.jit(create, out_shardings=shardings)(key)


def parameter_count(config: DecoderConfig) -> int:
    """The number of parameters.

    Example:
      >>> parameter_count(DecoderConfig(vocabulary_size=100, layers=2, hidden_size=64))
      203328
    """
    return sum(leaf.size for leaf in jax.tree.leaves(abstract_params(config)))


def hidden_states(
    config: DecoderConfig,
    params: Params,
    tokens: Int[Array, "B T"],
    *,
    positions: Int[Array, "B T"] | None = None,
    mask: Bool[Array, "B T"] | None = None,
) -> Float[Array, "B T D"]:
    """What the unembedding reads, for whole sequences.

    Args:
      config: the decoder.
      params: its parameters; gradients flow through them.
      tokens: [B, T] ids. Where `mask` is False they may be anything.
      positions: [B, T]; counted over the real tokens of `mask` unless given.
      mask: [B, T] bool, True on real tokens; padding may lie left, right or between.
    """
    mask = jnp.ones(tokens.shape, bool) if mask is None else mask
    positions = positions_of(mask) if positions is None else positions
    # An id out of range would read a row of nan, which attention weights of 0 don't remove.
    tokens = jnp.where(mask, tokens, 0)
    visible = causal_visibility(mask)
    decoder = bind(config, params)
    x, _ = decoder.scan(
        decoder.embed(tokens), positions, lambda q, k, v: (attention(q, k, v, visible), None)
    )
    return decoder.finish(x)


def logits(
    policy: Policy,
    tokens: Int[Array, "B T"],
    *,
    positions: Int[Array, "B T"] | None = None,
    mask: Bool[Array, "B T"] | None = None,
) -> Float[Array, "B T V"]:
    """Logits of every next token, for looking and for tests; training never makes them whole.

    Args:
      policy: config and parameters; gradients flow through the parameters.
      tokens: [B, T] ids.
      positions: [B, T]; counted over the real tokens unless given.
      mask: [B, T] bool, True on real tokens.

    Returns:
      [B, T, V], float32 at least. At padding they are finite and mean nothing.
    """
    states = hidden_states(policy.config, policy.params, tokens, positions=positions, mask=mask)
    dtype = jnp.promote_types(states.dtype, jnp.float32)
    matrix = bind(policy.config, policy.params).unembedding_matrix()
    return jnp.matmul(states, matrix, preferred_element_type=dtype)
