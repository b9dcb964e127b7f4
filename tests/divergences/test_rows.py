"""What every divergence of whole rows, and of their likeliest part, keeps to."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxgrpo.divergences import (
    DIVERGENCES,
    ROW_DIVERGENCES,
    TOP_DIVERGENCES,
    binary_kl,
    binary_tv,
    entropy,
    full_kl,
    full_tv,
    prefix_cumulative,
    renyi,
    topk_kl,
    topk_tv,
)


def kl(p, q):
    return np.sum(p * np.log(p / q), axis=-1)


# By definition, in NumPy and float64.
FORMULAS = {
    "full_kl": kl,
    "full_tv": lambda p, q: np.sum(np.abs(p - q), -1) / 2,
    "full_js": lambda p, q: (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2,
    "full_hellinger": lambda p, q: np.sum((np.sqrt(p) - np.sqrt(q)) ** 2, -1),
    "full_chi2": lambda p, q: np.sum((p - q) ** 2 / p, -1),
    "renyi": lambda p, q: -2 * np.log(np.sum(np.sqrt(p * q), -1)),
    "entropy_ratio": lambda p, q: (
        (1e-8 - np.sum(q * np.log(q), -1)) / (1e-8 - np.sum(p * np.log(p), -1))
    ),
}
# The gradient for Q's logits, which have no component along a constant.
LOGIT_GRADIENTS = {
    "full_kl": lambda p, q: q - p,
    "full_chi2": lambda p, q: 2 * q * ((q - p) / p - np.sum(q * (q - p) / p, -1, keepdims=True)),
    "full_hellinger": lambda p, q: -np.sqrt(p * q) + q * np.sum(np.sqrt(p * q), -1, keepdims=True),
}
# P = 0 at the first entry; Q = 0 at the last.
HOLES = np.array([[0.0, 0.6, 0.4]]), np.array([[0.3, 0.7, 0.0]])
AT_HOLES = {
    "full_kl": np.inf,
    "full_tv": 0.4,
    "full_js": (
        0.6 * np.log(0.6 / 0.65) + 0.4 * np.log(2) + 0.3 * np.log(2) + 0.7 * np.log(0.7 / 0.65)
    )
    / 2,
    "full_hellinger": 0.3 + (np.sqrt(0.6) - np.sqrt(0.7)) ** 2 + 0.4,
    "full_chi2": np.inf,
    "renyi": -2 * np.log(np.sqrt(0.42)),
    "entropy_ratio": -(0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    / -(0.6 * np.log(0.6) + 0.4 * np.log(0.4)),
}
RANDOM = np.random.default_rng(5)
LOGITS = RANDOM.normal(size=(2, 2, 4, 6)) * 1.5
ROWS = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
P, Q = np.exp(ROWS)
WHERE = np.array([[True, True, False, True], [False, False, False, True]])
every = pytest.mark.parametrize("name", ROW_DIVERGENCES.names())


def inputs(dtype=jnp.float32):
    return jnp.asarray(ROWS[0], dtype), jnp.asarray(ROWS[1], dtype)


@functools.partial(jax.jit, static_argnames="name")
def value_and_gradients(name, sampler, other, where):
    def total(sampler, other):
        values = ROW_DIVERGENCES[name](sampler, other, where=where)
        return values.sum(), values

    (_, values), gradients = jax.value_and_grad(total, (0, 1), has_aux=True)(sampler, other)
    return values, *gradients


def test_every_row_divergence_has_its_formulas():
    assert set(ROW_DIVERGENCES.names()) == set(FORMULAS) == set(AT_HOLES)


@every
@pytest.mark.parametrize(("dtype", "rtol"), [(jnp.float32, 1e-4), (jnp.float64, 1e-12)])
def test_values_follow_the_definition(name, dtype, rtol):
    with jax.enable_x64(True):
        values = ROW_DIVERGENCES[name](*inputs(dtype))
    assert values.dtype == dtype
    np.testing.assert_allclose(values, FORMULAS[name](P, Q), rtol=rtol)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_renyi_of_any_order(alpha):
    with jax.enable_x64(True):
        values = renyi(*inputs(jnp.float64), alpha=alpha)
    expected = kl(P, Q)
    if alpha != 1:
        expected = np.log(np.sum(P**alpha * Q ** (1 - alpha), -1)) / (alpha - 1)
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_renyi_refuses_an_order_that_is_none(alpha):
    with pytest.raises(ValueError, match="alpha must be"):
        renyi(*inputs(), alpha=alpha)


@every
def test_entries_without_probability(name):
    with np.errstate(divide="ignore"), jax.enable_x64(True):
        value = ROW_DIVERGENCES[name](*[jnp.log(jnp.asarray(x)) for x in HOLES])
    np.testing.assert_allclose(value, [AT_HOLES[name]], rtol=1e-7)


@every
def test_an_entry_that_neither_has_changes_nothing(name):
    padded = [jnp.pad(x, ((0, 0), (0, 0), (0, 1)), constant_values=-jnp.inf) for x in inputs()]
    where = jnp.ones((2, 4), bool)
    values, *gradients = value_and_gradients(name, *padded, where)
    np.testing.assert_allclose(values, ROW_DIVERGENCES[name](*inputs()), rtol=1e-5)
    for gradient in gradients:
        np.testing.assert_array_equal(gradient[..., -1], np.zeros((2, 4)))
        assert bool(jnp.all(jnp.isfinite(gradient)))


@pytest.mark.parametrize("name", LOGIT_GRADIENTS)
def test_gradients_for_the_logits(name):
    with jax.enable_x64(True):
        gradient = jax.grad(lambda z: ROW_DIVERGENCES[name](ROWS[0], jax.nn.log_softmax(z)).sum())(
            jnp.asarray(LOGITS[1])
        )
    np.testing.assert_allclose(gradient, LOGIT_GRADIENTS[name](P, Q), rtol=1e-9, atol=1e-14)


def test_the_rao_blackwellised_kl_of_the_policy_has_its_gradient():
    # KL(policy || reference), policy first: p (log p/q - KL) for the logits.
    with jax.enable_x64(True):
        gradient = jax.grad(lambda z: full_kl(jax.nn.log_softmax(z), ROWS[1]).sum())(
            jnp.asarray(LOGITS[0])
        )
    expected = P * (np.log(P / Q) - kl(P, Q)[..., None])
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["kl1", "kl3", "tv", "chi2", "hellinger"])
def test_it_is_what_the_sampled_token_estimates(name):
    full = "full_kl" if name.startswith("kl") else f"full_{name}"
    with jax.enable_x64(True):
        estimates = DIVERGENCES[name](*[jnp.asarray(x) for x in ROWS])
        exact = ROW_DIVERGENCES[full](*[jnp.asarray(x) for x in ROWS])
    np.testing.assert_allclose(np.sum(P * np.asarray(estimates), -1), exact, rtol=1e-11)


@every
def test_equal_rows(name):
    same, _ = inputs()
    values, *gradients = value_and_gradients(name, same, same, jnp.ones((2, 4), bool))
    if name == "entropy_ratio":
        np.testing.assert_array_equal(values, np.ones((2, 4)))
        return
    np.testing.assert_allclose(values, np.zeros((2, 4)), atol=1e-6 if name == "renyi" else 0)
    if name != "renyi":  # whose gradient is along the constant: 0 for the logits only
        for gradient in gradients:
            np.testing.assert_array_equal(gradient, np.zeros((2, 4, 6)))


@every
def test_masked_tokens_are_bit_for_bit_without_effect(name):
    sampler, other = inputs()
    where = jnp.asarray(WHERE)
    clean = value_and_gradients(name, sampler, other, where)
    for bad in (np.nan, np.inf, -np.inf, 1e9):
        spoilt = [jnp.where(where[..., None], x, bad) for x in (sampler, other)]
        for mine, expected in zip(value_and_gradients(name, *spoilt, where), clean, strict=True):
            np.testing.assert_array_equal(mine, expected)
            np.testing.assert_array_equal(np.asarray(mine)[~WHERE], 0)


@every
def test_jit_vmap_dtype_and_refusals(name):
    function, (sampler, other) = ROW_DIVERGENCES[name], inputs()
    eager = function(sampler, other)
    np.testing.assert_allclose(jax.jit(function)(sampler, other), eager, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(jax.vmap(function)(sampler, other), eager, rtol=1e-5, atol=1e-7)
    narrow = jax.eval_shape(function, *inputs(jnp.bfloat16))
    assert narrow.dtype == jnp.bfloat16
    with pytest.raises(ValueError, match="shapes must be equal"):
        function(sampler, other[..., :3])
    with pytest.raises(ValueError, match=r"where must have shape \[2, 4\]"):
        function(sampler, other, where=jnp.ones((2, 4, 6), bool))
    with pytest.raises(TypeError, match="dtypes must be equal"):
        function(sampler, other.astype(jnp.bfloat16))
    with pytest.raises(ValueError, match=r"rows must have shape \[\*B, T, V\]"):
        function(sampler[0, 0], other[0, 0])


def test_entropy():
    with jax.enable_x64(True):
        values = entropy(jnp.asarray(ROWS[0]))
        certain = entropy(jnp.array([[0.0, -jnp.inf]]))
    np.testing.assert_allclose(values, -np.sum(P * ROWS[0], -1), rtol=1e-12)
    np.testing.assert_array_equal(certain, [0])


def top(k, ids):
    """Rows gathered on P's k likeliest tokens, and the tokens `ids` of each row."""
    order = np.argsort(-P, axis=-1)[..., :k]
    return [
        np.take_along_axis(x, i, -1)
        for x, i in ((ROWS[0], order), (ROWS[1], order), (ROWS[0], ids), (ROWS[1], ids))
    ]


