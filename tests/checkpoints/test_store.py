import json
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from jaxgrpo.checkpoints.config import CheckpointConfig
from jaxgrpo.checkpoints.store import Checkpoints
from jaxgrpo.core.errors import HostError, UserError
from tests.checkpoints.conftest import abstract_like, bits, make_mesh

SMALL = {"w": np.arange(4, dtype=np.float32)}


def small(value):
    return {"w": jnp.full(4, value, jnp.float32)}


def restore_small(checkpoints, **options):
    return checkpoints.restore(lambda meta: abstract_like(small(0)), **options)


def test_a_run_comes_back_bit_for_bit(tmp_path, state):
    meta = {"seed": 7, "data": {"next_index": 12}, "names": ["a"], "rate": 0.1, "none": None}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(7, state, meta, {"eval/accuracy": 0.5})
    with Checkpoints(tmp_path) as checkpoints:
        seen = []
        restored = checkpoints.restore(lambda meta: seen.append(meta) or abstract_like(state))
    assert (restored.step, restored.meta, seen) == (7, meta, [meta])
    assert bits(restored.arrays) == bits(state)
    assert type(restored.arrays["opt_state"][1][0]) is type(state["opt_state"][1][0])
    # The restored key draws what the saved one would have drawn.
    draw = jax.random.uniform(restored.arrays["key"], (3,))
    np.testing.assert_array_equal(draw, jax.random.uniform(jax.random.key(3), (3,)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "uint32", "bool"])
def test_every_bit_pattern_survives(tmp_path, dtype):
    raw = np.random.default_rng(0).integers(0, 256, 512, dtype=np.uint8)
    # nan payloads, subnormals and -0.0 among them.
    values = (raw % 2).astype(bool) if dtype == "bool" else raw.view(jnp.dtype(dtype))
    saved = {"x": jnp.asarray(values)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, saved, {})
        restored = checkpoints.restore(lambda meta: abstract_like(saved))
    assert np.asarray(restored.arrays["x"]).tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("shape", "names", "spec"),
    [
        ((8,), ("fsdp",), P("fsdp")),
        ((2, 4), ("data", "model"), P("model", "data")),
        ((1,), ("data",), P()),
        ((2,), ("data",), P(None, "data")),
    ],
)
def test_it_restores_onto_any_mesh(tmp_path, state, shape, names, spec):
    devices = jax.devices()[: int(np.prod(shape))]
    sharding = NamedSharding(jax.sharding.Mesh(np.reshape(devices, shape), names), spec)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"w": state["params"]["layers.0/w"]}, {})
        target = {"w": jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=sharding)}
        restored = checkpoints.restore(lambda meta: target)
    assert restored.arrays["w"].sharding.is_equivalent_to(sharding, 2)
    assert bits(restored.arrays) == bits({"w": state["params"]["layers.0/w"]})


def test_without_a_sharding_it_restores_onto_the_first_device(tmp_path, state):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state["params"], {})
        restored = checkpoints.restore(lambda meta: jax.eval_shape(lambda: state["params"]))
    assert restored.arrays["scale"].devices() == {jax.devices()[0]}


def test_arrays_may_be_donated_or_overwritten_as_soon_as_save_returns(tmp_path):
    bump = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    mesh = make_mesh((8,), ("data",))
    for round_, spec in enumerate([P("data"), P()]):
        sharding = NamedSharding(mesh, spec)
        state = {f"w{i}": jnp.full((8, 1 << 14), float(i)) for i in range(12)}
        state = bump(jax.device_put(state, jax.tree.map(lambda _, s=sharding: s, state)))
        host = np.full(1 << 20, 5.0)
        expected = bits({"device": state, "host": host})
        target = abstract_like({"device": state, "host": host})
        with Checkpoints(tmp_path / str(round_)) as checkpoints:
            checkpoints.save(1, {"device": state, "host": host}, {})
            host[:] = -1.0
            for _ in range(5):
                state = bump(state)
            restored = checkpoints.restore(lambda meta, t=target: t)
        assert bits(restored.arrays) == expected


