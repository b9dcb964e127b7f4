"""What every sampled-token divergence keeps to; a new one adds one row to each table."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from jaxgrpo.divergences import DIVERGENCES

# By definition, from the probabilities p and q of the token, in NumPy and float64.
FORMULAS = {
    "kl1": lambda p, q: np.log(p / q),
    "kl2": lambda p, q: np.log(p / q) ** 2 / 2,
    "kl3": lambda p, q: q / p - 1 - np.log(q / p),
    "tv": lambda p, q: np.abs(q / p - 1) / 2,
    "chi2": lambda p, q: (q / p - 1) ** 2,
    "hellinger": lambda p, q: (np.sqrt(q / p) - 1) ** 2,
    "binary_kl": lambda p, q: p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)),
    "binary_tv": lambda p, q: np.abs(p - q),
}
# The same at p = 0.5, q = 0.25, by hand.
AT_HALF_AND_QUARTER = {
    "kl1": np.log(2),
    "kl2": np.log(2) ** 2 / 2,
    "kl3": np.log(2) - 0.5,
    "tv": 0.25,
    "chi2": 0.25,
    "hellinger": 1.5 - np.sqrt(2),
    "binary_kl": np.log(2) - np.log(3) / 2,
    "binary_tv": 0.25,
}
# Divergences of whole distributions whose unbiased estimate the operator is.
EXACT = {
    "kl1": lambda p, q: np.sum(p * np.log(p / q)),
    "kl3": lambda p, q: np.sum(p * np.log(p / q)),
    "tv": lambda p, q: np.sum(np.abs(p - q)) / 2,
    "chi2": lambda p, q: np.sum((p - q) ** 2 / p),
    "hellinger": lambda p, q: np.sum((np.sqrt(p) - np.sqrt(q)) ** 2),
}
SIGNED = {"kl1"}

P = np.array([[0.5, 0.2, 0.9, 0.01], [0.3, 0.97, 0.05, 0.6]])
Q = np.array([[0.25, 0.4, 0.85, 0.02], [0.35, 0.94, 0.5, 0.55]])
WHERE = np.array([[True, False, True, True], [False, True, True, False]])
every = pytest.mark.parametrize("name", DIVERGENCES.names())


def inputs(dtype=jnp.float32):
    return jnp.asarray(np.log(P), dtype), jnp.asarray(np.log(Q), dtype)


@functools.partial(jax.jit, static_argnames="name")
def value_and_gradients(name, sampler, other, where=None):
    weights = jnp.arange(1, 1 + sampler.size, dtype=sampler.dtype).reshape(sampler.shape)

    def total(sampler, other):
        values = DIVERGENCES[name](sampler, other, where=where)
        return jnp.sum(values * weights), values

    (_, values), gradients = jax.value_and_grad(total, (0, 1), has_aux=True)(sampler, other)
    return values, *gradients


def test_every_divergence_has_its_rows():
    assert set(DIVERGENCES.names()) == set(FORMULAS) == set(AT_HALF_AND_QUARTER)


@every
def test_golden_values(name):
    half, quarter = jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25]))
    value = DIVERGENCES[name](half, quarter)[0]
    np.testing.assert_allclose(value, AT_HALF_AND_QUARTER[name], rtol=1e-6)


@every
@pytest.mark.parametrize(("dtype", "rtol"), [(jnp.float32, 2e-4), (jnp.float64, 1e-11)])
def test_values_follow_the_definition(name, dtype, rtol):
    with jax.enable_x64(True):
        values = DIVERGENCES[name](*inputs(dtype))
    assert values.dtype == dtype
    np.testing.assert_allclose(values, FORMULAS[name](P, Q), rtol=rtol)


@pytest.mark.parametrize("name", EXACT)
def test_the_mean_over_the_sampler_is_the_divergence(name):
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.05, 0.4, 0.3])
    with jax.enable_x64(True):
        estimates = np.asarray(DIVERGENCES[name](jnp.log(p), jnp.log(q)))
    np.testing.assert_allclose(np.sum(p * estimates), EXACT[name](p, q), rtol=1e-12)


@every
def test_zero_at_equality(name):
    sampler, _ = inputs()
    values, by_sampler, by_other = value_and_gradients(name, sampler, sampler)
    np.testing.assert_array_equal(values, np.zeros_like(P))
    if name not in SIGNED:  # a minimum: the gradient is 0 as well
        np.testing.assert_array_equal(by_sampler, np.zeros_like(P))
        np.testing.assert_array_equal(by_other, np.zeros_like(P))


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - SIGNED))
@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*[st.floats(-30, 0, width=32)] * 2), min_size=8, max_size=8))
def test_never_negative(name, pairs):
    sampler, other = jnp.asarray(pairs, jnp.float32).T
    assert bool(jnp.all(DIVERGENCES[name](sampler, other) >= 0))


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9, -1e9])
@pytest.mark.parametrize("both", [True, False])
def test_masked_tokens_are_bit_for_bit_without_effect(name, bad, both):
    sampler, other = inputs()
    where = jnp.asarray(WHERE)
    clean = value_and_gradients(name, sampler, other, where)
    spoilt = value_and_gradients(
        name,
        jnp.where(where, sampler, bad),
        jnp.where(where, other, bad if both else -1.0),
        where,
    )
    for expected, got in zip(clean, spoilt, strict=True):
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.asarray(got)[~WHERE], 0)


@every
def test_a_mask_equals_boolean_indexing(name):
    sampler, other = inputs()
    masked = DIVERGENCES[name](sampler, other, where=jnp.asarray(WHERE))
    indexed = DIVERGENCES[name](sampler[WHERE], other[WHERE])
    np.testing.assert_array_equal(np.asarray(masked)[WHERE], indexed)


@every
def test_jit_equals_eager_and_vmap_equals_a_batch_axis(name):
    sampler, other = inputs()
    eager = DIVERGENCES[name](sampler, other)
    np.testing.assert_allclose(jax.jit(DIVERGENCES[name])(sampler, other), eager, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(DIVERGENCES[name])(sampler, other), eager, rtol=1e-6)


@every
def test_gradients_are_those_of_the_value(name):
    with jax.enable_x64(True):
        check_grads(DIVERGENCES[name], inputs(jnp.float64), order=2, modes=("fwd", "rev"))


@every
def test_no_dtype_is_promoted(name):
    for dtype in (jnp.float32, jnp.bfloat16):
        with jax.numpy_dtype_promotion("strict"):
            values = DIVERGENCES[name](*inputs(dtype), where=jnp.asarray(WHERE))
        assert values.dtype == dtype


@every
def test_what_does_not_fit_is_refused(name):
    sampler, other = inputs()
    with pytest.raises(ValueError, match="shapes must be equal"):
        DIVERGENCES[name](sampler, other[:, :3])
    with pytest.raises(ValueError, match="shapes must be equal"):
        DIVERGENCES[name](sampler, other, where=jnp.ones((4,), bool))
    with pytest.raises(TypeError, match="floating-point"):
        DIVERGENCES[name](sampler.astype(int), other)
    with pytest.raises(TypeError, match="dtypes must be equal"):
        DIVERGENCES[name](sampler, other.astype(jnp.float16))
    with pytest.raises(TypeError, match="where must be a bool array"):
        DIVERGENCES[name](sampler, other, where=jnp.ones((2, 4)))
