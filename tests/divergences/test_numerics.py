"""Accuracy where the textbook forms lose their digits, and behaviour at the ends of the range."""

from decimal import Decimal, getcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.divergences import binary_kl, kl3

getcontext().prec = 60

MAGNITUDES = np.concatenate([np.logspace(-9, 1.5, 60), [0.0499, 0.0501, 0.149, 0.151, 0.499, 0.5]])
LOG_RATIOS = np.concatenate([MAGNITUDES, -MAGNITUDES])


def exact_kl3(log_ratio):
    return float(Decimal(float(log_ratio)).exp() - 1 - Decimal(float(log_ratio)))


def exact_binary_kl(sampler, other):
    p, q = Decimal(float(sampler)).exp(), Decimal(float(other)).exp()
    return float(p * (p / q).ln() + (1 - p) * ((1 - p) / (1 - q)).ln())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kl3_is_accurate_to_a_few_units_in_the_last_place(dtype):
    log_ratios = LOG_RATIOS.astype(dtype)
    with jax.enable_x64(True):
        sampler, other = jnp.zeros(len(log_ratios), dtype), jnp.asarray(log_ratios)
        values = kl3(sampler, other)
        gradients = jax.grad(lambda other: kl3(sampler, other).sum())(other)
    few = (8 if dtype == np.float32 else 32) * np.finfo(dtype).eps
    np.testing.assert_allclose(values, [exact_kl3(r) for r in log_ratios], rtol=few)
    slopes = [float(Decimal(float(r)).exp() - 1) for r in log_ratios]
    np.testing.assert_allclose(gradients, slopes, rtol=few)


def test_kl3_keeps_its_accuracy_under_jit_and_half_of_its_square_at_the_origin():
    tiny = jnp.array([1e-6, -1e-6, 3e-4])
    np.testing.assert_allclose(
        jax.jit(kl3)(jnp.zeros(3), tiny), [exact_kl3(r) for r in np.asarray(tiny)], rtol=1e-6
    )


def test_kl3_overflows_to_inf_and_never_to_nan():
    sampler = jnp.zeros(4)
    other = jnp.array([200.0, jnp.inf, -1e30, -jnp.inf])
    np.testing.assert_array_equal(kl3(sampler, other), np.float32([np.inf, np.inf, 1e30, np.inf]))


def test_swapping_the_arguments_of_kl3_reverses_the_asymmetry():
    behaviour, policy = jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.75]))
    # w = 1.5 one way, 1 / 1.5 the other: by hand.
    np.testing.assert_allclose(kl3(behaviour, policy), [0.5 - np.log(1.5)], rtol=1e-6)
    np.testing.assert_allclose(kl3(policy, behaviour), [-1 / 3 + np.log(1.5)], rtol=1e-6)


@pytest.mark.parametrize("sampler", [-1e-6, -1e-3, -0.1, -0.7, -3.0, -20.0])
@pytest.mark.parametrize("move", [1e-5, -1e-5, 1e-2, -1e-2, -0.5, -5.0])
def test_binary_kl_does_not_cancel(sampler, move):
    # Relative moves of the log-prob, so that it stays below 0.
    pair = np.float32([sampler, sampler * (1 + move) if move > -1 else sampler * (1 - move)])
    value = binary_kl(jnp.asarray(pair[:1]), jnp.asarray(pair[1:]))[0]
    np.testing.assert_allclose(value, exact_binary_kl(*pair), rtol=2e-5, atol=1e-30)


def test_binary_kl_at_certainty():
    sampler, other = jnp.array([0.0, 0.0, -1.0]), jnp.array([0.0, -1.0, 0.0])
    value = binary_kl(sampler, other)
    # P = 1: only -log Q is left. Q = 1: the missing mass counts as one rounding error.
    np.testing.assert_allclose(value[:2], [0, 1], atol=3e-6)
    assert 5 < value[2] < 20
    gradients = jax.grad(lambda x: binary_kl(sampler, x).sum())(other)
    assert bool(jnp.all(jnp.isfinite(gradients)))


def test_binary_kl_does_not_see_a_move_within_rounding_of_certainty():
    # P = 1 - 6e-8 and Q = 1 differ by less than a float32 log-prob can say.
    assert binary_kl(jnp.float32([-6e-8]), jnp.float32([0.0]))[0] < 1e-6


@pytest.mark.parametrize("sampler", [-1e-4, -0.3, -4.0])
def test_binary_kl_has_the_gradient_of_the_closed_form(sampler):
    with jax.enable_x64(True):
        others = jnp.array([sampler * f for f in (0.01, 0.9, 1.0001, 1.5, 10.0)])
        samplers = jnp.full_like(others, sampler)
        gradient = jax.grad(lambda x: binary_kl(samplers, x).sum())(others)
    others = np.asarray(others)
    # (Q - P) / (1 - Q), without the cancellation in either difference.
    expected = np.exp(sampler) * np.expm1(others - sampler) / -np.expm1(others)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9)