def test_an_empty_folder_restores_nothing_and_is_not_created(tmp_path):
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        assert restore_small(checkpoints) is None
        assert (checkpoints.steps(), checkpoints.latest(), checkpoints.best()) == ((), None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "kept", "best"), [("max", [20, 50, 60], 20), ("min", [40, 50, 60], 40)]
)
def test_the_newest_and_the_best_are_kept(tmp_path, mode, kept, best):
    config = CheckpointConfig(max_to_keep=2, best_metric="accuracy", best_mode=mode)
    scores = {10: 0.3, 20: 0.9, 30: 0.5, 40: 0.1, 50: float("nan"), 60: None}
    with Checkpoints(tmp_path, config) as checkpoints:
        for step, score in scores.items():
            checkpoints.save(step, small(step), {}, {} if score is None else {"accuracy": score})
        assert checkpoints.steps() == tuple(kept)
        assert (checkpoints.best(), checkpoints.latest()) == (best, 60)
        assert restore_small(checkpoints, step=best).arrays["w"][0] == best
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == kept
    # Another process computes the same from what is on disk.
    with Checkpoints(tmp_path, config) as checkpoints:
        assert checkpoints.best() == best


def test_the_newest_of_equals_is_best(tmp_path):
    with Checkpoints(tmp_path, CheckpointConfig(max_to_keep=3, best_metric="a")) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, small(step), {}, {"a": 1.0 if step < 3 else 0.0})
        assert checkpoints.best() == 2


def test_a_step_that_is_saved_already_is_not_saved_again(tmp_path, caplog):
    with Checkpoints(tmp_path) as checkpoints, caplog.at_level(logging.INFO):
        checkpoints.save(5, small(1), {})
        checkpoints.save(5, small(2), {})
        assert "checkpoint 5 is saved already" in caplog.text
        assert restore_small(checkpoints).arrays["w"][0] == 1


def test_what_another_process_left_at_a_step_is_replaced(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(5, small(1), {})
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(5, small(2), {})
        assert restore_small(checkpoints).arrays["w"][0] == 2


def test_a_tree_that_does_not_fit_is_named_leaf_by_leaf(tmp_path, state):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, {"a": jnp.zeros(2), "b": jnp.zeros((2, 3))}, {})
        wanted = {"a": jnp.zeros(2, jnp.bfloat16), "b": jnp.zeros((2, 4)), "c": jnp.zeros(1)}
        with pytest.raises(UserError) as caught:
            checkpoints.restore(lambda meta: wanted)
    assert str(tmp_path / "00000003") in str(caught.value)
    assert str(caught.value).endswith(
        "does not fit this config: ['a'] is float32[2] there, bfloat16[2] here; "
        "['b'] is float32[2, 3] there, float32[2, 4] here; "
        "['c'] is missing there, float32[1] here"
    )


def test_a_step_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        for step in (10, 20):
            checkpoints.save(step, small(step), {})
        with pytest.raises(UserError, match="has no checkpoint 15; it has: 10, 20"):
            restore_small(checkpoints, step=15)
        assert restore_small(checkpoints, step=10).step == 10


@pytest.mark.parametrize(
    ("arrays", "meta", "message"),
    [
        ({"n": 3}, {}, r"got int at \['n'\]; what is not an array belongs in meta"),
        ({"n": np.float32(3)}, {}, r"got float32 at \['n'\]"),
        (SMALL, {"x": object()}, "object is not JSON serializable"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(
    tmp_path, arrays, meta, message
):
    with (
        Checkpoints(tmp_path / "checkpoints") as checkpoints,
        pytest.raises(TypeError, match=message),
    ):
        checkpoints.save(1, arrays, meta)
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_address_is_refused_before_it_becomes_a_local_folder():
    with pytest.raises(UserError, match="need a mounted file system, got 'gs://bucket/run'"):
        Checkpoints("gs://bucket/run")


def test_a_folder_that_cannot_be_made_is_a_host_error(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        Checkpoints(tmp_path / "file") as checkpoints,
        pytest.raises(HostError, match=r"saving checkpoint .*00000001 failed"),
    ):
        checkpoints.save(1, SMALL, {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every_steps": 0}, "every_steps must be at least 1, got 0"),
        ({"max_to_keep": 0}, "max_to_keep must be at least 1, got 0"),
        ({"best_mode": "maximum"}, "best_mode must be 'max' or 'min', got 'maximum'"),
    ],
)
def test_config_values_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        CheckpointConfig(**options)


def test_meta_is_plain_json_on_disk(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, SMALL, {"clip": (0.2, 0.28)})
    assert json.loads((tmp_path / "00000001" / "meta.json").read_text()) == {"clip": [0.2, 0.28]}
