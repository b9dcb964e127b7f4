"""Parameters on meshes: the same values everywhere, split as the table says."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from jaxgrpo.models import Policy, abstract_params, init_params, logits
from jaxgrpo.sharding import AxisRules, MeshConfig, build_mesh


@pytest.fixture(scope="module")
def config(gqa):
    """Sizes that 2 and 4 divide, and a vocabulary that they don't."""
    return dataclasses.replace(
        gqa, hidden_size=16, head_size=4, attention_bias=True, qk_norm=True, tied_embeddings=False
    )


def mesh_of(data, fsdp, model):
    return build_mesh(
        MeshConfig(data=data, fsdp=fsdp, model=model), jax.devices()[: data * fsdp * model]
    )


@pytest.fixture(scope="module")
def unsharded(config):
    return init_params(config, jax.random.key(4))


@pytest.fixture(scope="module")
def sharded(config):
    return init_params(config, jax.random.key(4), mesh_of(2, 2, 2))


def test_initial_values_are_the_same_on_every_mesh(unsharded, sharded):
    for one, other in zip(jax.tree.leaves(unsharded), jax.tree.leaves(sharded), strict=True):
        # The same random bits; the compiler may contract the normal's polynomial differently.
        np.testing.assert_array_max_ulp(np.asarray(one), np.asarray(other), maxulp=4)


def test_initial_matrices_keep_variance(unsharded):
    for name in ("query", "key", "value", "output", "gate", "up", "down"):
        matrix = unsharded["blocks"][name]
        assert np.isclose(matrix.std() * matrix.shape[1] ** 0.5, 1, rtol=0.15)
        # Layers are drawn each for itself.
        assert not np.array_equal(matrix[0], matrix[1])
    assert np.isclose(unsharded["embedding"].std() * 4, 1, rtol=0.15)


def test_layout_is_that_of_the_rules(config):
    params = abstract_params(config, mesh_of(2, 2, 2))
    specs = jax.tree.map(lambda leaf: leaf.sharding.spec, params)
    blocks = specs.pop("blocks")
    # 19 tokens don't split over two shards: the vocabulary stays whole.
    assert specs == {
        "embedding": P(None, "fsdp"),
        "final_norm": P(None),
        "unembedding": P("fsdp", None),
    }
    inward, outward = P(None, "fsdp", "model"), P(None, "model", "fsdp")
    assert blocks == {
        **dict.fromkeys(("query", "key", "value", "gate", "up"), inward),
        **dict.fromkeys(("output", "down"), outward),
        **dict.fromkeys(("query_bias", "key_bias", "value_bias"), P(None, "model")),
        **dict.fromkeys(("attention_norm", "mlp_norm", "query_norm", "key_norm"), P(None, None)),
    }


def test_a_vocabulary_that_splits_is_split(config):
    even = dataclasses.replace(config, vocabulary_size=20)
    params = abstract_params(even, mesh_of(2, 2, 2))
    assert params["embedding"].sharding.spec == P("model", "fsdp")
    assert params["embedding"].sharding.shard_shape((20, 16)) == (10, 8)


def test_a_head_is_never_cut(config):
    """Two key heads of four numbers are eight columns, which four shards would divide."""
    blocks = abstract_params(config, mesh_of(1, 2, 4))["blocks"]
    assert blocks["key"].sharding.spec == P(None, "fsdp", None)
    assert blocks["value_bias"].sharding.spec == P(None, None)
    assert blocks["query"].sharding.spec == P(None, "fsdp", "model")
    assert blocks["output"].sharding.spec == P(None, "model", "fsdp")


def test_arrays_are_where_the_abstract_ones_say(config, sharded):
    mesh = sharded["embedding"].sharding.mesh
    wanted = abstract_params(config, mesh)
    for leaf, abstract in zip(jax.tree.leaves(sharded), jax.tree.leaves(wanted), strict=True):
        assert (leaf.shape, leaf.dtype) == (abstract.shape, abstract.dtype)
        assert leaf.sharding.is_equivalent_to(abstract.sharding, leaf.ndim)
        shard = leaf.addressable_shards[0].data
        assert shard.shape == abstract.sharding.shard_shape(leaf.shape)


def test_a_layout_is_changed_in_the_rules_alone(config):
    rules = AxisRules(embed=None, mlp=("fsdp", "model"))
    params = abstract_params(config, mesh_of(2, 2, 2), rules)
    assert params["blocks"]["gate"].sharding.spec == P(None, None, ("fsdp", "model"))
    with pytest.raises(ValueError, match=r"mesh axis 'fsdp' would split .* of .*'layers'"):
        abstract_params(config, mesh_of(2, 2, 2), AxisRules(mlp="fsdp"))


def test_logits_are_the_same_where_key_heads_are_not_split(config, unsharded):
    tokens = jnp.asarray(np.random.default_rng(5).integers(0, 19, (8, 6)))
    layout = jax.tree.map(lambda leaf: leaf.sharding, abstract_params(config, mesh_of(1, 2, 4)))
    sharded = jax.device_put(unsharded, layout)
    got = jax.jit(logits)(Policy(config, sharded), tokens)
    wanted = jax.jit(logits)(Policy(config, unsharded), tokens)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