@functools.partial(jax.jit, static_argnames="name")
def top_value_and_gradients(name, inputs, where):
    def total(inputs):
        values = TOP_DIVERGENCES[name](*inputs, where=where)
        return values.sum(), values

    (_, values), gradients = jax.value_and_grad(total, has_aux=True)(tuple(inputs))
    return values, *gradients


@pytest.mark.parametrize("likely", [True, False])
def test_top_values_by_lumping_in_numpy(likely):
    # Slots: the three likeliest of P; the sampled token, if it is not among them; the rest.
    rank = 1 if likely else 4
    ids = np.argsort(-P, axis=-1)[..., rank : rank + 1]
    arrays = top(3, ids)
    with jax.enable_x64(True):
        tv, kl_top = (f(*arrays[:2], *[x[..., 0] for x in arrays[2:]]) for f in (topk_tv, topk_kl))
    p, q = (np.exp(x) for x in arrays[:2])
    if not likely:
        p, q = (np.concatenate([a, np.exp(b)], -1) for a, b in ((p, arrays[2]), (q, arrays[3])))
    p, q = (np.concatenate([x, 1 - x.sum(-1, keepdims=True)], -1) for x in (p, q))
    np.testing.assert_allclose(tv, np.abs(p - q).sum(-1) / 2, rtol=1e-10)
    np.testing.assert_allclose(kl_top, kl(p, q), rtol=1e-10)


