"""What an update changes: parameters, optimizer state, and the count of optimiser steps."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Int

from jaxgrpo.models import DecoderConfig, Params, abstract_params
from jaxgrpo.sharding import replicated


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Donated to every update: the old state is gone when the new one is there."""

    params: Params
    opt_state: optax.OptState
    step: Int[Array, ""]


def abstract_train_state(
    model: DecoderConfig, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """Shapes, dtypes and shardings of the state on a mesh: built from config, never from a file."""
    params = abstract_params(model, mesh)
    whole = replicated(mesh)

    def scalar(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole)

    # Moments are laid out like the parameters they belong to; counts are whole everywhere.
    opt_state = optax.tree_utils.tree_map_params(
        optimizer,
        lambda leaf, param: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=param.sharding),
        jax.eval_shape(optimizer.init, params),
        params,
        transform_non_params=scalar,
    )
    step: Any = scalar(jax.ShapeDtypeStruct((), jnp.int32))
    return TrainState(params, opt_state, step)


def state_shardings(
    model: DecoderConfig, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """The layout of the state on a mesh: a state whose leaves are shardings."""
    abstract = abstract_train_state(model, optimizer, mesh)
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def init_train_state(
    model: DecoderConfig, params: Params, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """A fresh state around `params`, which it takes over."""
    shardings: Any = state_shardings(model, optimizer, mesh)
    opt_state = jax.jit(optimizer.init, out_shardings=shardings.opt_state)(params)
    return TrainState(params, opt_state, jax.device_put(jnp.int32(0), shardings.step))
