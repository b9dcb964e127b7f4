import jax
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from jaxgrpo.core.errors import UserError
from jaxgrpo.sharding import (
    AxisRules,
    MeshConfig,
    batch_sharding,
    build_mesh,
    replicated,
    row_shards,
)


@pytest.mark.parametrize(
    ("sizes", "devices", "shape"),
    [
        ({}, 1, (1, 1, 1)),
        ({}, 8, (1, 8, 1)),
        ({"data": 2}, 8, (2, 4, 1)),
        ({"data": -1, "fsdp": 2, "model": 2}, 8, (2, 2, 2)),
        ({"fsdp": 1, "model": -1}, 6, (1, 1, 6)),
        ({"data": 4, "fsdp": 2}, 8, (4, 2, 1)),
    ],
)
def test_the_free_axis_takes_what_is_left(sizes, devices, shape):
    assert MeshConfig(**sizes).shape(devices) == shape


@pytest.mark.parametrize(
    ("sizes", "devices"), [({"data": 3}, 8), ({"fsdp": 4}, 8), ({"data": 16}, 8)]
)
def test_a_mesh_that_does_not_fit_is_refused_by_name(sizes, devices):
    with pytest.raises(UserError, match=rf"mesh: data .*, fsdp .* does not fit {devices} devices"):
        MeshConfig(**sizes).shape(devices)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="model must be -1 or at least 1, got 0"):
        MeshConfig(model=0)
    with pytest.raises(ValueError, match="only one mesh axis may be -1"):
        MeshConfig(data=-1)


def test_axes_are_propagated_by_the_compiler():
    mesh = build_mesh(MeshConfig(data=2, model=2))
    assert mesh.shape == {"data": 2, "fsdp": 2, "model": 2}
    assert set(mesh.axis_types) == {AxisType.Auto}
    assert build_mesh(MeshConfig(), jax.devices()[:1]).size == 1


def test_rows_are_split_over_data_and_fsdp():
    mesh = build_mesh(MeshConfig(data=2, fsdp=2, model=2))
    assert row_shards(mesh) == 4
    rows = jax.device_put(np.arange(8), batch_sharding(mesh))
    shards = {shard.index[0].start: shard.data.tolist() for shard in rows.addressable_shards}
    assert shards == {0: [0, 1], 2: [2, 3], 4: [4, 5], 6: [6, 7]}
    assert row_shards(mesh, AxisRules(batch="data")) == 2
    whole = jax.device_put(np.arange(8), replicated(mesh))
    assert all(shard.data.shape == (8,) for shard in whole.addressable_shards)


def test_a_rule_that_is_missing_is_named():
    with pytest.raises(LookupError, match="no rule for logical axis 'experts'; known: "):
        AxisRules().spec(("layers", "experts"))


@pytest.mark.parametrize(
    ("rules", "logical", "message"),
    [
        ({"mlp": "fsdp"}, ("embed", "mlp"), "mesh axis 'fsdp' would split 'embed' and 'mlp'"),
        (
            {"embed": ("data", "model")},
            ("vocabulary", "embed"),
            "mesh axis 'model' would split 'vocabulary' and 'embed'",
        ),
        ({}, ("heads", "mlp"), "mesh axis 'model' would split 'heads' and 'mlp'"),
    ],
)
def test_a_mesh_axis_on_two_array_axes_is_refused_by_name(rules, logical, message):
    with pytest.raises(ValueError, match=message):
        AxisRules(**rules).spec(logical)


def test_an_axis_that_does_not_divide_stays_whole():
    mesh = build_mesh(MeshConfig(data=1, fsdp=2, model=4))
    rules = AxisRules()
    assert rules.sharding(mesh, ("embed", "mlp"), (6, 8)).spec == P("fsdp", "model")
    assert rules.sharding(mesh, ("embed", "mlp"), (7, 8)).spec == P(None, "model")
    assert rules.sharding(mesh, ("embed", "mlp"), (6, 6)).spec == P("fsdp", None)
    assert rules.sharding(mesh, (None, "mlp"), (6, 8)).spec == P(None, "model")
    heads = rules.sharding(mesh, ("embed", "kv_heads"), (6, 8), {"kv_heads": 2})
    assert heads.spec == P("fsdp", None)