@settings(deadline=None, max_examples=30)
@given(hnp.arrays(np.float64, (2, 6), elements=st.floats(-8, 8)), st.integers(0, 5))
def test_binary_is_below_top_is_below_full(logits, token):
    rows = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    order = np.argsort(-rows[0], kind="stable")
    with jax.enable_x64(True):
        full = [full_tv(rows[:1], rows[1:]), full_kl(rows[:1], rows[1:])]
        own = [jnp.asarray(rows[i, token : token + 1]) for i in (0, 1)]
        chain = [[binary_tv(*own), binary_kl(*own)]]
        for k in (1, 3):
            gathered = [jnp.asarray(rows[i, order[:k]])[None] for i in (0, 1)]
            chain.append([topk_tv(*gathered, *own), topk_kl(*gathered, *own)])
        chain.append(full)
    for smaller, larger in itertools.pairwise(chain):
        for one, other in zip(smaller, larger, strict=True):
            assert float(one[0]) <= float(other[0]) + 1e-9


@pytest.mark.parametrize("name", TOP_DIVERGENCES.names())
def test_top_divergences_are_masked_and_checked(name):
    ids = RANDOM.integers(0, 6, size=(2, 4, 1))
    arrays = [jnp.asarray(x, jnp.float32) for x in top(3, ids)]
    arrays[2:] = [x[..., 0] for x in arrays[2:]]
    where = jnp.asarray(WHERE)
    clean = top_value_and_gradients(name, arrays, where)
    for bad in (np.nan, np.inf, -np.inf):
        spoilt = [jnp.where(where[..., None] if x.ndim == 3 else where, x, bad) for x in arrays]
        for mine, expected in zip(top_value_and_gradients(name, spoilt, where), clean, strict=True):
            np.testing.assert_array_equal(mine, expected)
            np.testing.assert_array_equal(np.asarray(mine)[~WHERE], 0)
    same = top_value_and_gradients(name, [arrays[0], arrays[0], arrays[2], arrays[2]], where)
    np.testing.assert_array_equal(same[0], np.zeros((2, 4)))
    function = TOP_DIVERGENCES[name]
    np.testing.assert_allclose(
        jax.vmap(function)(*arrays), jax.jit(function)(*arrays), rtol=1e-5, atol=1e-7
    )
    with pytest.raises(ValueError, match=r"sampler_top_log_probs must have shape"):
        function(arrays[0][:1], arrays[1][:1], *arrays[2:])
    with pytest.raises(TypeError, match="dtypes must be equal"):
        function(*arrays[:2], *[x.astype(jnp.bfloat16) for x in arrays[2:]])


@pytest.mark.parametrize("name", TOP_DIVERGENCES.names())
def test_a_top_of_the_whole_vocabulary_is_the_full_one(name):
    arrays = top(6, np.zeros((2, 4, 1), int))
    with jax.enable_x64(True):
        values = TOP_DIVERGENCES[name](*arrays[:2], *[x[..., 0] for x in arrays[2:]])
    np.testing.assert_allclose(values, FORMULAS[name.replace("topk", "full")](P, Q), rtol=1e-9)


def test_a_prefix_adds_up_causally():
    values = np.array([[0.5, np.nan, 0.25, 1.0]], np.float32)
    where = jnp.array([[True, False, True, True]])
    total, gradient = jax.value_and_grad(
        lambda x: prefix_cumulative(x, where=where)[0, 2], allow_int=False
    )(jnp.asarray(values))
    np.testing.assert_array_equal(prefix_cumulative(values, where=where), [[0.5, 0, 0.75, 1.75]])
    assert total == 0.75
    np.testing.assert_array_equal(gradient, [[1, 0, 1, 0]])
