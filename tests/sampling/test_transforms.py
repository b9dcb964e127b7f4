import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.sampling import SamplingConfig, draw, min_p, top_k, top_p, transform

random = np.random.default_rng(0)


def rows_of(seed, vocabulary=12, scale=2.0):
    logits = np.random.default_rng(seed).normal(size=(3, vocabulary)) * scale
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return probs, jnp.asarray(np.log(probs), jnp.float32)


def renormalised(probs, kept):
    """Log-probs with the tokens in `kept` alone, -inf elsewhere."""
    total, rows = sum(probs[v] for v in kept), np.full(len(probs), -np.inf)
    for v in kept:
        rows[v] = np.log(probs[v] / total)
    return rows


@pytest.mark.parametrize("k", [1, 2, 5, 11, 12, 50])
def test_top_k_against_numpy(k):
    probs, rows = rows_of(k)
    for got, row in zip(top_k(rows, k), probs, strict=True):
        kept = sorted(range(12), key=lambda v: -row[v])[:k]
        np.testing.assert_allclose(got, renormalised(row, kept), atol=1e-5)


@pytest.mark.parametrize("p", [1e-6, 0.3, 0.5, 0.9, 0.99])
def test_top_p_against_numpy(p):
    probs, rows = rows_of(7)
    for got, row in zip(top_p(rows, p), probs, strict=True):
        kept, total = [], 0.0
        for v in sorted(range(12), key=lambda v: -row[v]):
            if total < p:
                kept.append(v)
            total += row[v]
        np.testing.assert_allclose(got, renormalised(row, kept), atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.05, 0.3, 0.9, 1.0])
def test_min_p_against_numpy(p):
    probs, rows = rows_of(8)
    for got, row in zip(min_p(rows, p), probs, strict=True):
        kept = [v for v in range(12) if row[v] >= p * max(row)]
        np.testing.assert_allclose(got, renormalised(row, kept), atol=1e-5)


def test_a_top_p_that_is_met_exactly_takes_no_more():
    rows = jnp.log(jnp.array([[0.25, 0.5, 0.125, 0.125]]))
    assert jnp.exp(top_p(rows, 0.5)).tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(jnp.exp(top_p(rows, 0.51)), [[1 / 3, 2 / 3, 0, 0]], rtol=1e-6)


def test_equally_likely_tokens_stand_or_fall_together():
    rows = jnp.log(jnp.array([[0.2, 0.4, 0.2, 0.2]]))
    for kept in (top_k(rows, 2), top_p(rows, 0.5), min_p(rows, 0.5)):
        np.testing.assert_allclose(jnp.exp(kept), [[0.2, 0.4, 0.2, 0.2]], rtol=1e-6)


def test_transforms_follow_each_other():
    config = SamplingConfig(top_k=4, top_p=0.7, min_p=0.35)
    _, rows = rows_of(9)
    assert np.array_equal(transform(rows, config), min_p(top_p(top_k(rows, 4), 0.7), 0.35))
    assert transform(rows, SamplingConfig()) is rows
    assert config.truncated
    assert SamplingConfig(temperature=0.0).truncated
    assert not SamplingConfig(temperature=0.5).truncated


PROBS = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], np.float32)
JUST_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


@pytest.mark.parametrize(
    ("uniform", "token"),
    [
        (0.0, 1),
        (np.float32(1e-45), 1),
        (np.nextafter(np.float32(0.25), np.float32(0)), 1),
        (0.25, 3),
        (np.nextafter(np.float32(0.75), np.float32(0)), 3),
        (0.75, 4),
        (JUST_BELOW_ONE, 4),
    ],
)
def test_draw_inverts_the_cumulative_distribution(uniform, token):
    with np.errstate(divide="ignore"):
        rows = jnp.asarray(np.log(PROBS))[None]
    assert draw(rows, jnp.asarray([uniform], jnp.float32)).tolist() == [token]


@given(
    logits=st.lists(st.floats(-60, 60, width=32) | st.just(-np.inf), min_size=1, max_size=30),
    uniform=st.floats(0, 1, exclude_max=True, width=32),
)
def test_draw_is_within_the_vocabulary_and_possible(logits, uniform):
    if max(logits) == -np.inf:
        logits[0] = 0.0
    padded = np.full(30, -np.inf, np.float32)
    padded[: len(logits)] = logits
    rows = jax.nn.log_softmax(padded)[None]
    (token,) = DRAW(rows, jnp.asarray([uniform], jnp.float32)).tolist()
    assert 0 <= token < 30
    assert np.exp(rows[0, token]) > 0


DRAW = jax.jit(draw)


def test_no_token_of_probability_zero_comes_out_of_a_large_vocabulary():
    """A parallel sum is not monotone: every number next to a step of it is tried."""
    vocabulary = 5000
    logits = random.normal(size=vocabulary) * 3
    logits[random.random(vocabulary) < 0.5] = -np.inf
    rows = jax.nn.log_softmax(jnp.asarray(logits, jnp.float32))
    steps = np.asarray(jnp.cumsum(jnp.exp(rows[None]), axis=-1)[0])
    near = np.concatenate(
        [steps, np.nextafter(steps, np.float32(0)), np.nextafter(steps, 2 * steps)]
    )
    uniforms = np.append(np.unique(near[near < 1]), JUST_BELOW_ONE).astype(np.float32)
    tokens = np.asarray(DRAW(jnp.tile(rows, (len(uniforms), 1)), jnp.asarray(uniforms)))
    assert np.isfinite(np.asarray(rows)[tokens]).all()


def test_draws_have_the_frequencies_of_the_row():
    probs, rows = rows_of(10, vocabulary=20, scale=1.0)
    count = 50_000
    uniforms = jax.random.uniform(jax.random.key(1), (count,))
    tokens = DRAW(jnp.tile(rows[:1], (count, 1)), uniforms)
    expected = probs[0] * count
    statistic = np.sum((np.bincount(tokens, minlength=20) - expected) ** 2 / expected)
    assert statistic < 43.8  # 0.999 quantile of chi-square with 19 degrees of freedom


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temperature", -0.1, "temperature must not be negative"),
        ("top_k", -1, "top_k must not be negative"),
        ("top_p", 0.0, r"top_p must be in \(0, 1\]"),
        ("min_p", 1.5, r"min_p must be in \[0, 1\]"),
        ("max_new_tokens", 0, "max_new_tokens must be at least 1"),
        ("decode_chunk", 0, "decode_chunk must be at least 1"),
        ("length_buckets", (8, 4), "length_buckets must rise"),
        ("length_buckets", (), "length_buckets must rise"),
    ],
)
def test_settings_that_mean_nothing_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        SamplingConfig(**{field: value})


def test_a_prompt_longer_than_every_bucket_is_its_own():
    config = SamplingConfig(length_buckets=(4, 8))
    assert [config.bucket(n) for n in (0, 1, 4, 5, 8, 9)] == [4, 4, 4, 8, 8, 9]
