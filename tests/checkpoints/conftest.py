import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def make_mesh(shape, names):
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))


def abstract_like(tree):
    """The tree as `restore` takes it, on the shardings that it has."""
    return jax.tree.map(
        lambda x: (
            jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)
            if isinstance(x, jax.Array)
            else np.zeros_like(x)
        ),
        tree,
    )


def bits(tree):
    """Dtype, shape and bytes of each leaf by its path: equal only where every bit is."""

    def of(leaf):
        if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return str(leaf.dtype), *of(jax.random.key_data(leaf))
        array = np.asarray(leaf)
        return str(array.dtype), array.shape, array.tobytes()

    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return str(structure), {jax.tree_util.keystr(path): of(leaf) for path, leaf in leaves}


@pytest.fixture
def mesh():
    return make_mesh((4, 2), ("data", "model"))


@pytest.fixture
def state(mesh):
    """What a run saves: sharded parameters, adamw's namedtuples, keys, counters, host arrays."""
    params = {
        "layers.0/w": jax.device_put(
            jnp.arange(64.0).reshape(8, 8) / 7, NamedSharding(mesh, P("data", "model"))
        ),
        "scale": jax.device_put(jnp.ones(3, jnp.bfloat16) / 3, NamedSharding(mesh, P())),
    }
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    gradients = jax.tree.map(lambda x: x * 0.1, params)
    _, opt_state = optimizer.update(gradients, optimizer.init(params), params)
    return {
        "params": params,
        "opt_state": opt_state,
        "step": jnp.int32(7),
        "key": jax.random.key(3),
        "keys": jax.random.split(jax.random.key(4), 5),
        "host": np.array([1.5, -0.0, np.nan, -np.inf], np.float64),
        "host_step": np.array(9, np.int64),
    }
