"""What every policy loss keeps to; a new one adds rows of golden weights and values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxgrpo.losses import LOSSES

RATIOS = np.array([0.5, 0.79, 1, 1.19, 1.25, 2, 4])
FREE = [0.5, 0.79, 1, 1.19, 1.25, 2, 4]
# (name, options): weights on grad log pi in units of A, for A > 0 and for A < 0, at these ratios;
# then the values in units of -A.
HIGH_AT_1_2 = [0.5, 0.79, 1, 1.19, 0, 0, 0]
LOW_AT_0_8 = [0, 0, 1, 1.19, 1.25, 2, 4]
ROWS = {
    "ppo": (
        "ppo_clip",
        {},
        (HIGH_AT_1_2, LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1.2, 1.2, 1.2], [0.8, 0.8, 1, 1.19, 1.25, 2, 4]),
    ),
    "dapo": (
        "ppo_clip",
        {"clip_high": 0.28},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1.25, 1.28, 1.28], [0.8, 0.8, 1, 1.19, 1.25, 2, 4]),
    ),
    "dual clip": (
        "ppo_clip",
        {"dual_clip": 3.0},
        (HIGH_AT_1_2, [0, 0, 1, 1.19, 1.25, 2, 0]),
        ([0.5, 0.79, 1, 1.19, 1.2, 1.2, 1.2], [0.8, 0.8, 1, 1.19, 1.25, 2, 3]),
    ),
    "ppo unclipped": (
        "ppo_clip",
        {"clip_low": 1.0, "clip_high": float("inf")},
        (FREE, FREE),
        (FREE, FREE),
    ),
    "ppo closed": (
        "ppo_clip",
        {"clip_low": 0.0, "clip_high": 0.0},
        ([0.5, 0.79, 1, 0, 0, 0, 0], [0, 0, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1, 1, 1, 1], [1, 1, 1, 1.19, 1.25, 2, 4]),
    ),
    # The interval of delta = 0.023144 is 0.80000 to 1.23084.
    "atr": (
        "atr",
        {"delta": 0.023144},
        (HIGH_AT_1_2, LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1.23084, 1.23084, 1.23084], [0.8, 0.8, 1, 1.19, 1.25, 2, 4]),
    ),
    "atr closed": (
        "atr",
        {"delta": 0.0},
        ([0.5, 0.79, 1, 0, 0, 0, 0], [0, 0, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1, 1, 1, 1], [1, 1, 1, 1.19, 1.25, 2, 4]),
    ),
    "atr open": ("atr", {"delta": float("inf")}, (FREE, FREE), (FREE, FREE)),
    "trust region": (
        "trust_region",
        {"divergence": "tv", "delta": 0.1},
        (HIGH_AT_1_2, LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1, 1, 1], [1, 1, 1, 1.19, 1.25, 2, 4]),
    ),
    "trust region, two bounds": (
        "trust_region",
        {"divergence": "tv", "delta": 0.14, "delta_low": 0.24},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], [0, 0.79, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1.19, 1.25, 1, 1], [1, 0.79, 1, 1.19, 1.25, 2, 4]),
    ),
    # The anchor's probability is 0.2: |P - Q| is 0.1, 0.042, 0, 0.038, 0.05, 0.2, 0.6.
    "binary trust region": (
        "trust_region",
        {"divergence": "binary_tv", "delta": 0.06},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], [0, 0.79, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1.19, 1.25, 1, 1], [1, 0.79, 1, 1.19, 1.25, 2, 4]),
    ),
    # The value is -A log pi, here in units of -A.
    "reinforce": ("reinforce", {}, ([1] * 7, [1] * 7), (np.log(0.2 * RATIOS),) * 2),
}
every = pytest.mark.parametrize("row", ROWS)
# What holds of single tokens is not asked of losses that look at whole sequences.
every_token_level = pytest.mark.parametrize(
    "row", [row for row, (name, *_) in ROWS.items() if LOSSES.card(name).level == "token"]
)
both_precisions = pytest.mark.parametrize(
    ("dtype", "rtol"), [(jnp.float32, 1e-5), (jnp.float64, 1e-12)]
)

RANDOM = np.random.default_rng(3)
ANCHOR = np.log(RANDOM.uniform(0.05, 0.3, size=(4, 5)))
LOG_PROBS = ANCHOR + RANDOM.normal(size=(4, 5)) * 0.4
ADVANTAGES = np.array([1.5, -0.7, 0.0, 2.0])
WHERE = np.arange(5) < np.array([[5], [3], [4], [0]])


def loss_of(row):
    name, options, *_ = ROWS[row]
    return LOSSES.bind(name, **options)


def inputs(dtype=jnp.float32):
    return tuple(jnp.asarray(x, dtype) for x in (LOG_PROBS, ANCHOR, ADVANTAGES))


@functools.partial(jax.jit, static_argnames="row")
def value_and_gradient(row, log_probs, anchor, advantages, where=None):
    def total(log_probs):
        values = loss_of(row)(log_probs, anchor, advantages, where=where)
        return values.sum(), values

    (_, values), gradient = jax.value_and_grad(total, has_aux=True)(log_probs)
    return values, gradient


def test_every_loss_has_a_row():
    assert {name for name, *_ in ROWS.values()} == set(LOSSES.names())


@every_token_level
@both_precisions
@pytest.mark.parametrize("advantage", [3.0, -0.5])
def test_golden_weights_and_values(row, dtype, rtol, advantage):
    _, _, weights, values = ROWS[row]
    side = 0 if advantage > 0 else 1
    with jax.enable_x64(True):
        anchor = jnp.full((1, 7), np.log(0.2), dtype)
        log_probs = jnp.asarray(np.log(0.2 * RATIOS)[None], dtype)
        # The ratio 1 must be exactly that.
        log_probs = log_probs.at[0, 2].set(anchor[0, 2])
        got, gradient = value_and_gradient(row, log_probs, anchor, jnp.array([advantage], dtype))
    assert got.dtype == gradient.dtype == dtype
    expected = -advantage * np.asarray(weights[side], float)
    np.testing.assert_allclose(gradient[0], expected, rtol=rtol)
    np.testing.assert_array_equal(np.asarray(gradient[0])[expected == 0], 0)
    # The interval of ATR is known to five decimals here.
    value_rtol = 1e-5 if row == "atr" else rtol
    np.testing.assert_allclose(got[0], -advantage * np.asarray(values[side]), rtol=value_rtol)


@every_token_level
def test_on_policy_the_gradient_is_exactly_minus_the_advantage(row):
    log_probs, _, advantages = inputs()
    _, gradient = value_and_gradient(row, log_probs, log_probs, advantages)
    np.testing.assert_array_equal(gradient, np.broadcast_to(-advantages[:, None], (4, 5)))


@every
def test_the_expected_gradient_is_the_declared_one(row, enumeration):
    name, *_ = ROWS[row]
    assert LOSSES.card(name).gradient == "policy_gradient"
    gradient = enumeration.expected_gradient(
        lambda log_probs: loss_of(row)(
            log_probs, jax.lax.stop_gradient(log_probs), jnp.asarray(enumeration.rewards)
        )
    )
    np.testing.assert_allclose(gradient, -enumeration.policy_gradient(), rtol=1e-10, atol=1e-14)


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9, -1e9])
def test_masked_tokens_are_bit_for_bit_without_effect(row, bad):
    log_probs, anchor, advantages = inputs()
    where = jnp.asarray(WHERE)
    clean = value_and_gradient(row, log_probs, anchor, advantages, where)
    advantages = jnp.where(where, advantages[:, None], bad)
    for fills in ((bad, bad), (bad, -1.0), (-1.0, bad)):
        spoilt = [jnp.where(where, x, f) for x, f in zip((log_probs, anchor), fills, strict=True)]
        got = value_and_gradient(row, *spoilt, advantages, where)
        for mine, expected in zip(got, clean, strict=True):
            np.testing.assert_array_equal(mine, expected)
            np.testing.assert_array_equal(np.asarray(mine)[~WHERE], 0)


@every
def test_an_unused_row_of_nan_advantages_has_no_effect(row):
    log_probs, anchor, advantages = inputs()
    where = jnp.asarray(WHERE)
    spoilt = advantages.at[3].set(jnp.nan)  # the row without tokens
    got = value_and_gradient(row, log_probs, anchor, spoilt, where)
    for mine, expected in zip(
        got, value_and_gradient(row, log_probs, anchor, advantages, where), strict=True
    ):
        np.testing.assert_array_equal(mine, expected)


@every_token_level
def test_a_mask_equals_boolean_indexing(row):
    log_probs, anchor, advantages = inputs()
    each = jnp.broadcast_to(advantages[:, None], (4, 5))
    masked = value_and_gradient(row, log_probs, anchor, each, jnp.asarray(WHERE))
    indexed = value_and_gradient(row, log_probs[WHERE], anchor[WHERE], each[WHERE])
    for mine, expected in zip(masked, indexed, strict=True):
        np.testing.assert_allclose(np.asarray(mine)[WHERE], expected, rtol=1e-6)


@every
def test_no_advantage_means_no_gradient_whatever_the_ratio(row):
    log_probs = jnp.array([[200.0, -200.0, jnp.inf, -jnp.inf, 0.0]])
    values, gradient = value_and_gradient(row, log_probs, jnp.zeros((1, 5)), jnp.zeros(1))
    np.testing.assert_array_equal(values, np.zeros((1, 5)))
    np.testing.assert_array_equal(gradient, np.zeros((1, 5)))


@pytest.mark.parametrize("row", ["ppo", "dapo", "dual clip", "atr", "trust region"])
def test_a_clipped_token_has_no_gradient_even_where_its_ratio_overflows(row):
    # Raised beyond float32 for A > 0, abandoned for A < 0.
    log_probs = jnp.array([[200.0, jnp.inf], [-200.0, -jnp.inf]])
    values, gradient = value_and_gradient(row, log_probs, jnp.zeros((2, 2)), jnp.array([2.0, -2.0]))
    np.testing.assert_array_equal(gradient, np.zeros((2, 2)))
    assert bool(jnp.all(jnp.isfinite(values)))


@every
def test_sequence_advantages_are_token_advantages_repeated(row):
    log_probs, anchor, advantages = inputs()
    each = jnp.repeat(advantages[:, None], 5, axis=1)
    for mine, expected in zip(
        value_and_gradient(row, log_probs, anchor, advantages),
        value_and_gradient(row, log_probs, anchor, each),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, expected)


@every
def test_as_many_sequences_as_tokens_are_not_confused(row):
    log_probs, anchor, advantages = inputs()
    square, anchor = log_probs[:, :4], anchor[:, :4]
    values, _ = value_and_gradient(row, square, anchor, advantages)
    for b in range(4):
        alone, _ = value_and_gradient(
            row, square[b : b + 1], anchor[b : b + 1], advantages[b : b + 1]
        )
        np.testing.assert_allclose(values[b], alone[0], rtol=1e-6)


@every
def test_only_the_policy_carries_gradient(row):
    log_probs, anchor, advantages = inputs()

    def total(anchor, advantages):
        return loss_of(row)(log_probs, anchor, advantages).sum()

    for gradient in jax.grad(total, (0, 1))(anchor, advantages):
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


@every
def test_gradients_are_those_of_the_value(row):
    with jax.enable_x64(True):
        log_probs, anchor, advantages = inputs(jnp.float64)
        check_grads(
            lambda x: loss_of(row)(x, anchor, advantages), (log_probs,), 1, modes=("fwd", "rev")
        )


@every
def test_jit_equals_eager_and_vmap_equals_a_batch_axis(row):
    loss, arguments = loss_of(row), inputs()
    eager = loss(*arguments)
    np.testing.assert_allclose(jax.jit(loss)(*arguments), eager, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(loss)(*arguments), eager, rtol=1e-6)


@every
def test_no_dtype_is_promoted(row):
    with jax.numpy_dtype_promotion("strict"):
        assert loss_of(row)(*inputs(), where=jnp.asarray(WHERE)).dtype == jnp.float32


@every
def test_what_does_not_fit_is_refused(row):
    loss = loss_of(row)
    log_probs, anchor, advantages = inputs()
    with pytest.raises(ValueError, match="shapes must be equal"):
        loss(log_probs, anchor[:, :1], advantages)
    with pytest.raises(ValueError, match=r"advantages must have shape \[4\] or \[4, 5\]"):
        loss(log_probs, anchor, advantages[:, None])
    with pytest.raises(ValueError, match=r"advantages must have shape \[4\] or \[4, 5\]"):
        loss(log_probs, anchor, jnp.zeros(5))
    with pytest.raises(TypeError, match="dtypes must be equal"):
        loss(log_probs, anchor, advantages.astype(jnp.bfloat16))
    with pytest.raises(TypeError, match="where must be a bool array"):
        loss(log_probs, anchor, advantages, where=jnp.ones((4, 5)))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ppo_clip", {"clip_low": -0.1}, "clip_low must be at least 0"),
        ("ppo_clip", {"clip_high": float("nan")}, "clip_high must be at least 0"),
        ("ppo_clip", {"dual_clip": 1.2}, r"dual_clip must be more than 1 \+ clip_high = 1.2"),
        ("ppo_clip", {"dual_clip": float("nan")}, "dual_clip must be"),
        ("atr", {"delta": -0.01}, "delta must be at least 0"),
        ("trust_region", {"divergence": "tv", "delta": -0.1}, "delta must be at least 0"),
        ("trust_region", {"divergence": "tv", "delta": 0.1, "delta_low": -1.0}, "delta_low must"),
    ],
)
def test_options_out_of_range_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        LOSSES.bind(name, **options)(*inputs())
