"""What every log-ratio and every weight keeps to; a new one adds one row to its table."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.ratios import (
    RATIOS,
    WEIGHTS,
    counted_tokens,
    effective_sample_size,
    mean_normalised_weights,
)

P = np.array([[0.5, 0.2, 0.9, 0.01], [0.3, 0.9, 0.05, 0.6]])
ANCHOR = np.array([[0.25, 0.4, 0.85, 0.02], [0.05, 0.9, 0.5, 0.1]])
WHERE = np.array([[True, False, True, True], [False, False, False, False]])
LOG = np.log(P / ANCHOR)

# On every token, and on the masked ones: row 0 has three tokens, row 1 none.
GOLDEN_RATIOS = {
    "token_log_ratios": (LOG, np.where(WHERE, LOG, 0)),
    "sequence_mean_log_ratios": (LOG.mean(-1), [LOG[0][WHERE[0]].mean(), 0]),
    "sequence_sum_log_ratios": (LOG.sum(-1), [LOG[0][WHERE[0]].sum(), 0]),
}
# P / ANCHOR is 2, 0.5, 1.06, 0.5 and 6, 1, 0.1, 6.
# A third entry is what the mask makes of a sequence's weight, whose three tokens remain.
GOLDEN_WEIGHTS = {
    "truncated_weights": ({"cap": 1.5}, [[1.5, 0.5, 0.9 / 0.85, 0.5], [1.5, 1, 0.1, 1.5]]),
    "masked_weights": ({"low": 0.6}, [[2, 0, 0.9 / 0.85, 0], [0, 1, 0, 0]]),
    # The products are 0.53 and 3.6, under the mask 1.06.
    "sequence_truncated_weights": ({}, [[0.45 / 0.85] * 4, [2] * 4], 0.9 / 0.85),
    "sequence_masked_weights": ({}, [[0.45 / 0.85] * 4, [0] * 4], 0.9 / 0.85),
    # Their roots are 0.85 and 1.38, under the mask 1.02.
    "geometric_mask": ({"low": 0.9, "high": 1.4}, [[0] * 4, [1] * 4], 1),
    # r - 1 - log r is 0.31, 0.19, 0.002, 0.19 and 3.2, 0, 1.4, 3.2.
    "rejection_mask": ({"level": "token", "threshold": 0.2}, [[0, 1, 1, 1], [0, 1, 0, 0]]),
    # The mean of log 1/r is 0.16 and -0.32, under the mask -0.02.
    "off_policy_sequence_mask": ({"delta": 0.1}, [[0] * 4, [1] * 4], 1),
    # The mean of |r - 1| is 0.51 and 2.7, under the mask 0.52; all advantages are negative.
    "vaco_mask": ({"delta": 0.6}, [[1, 1, 1, 1], [1, 1, 0, 1]]),
    # Sums of r - 1 - log r are 0.31, 0.50, 0.50, 0.69 and 3.2; under the mask 0.31, 0.31, 0.50.
    "prefix_mask": ({"budget": 0.4}, [[1, 0, 0, 0], [0, 0, 0, 0]], np.array([1, 0, 1, 0])),
    # (log r)^2 is 0.48, 0.48, 0.003, 0.48 and 3.2, 0, 5.3, 3.2.
    "second_moment_mask": ({"threshold": 0.1}, [[0, 0, 1, 0], [0, 1, 0, 0]]),
}
NEEDED = {"advantages": jnp.array([-1.0, -1.0])}


def with_needs(registry, name):
    return functools.partial(registry[name], **{n: NEEDED[n] for n in registry.card(name).needs})


FUNCTIONS = {n: with_needs(registry, n) for registry in (RATIOS, WEIGHTS) for n in registry.names()}
TOGETHER = {"second_moment_mask"}  # which compares rows with one another
every = pytest.mark.parametrize("name", FUNCTIONS)


def inputs(dtype=jnp.float32):
    return jnp.asarray(np.log(P), dtype), jnp.asarray(np.log(ANCHOR), dtype)


def test_every_function_has_its_row():
    assert set(RATIOS.names()) == set(GOLDEN_RATIOS)
    assert set(WEIGHTS.names()) == set(GOLDEN_WEIGHTS)


@pytest.mark.parametrize("name", GOLDEN_RATIOS)
@pytest.mark.parametrize(("dtype", "rtol"), [(jnp.float32, 2e-6), (jnp.float64, 1e-12)])
def test_golden_ratios(name, dtype, rtol):
    everywhere, masked = GOLDEN_RATIOS[name]
    with jax.enable_x64(True):
        log_probs, anchor = inputs(dtype)
        values = RATIOS[name](log_probs, anchor)
        masked_values = RATIOS[name](log_probs, anchor, where=jnp.asarray(WHERE))
    assert values.dtype == dtype
    np.testing.assert_allclose(values, everywhere, rtol=rtol, atol=1e-6)
    np.testing.assert_allclose(masked_values, masked, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("name", GOLDEN_WEIGHTS)
def test_golden_weights(name):
    options, expected, *masked_weight = GOLDEN_WEIGHTS[name]
    WEIGHTS.bind(name, **options)
    weights = functools.partial(FUNCTIONS[name], **options)
    np.testing.assert_allclose(weights(*inputs()), expected, rtol=2e-6)
    masked = weights(*inputs(), where=jnp.asarray(WHERE))
    expected = masked_weight[0] if masked_weight else expected
    np.testing.assert_allclose(masked, np.where(WHERE, expected, 0), rtol=2e-6)


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9])
def test_masked_tokens_are_bit_for_bit_without_effect(name, bad):
    where = jnp.asarray(WHERE)

    def total(log_probs, anchor):
        values = FUNCTIONS[name](log_probs, anchor, where=where)
        return jnp.sum(values * 3), values

    log_probs, anchor = inputs()
    evaluate = jax.value_and_grad(total, (0, 1), has_aux=True)
    (_, clean), clean_gradients = evaluate(log_probs, anchor)
    spoilt = jnp.where(where, log_probs, bad), jnp.where(where, anchor, bad)
    (_, values), gradients = evaluate(*spoilt)
    np.testing.assert_array_equal(values, clean)
    np.testing.assert_array_equal(gradients, clean_gradients)
    np.testing.assert_array_equal(np.asarray(gradients[0])[~WHERE], 0)


@every
def test_no_gradient_reaches_the_anchor(name):
    log_probs, anchor = inputs()
    gradient = jax.grad(lambda anchor: FUNCTIONS[name](log_probs, anchor).sum())(anchor)
    np.testing.assert_array_equal(gradient, np.zeros_like(P))


@pytest.mark.parametrize("name", RATIOS.names())
def test_the_ratio_of_a_policy_to_itself_still_has_a_gradient(name):
    log_probs, _ = inputs()

    def total(log_probs):
        return RATIOS[name](log_probs, log_probs).sum()

    value, gradient = jax.value_and_grad(total)(log_probs)
    assert value == 0
    slope = 0.25 if name == "sequence_mean_log_ratios" else 1
    np.testing.assert_array_equal(gradient, np.full_like(P, slope))


@pytest.mark.parametrize("name", WEIGHTS.names())
def test_weights_are_detached_and_1_on_policy(name):
    log_probs, _ = inputs()
    weights = FUNCTIONS[name](log_probs, log_probs)
    np.testing.assert_array_equal(weights, np.ones_like(P))
    gradient = jax.grad(lambda x: FUNCTIONS[name](x, log_probs + 0.1).sum())(log_probs)
    np.testing.assert_array_equal(gradient, np.zeros_like(P))


def test_overflowing_weights_stay_finite():
    log_probs, behaviour = jnp.array([0.0, -200.0]), jnp.array([-200.0, 0.0])
    np.testing.assert_array_equal(
        WEIGHTS["truncated_weights"](log_probs, behaviour, floor=0.25), [2, 0.25]
    )
    np.testing.assert_array_equal(
        WEIGHTS["masked_weights"](log_probs, behaviour, low=0.0, high=float("inf")), [0, 0]
    )


def test_bounds_are_kept_at_equality():
    at_bounds = jnp.log(jnp.array([0.5, 2.0]))
    weights = WEIGHTS["masked_weights"](at_bounds, jnp.zeros(2), low=0.5, high=2.0)
    np.testing.assert_allclose(weights, [0.5, 2], rtol=1e-6)


@every
def test_jit_equals_eager_and_vmap_equals_a_batch_axis(name):
    log_probs, anchor = inputs()
    eager = FUNCTIONS[name](log_probs, anchor)
    np.testing.assert_allclose(jax.jit(FUNCTIONS[name])(log_probs, anchor), eager, rtol=1e-6)
    if name in TOGETHER:
        return
    registry = WEIGHTS if name in WEIGHTS.names() else RATIOS
    needed = {need: NEEDED[need] for need in registry.card(name).needs}
    by_row = jax.vmap(lambda x, y, arrays: registry[name](x, y, **arrays))
    rows = by_row(log_probs, anchor, needed)
    np.testing.assert_allclose(rows, eager, rtol=1e-6)


@every
def test_no_dtype_is_promoted(name):
    with jax.numpy_dtype_promotion("strict"):
        assert FUNCTIONS[name](*inputs(), where=jnp.asarray(WHERE)).dtype == jnp.float32


@every
def test_what_does_not_fit_is_refused(name):
    log_probs, anchor = inputs()
    with pytest.raises(ValueError, match="shapes must be equal"):
        FUNCTIONS[name](log_probs, anchor[:1])
    with pytest.raises(TypeError, match="dtypes must be equal"):
        FUNCTIONS[name](log_probs, anchor.astype(jnp.float16))
    with pytest.raises(TypeError, match="where must be a bool array"):
        FUNCTIONS[name](log_probs, anchor, where=jnp.ones((2, 4)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("truncated_weights", {"cap": 0.0}),
        ("truncated_weights", {"floor": -1.0}),
        ("truncated_weights", {"cap": 1.0, "floor": 1.0}),
        ("masked_weights", {"low": 2.0, "high": 1.0}),
        ("masked_weights", {"low": float("nan")}),
        ("sequence_truncated_weights", {"cap": 0.0}),
        ("sequence_masked_weights", {"low": 2.0, "high": 1.0}),
        ("geometric_mask", {"low": 2.0, "high": 1.0}),
        ("rejection_mask", {"threshold": -1.0}),
        ("off_policy_sequence_mask", {"delta": -1.0}),
        ("vaco_mask", {"delta": -1.0}),
        ("second_moment_mask", {"threshold": -1.0}),
    ],
)
def test_bounds_out_of_order_are_refused(name, options):
    with pytest.raises(ValueError, match="must be"):
        FUNCTIONS[name](*inputs(), **options)


# What k1, k2 and k3 of the ratios above are over a sequence, by hand.
@pytest.mark.parametrize(
    ("estimator", "level", "values"),
    [
        ("k1", "token", np.abs(LOG)),
        ("k1", "sum", np.abs(LOG.sum(-1, keepdims=True))),
        ("k1", "mean", np.abs(LOG.mean(-1, keepdims=True))),
        ("k2", "mean", (LOG**2 / 2).mean(-1, keepdims=True)),
        ("k2", "max", (LOG**2 / 2).max(-1, keepdims=True)),
        ("k3", "sum", (np.exp(LOG) - 1 - LOG).sum(-1, keepdims=True)),
    ],
)
def test_rejection_by_every_statistic(estimator, level, values):
    for threshold in (0.17, 0.5, 1.0, 3.0):
        mask = WEIGHTS["rejection_mask"](
            *inputs(), estimator=estimator, level=level, threshold=threshold
        )
        np.testing.assert_array_equal(mask, np.broadcast_to(values <= threshold, P.shape))


def test_rejection_by_k1_is_the_same_for_a_ratio_and_its_inverse():
    # The trap: a signed test with asymmetric bounds bounds the inverse ratio.
    log_probs, anchor = inputs()
    options = {"estimator": "k1", "level": "token", "threshold": 0.5}
    mask = WEIGHTS["rejection_mask"](log_probs, anchor, **options)
    np.testing.assert_array_equal(mask, WEIGHTS["rejection_mask"](anchor, log_probs, **options))


def test_the_kept_tokens_have_a_small_second_moment():
    log_probs, anchor = inputs()
    for threshold in (0.0, 0.05, 0.2, 0.5, 1.0, 9.0):
        kept = WEIGHTS["second_moment_mask"](log_probs, anchor, threshold=threshold) > 0
        assert (LOG[kept] ** 2).mean() <= threshold + 1e-6
    assert kept.all()


def test_positive_sequences_are_never_left_out_by_the_off_policy_mask():
    log_probs, anchor = inputs()
    for advantages in ([1.0, 0.0], [0.0, 1.0]):
        mask = WEIGHTS["off_policy_sequence_mask"](
            log_probs - 9, anchor, advantages=jnp.array(advantages)
        )
        np.testing.assert_array_equal(mask, np.ones_like(P))


def test_the_denominator_counts_what_it_is_told_to():
    weights = jnp.array([[0.0, 2.0, jnp.nan], [0.0, 0.5, 1.0]])
    where = jnp.array([[True, True, False], [True, True, True]])
    np.testing.assert_array_equal(counted_tokens(weights, where), where)
    left = counted_tokens(weights, where, dropped="leave_out")
    np.testing.assert_array_equal(left, [[False, True, False], [False, True, True]])
    with pytest.raises(ValueError, match="dropped must be 'keep' or 'leave_out', got 'shrink'"):
        counted_tokens(weights, where, dropped="shrink")


def test_normalised_weights_have_a_mean_of_1_over_the_whole_batch():
    weights = jnp.array([[0.0, 2.0, jnp.nan], [0.0, 0.5, 1.0]])
    where = jnp.array([[True, True, False], [True, True, True]])
    normalised = mean_normalised_weights(weights, where=where)
    np.testing.assert_allclose(normalised, [[0, 2 / 0.7, 0], [0, 0.5 / 0.7, 1 / 0.7]], rtol=1e-6)
    np.testing.assert_array_equal(mean_normalised_weights(jnp.zeros(3)), np.zeros(3))
    size = effective_sample_size(weights, where=where)
    np.testing.assert_allclose(size, 3.5**2 / (5 * 5.25), rtol=1e-6)
    assert effective_sample_size(jnp.zeros(3)) == 0
