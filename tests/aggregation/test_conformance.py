"""What every aggregation keeps to; a new one adds one golden row."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxgrpo.aggregation import AGGREGATIONS, row_weights

# Row sums 6, 4, 0, 21 over 3, 1, 0 and 2 tokens.
LOSSES = np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]])
WHERE = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0]], bool)
GROUP_IDS = np.int32([5, 5, -1, 9])
GOLDEN = {
    "token_mean": [({}, 31 / 6)],
    "sequence_mean_token_mean": [({}, (2 + 4 + 10.5) / 3), ({"count_empty": True}, 16.5 / 4)],
    "sequence_mean_token_sum": [({}, 31 / 3), ({"count_empty": True}, 31 / 4)],
    "sequence_mean_constant": [
        ({"length": 4}, 31 / 12),
        ({"length": 4, "count_empty": True}, 31 / 16),
    ],
    "token_sum": [({}, 31)],
    # Tokens of prompt 5: 1, 2, 3, 4; of prompt 9: 10, 11; prompt -1 has none.
    "prompt_mean": [({}, (2.5 + 10.5) / 2), ({"count_empty": True}, 13 / 3)],
}
ROWS = [(name, *row) for name, rows in GOLDEN.items() for row in rows]
every = pytest.mark.parametrize(("name", "options"), [(name, options) for name, options, _ in ROWS])

random = np.random.default_rng(0)
MANY = jnp.asarray(random.normal(size=(16, 7)), jnp.float32)
LENGTHS = np.array([7, 1, 3, 0, 5, 7, 2, 4, 6, 0, 1, 7, 3, 2, 5, 4])
MANY_WHERE = jnp.asarray(np.arange(7) < LENGTHS[:, None])
MANY_IDS = jnp.asarray(np.repeat([3, 1, 2, 1], 4))


def aggregate(name, losses, where, options, group_ids=None, **arrays):
    return AGGREGATIONS[name](losses, where, group_ids=group_ids, **options, **arrays)


def test_every_aggregation_has_a_row():
    assert set(AGGREGATIONS.names()) == set(GOLDEN)


@pytest.mark.parametrize(("name", "options", "expected"), ROWS)
@pytest.mark.parametrize(("dtype", "rtol"), [(jnp.float32, 1e-6), (jnp.float64, 1e-14)])
def test_golden_values(name, options, expected, dtype, rtol):
    with jax.enable_x64(True):
        losses = jnp.asarray(LOSSES, dtype)
        got = aggregate(name, losses, jnp.asarray(WHERE), options, jnp.asarray(GROUP_IDS))
    assert got.dtype == dtype
    assert got.shape == ()
    np.testing.assert_allclose(got, expected, rtol=rtol)


@every
def test_row_weights_are_what_an_aggregation_is_made_of(name, options):
    where, group_ids = jnp.asarray(WHERE), jnp.asarray(GROUP_IDS)
    weights = row_weights(name, where, group_ids=group_ids, **options)
    assert weights.dtype == jnp.float32
    assert weights[2] == 0
    np.testing.assert_allclose(
        np.sum(weights * np.sum(LOSSES, axis=1, where=WHERE)),
        dict((str(o), e) for n, o, e in ROWS if n == name)[str(options)],
        rtol=1e-6,
    )


@every
@pytest.mark.parametrize("cuts", [[8], [4, 8, 12], [1, 3, 10], list(range(1, 16))])
def test_micro_batches_add_up_to_the_whole(name, options, cuts):
    def whole(losses):
        return aggregate(name, losses, MANY_WHERE, options, MANY_IDS)

    weights = row_weights(name, MANY_WHERE, group_ids=MANY_IDS, **options)
    value, gradient = jax.value_and_grad(whole)(MANY)
    evaluate = jax.jit(
        jax.value_and_grad(
            lambda losses, where, weights: aggregate(
                name, losses, where, options, row_weights=weights
            )
        )
    )
    total, gradients = 0.0, []
    for rows in np.split(np.arange(16), cuts):
        part_value, part_gradient = evaluate(MANY[rows], MANY_WHERE[rows], weights[rows])
        total += part_value
        gradients.append(part_gradient)
    np.testing.assert_allclose(total, value, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(gradients), gradient, rtol=1e-6)


@every
@pytest.mark.parametrize("devices", [2, 8])
def test_shards_add_up_to_the_whole(name, options, devices):
    value, gradient = jax.value_and_grad(
        lambda losses: aggregate(name, losses, MANY_WHERE, options, MANY_IDS)
    )(MANY)
    mesh = jax.make_mesh(
        (devices,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:devices]
    )
    rows = NamedSharding(mesh, P("data"))
    losses, where, ids = (jax.device_put(x, rows) for x in (MANY, MANY_WHERE, MANY_IDS))

    # Left to the compiler: everything follows from the sharded arrays.
    automatic = jax.jit(
        jax.value_and_grad(lambda losses, where, ids: aggregate(name, losses, where, options, ids))
    )
    for got, expected in zip(automatic(losses, where, ids), (value, gradient), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)

    # By hand: global weights first, then each shard on its own, and a sum.
    weights = jax.jit(lambda where, ids: row_weights(name, where, group_ids=ids, **options))(
        where, ids
    )

    def shard(losses, where, weights):
        part = aggregate(name, losses, where, options, row_weights=weights)
        return jax.lax.psum(part, "data")

    by_hand = jax.shard_map(shard, mesh=mesh, in_specs=P("data"), out_specs=P())
    np.testing.assert_allclose(
        jax.jit(by_hand)(losses, where, weights), value, rtol=1e-6, atol=1e-6
    )


@every
def test_rows_may_come_in_any_order_and_padded_to_any_width(name, options):
    value = aggregate(name, MANY, MANY_WHERE, options, MANY_IDS)
    order = np.random.default_rng(1).permutation(16)
    shuffled = aggregate(name, MANY[order], MANY_WHERE[order], options, MANY_IDS[order])
    np.testing.assert_allclose(shuffled, value, rtol=1e-5, atol=1e-6)
    wide = jnp.pad(MANY, ((0, 0), (3, 9)), constant_values=jnp.nan)
    padded = aggregate(name, wide, jnp.pad(MANY_WHERE, ((0, 0), (3, 9))), options, MANY_IDS)
    np.testing.assert_allclose(padded, value, rtol=1e-6, atol=1e-6)


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9])
def test_masked_tokens_are_bit_for_bit_without_effect(name, options, bad):
    def evaluate(losses):
        return aggregate(name, losses, MANY_WHERE, options, MANY_IDS)

    value, gradient = jax.value_and_grad(evaluate)(jnp.where(MANY_WHERE, MANY, 0))
    got, got_gradient = jax.value_and_grad(evaluate)(jnp.where(MANY_WHERE, MANY, bad))
    assert got == value
    np.testing.assert_array_equal(got_gradient, gradient)
    np.testing.assert_array_equal(np.asarray(gradient)[~np.asarray(MANY_WHERE)], 0)


@every
def test_an_empty_mask_is_0_with_gradient_0(name, options):
    nothing = jnp.zeros_like(MANY_WHERE)
    value, gradient = jax.value_and_grad(
        lambda losses: aggregate(name, losses, nothing, options, MANY_IDS)
    )(MANY.at[0, 0].set(jnp.nan))
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((16, 7)))
    weights = row_weights(name, nothing, group_ids=MANY_IDS, **options)
    np.testing.assert_array_equal(weights, np.zeros(16))


@every
def test_no_mask_means_every_token(name, options):
    everything = jnp.ones_like(MANY_WHERE)
    np.testing.assert_array_equal(
        aggregate(name, MANY, None, options, MANY_IDS),
        aggregate(name, MANY, everything, options, MANY_IDS),
    )


@every
def test_jit_vmap_and_strict_dtypes(name, options):
    function = functools.partial(AGGREGATIONS[name], **options)

    def evaluate(losses, where, ids):
        return function(losses, where, group_ids=ids)

    value = evaluate(MANY, MANY_WHERE, MANY_IDS)
    with jax.numpy_dtype_promotion("strict"):
        jitted = jax.jit(evaluate)(MANY, MANY_WHERE, MANY_IDS)
    np.testing.assert_allclose(jitted, value, rtol=1e-6)
    batched = jax.vmap(evaluate)(*(jnp.stack([x, x]) for x in (MANY, MANY_WHERE, MANY_IDS)))
    np.testing.assert_allclose(batched, [value, value], rtol=1e-6)


@every
def test_half_precision_losses_are_added_in_float32(name, options):
    ones = jnp.ones((2, 2048), jnp.bfloat16)
    where, ids = jnp.ones((2, 2048), bool), jnp.zeros(2, int)
    value = aggregate(name, ones, where, options, ids)
    assert value.dtype == jnp.float32
    expected = {
        "token_sum": 4096,
        "sequence_mean_token_sum": 2048,
        "sequence_mean_constant": 2048 / 4,
    }.get(name, 1)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_many_prompts_are_counted_exactly():
    # 1/3 + 1/3 + 1/3 style shares would not count to a whole number.
    ids = jnp.repeat(jnp.arange(100), 7)
    where = jnp.ones((700, 3), bool)
    weights = row_weights("prompt_mean", where, group_ids=ids)
    np.testing.assert_array_equal(weights, np.full(700, np.float32(1 / 100) * np.float32(1 / 21)))


def test_the_constant_does_not_depend_on_the_width():
    losses, where = jnp.ones((2, 3)), jnp.ones((2, 3), bool)
    narrow = AGGREGATIONS["sequence_mean_constant"](losses, where, length=12)
    wide = AGGREGATIONS["sequence_mean_constant"](
        jnp.ones((2, 30)), jnp.pad(where, ((0, 0), (0, 27))), length=12
    )
    assert narrow == wide == 0.25


@every
def test_what_does_not_fit_is_refused(name, options):
    losses, where, ids = jnp.asarray(LOSSES), jnp.asarray(WHERE), jnp.asarray(GROUP_IDS)
    with pytest.raises(ValueError, match="shapes must be equal"):
        aggregate(name, losses, where[:2], options, ids)
    with pytest.raises(ValueError, match=r"token_losses must have shape \[any, any\]"):
        aggregate(name, losses[0], where[0], options, ids)
    with pytest.raises(TypeError, match="where must be a bool array"):
        aggregate(name, losses, losses, options, ids)
    with pytest.raises(ValueError, match=r"row_weights must have shape \[4\]"):
        aggregate(name, losses, where, options, ids, row_weights=jnp.ones(3))
    with pytest.raises(TypeError, match="has no option"):
        row_weights(name, where, group_ids=ids, **options, size=3)


def test_prompts_need_their_ids():
    losses, where = jnp.asarray(LOSSES), jnp.asarray(WHERE)
    with pytest.raises(ValueError, match="prompt_mean needs group_ids"):
        AGGREGATIONS["prompt_mean"](losses, where)
    with pytest.raises(ValueError, match=r"group_ids must have shape \[4\]"):
        row_weights("prompt_mean", where, group_ids=jnp.zeros(3, int))
    with pytest.raises(TypeError, match="group_ids must be an integer array"):
        row_weights("prompt_mean", where, group_ids=jnp.zeros(4))


def test_the_constant_must_be_given_and_positive():
    where = jnp.asarray(WHERE)
    with pytest.raises(TypeError, match="must be given the option length"):
        row_weights("sequence_mean_constant", where)
    with pytest.raises(ValueError, match="length must be more than 0"):
        row_weights("sequence_mean_constant", where, length=0)


def test_the_weights_carry_no_gradient():
    weights = jnp.ones(4)
    gradient = jax.grad(
        lambda w: AGGREGATIONS["token_mean"](jnp.asarray(LOSSES), jnp.asarray(WHERE), row_weights=w)
    )(weights)
    np.testing.assert_array_equal(gradient, np.zeros(4))
