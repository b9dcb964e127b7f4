import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.models import DecoderConfig, Policy, abstract_params, logits, parameter_count
from jaxgrpo.models.attention import attention

# Half the time to compile.
FAST = {"xla_backend_optimization_level": 0}
jit = functools.partial(jax.jit, compiler_options=FAST)

random = np.random.default_rng(1)
TOKENS = random.integers(0, 19, (2, 7)).astype(np.int32)

SWITCHES = {
    "grouped": {},
    "one key head": {"kv_heads": 1},
    "a key head each": {"kv_heads": 4},
    "qk_norm": {"qk_norm": True},
    "attention_bias": {"attention_bias": True},
    "untied": {"tied_embeddings": False},
    "all": {"qk_norm": True, "attention_bias": True, "tied_embeddings": False, "rope_theta": 50.0},
}


@pytest.mark.parametrize("name", SWITCHES)
def test_logits_against_literal_loops(name, gqa, random_params, literal_logits):
    config = dataclasses.replace(
        gqa, compute_dtype="float64", parameter_dtype="float64", **SWITCHES[name]
    )
    with jax.enable_x64(True):
        params = random_params(config)
        got = jit(logits)(Policy(config, params), jnp.asarray(TOKENS))
        assert got.dtype == jnp.float64
    for row, tokens in zip(got, TOKENS, strict=True):
        np.testing.assert_allclose(row, literal_logits(config, params, tokens), rtol=1e-10)


def test_logits_in_float32(gqa, random_params, literal_logits):
    params = random_params(gqa)
    got = jit(logits)(Policy(gqa, params), jnp.asarray(TOKENS))
    assert got.dtype == jnp.float32
    wanted = np.stack([literal_logits(gqa, params, tokens) for tokens in TOKENS])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_logits_in_bfloat16_are_float32_and_near(gqa, random_params, literal_logits):
    config = dataclasses.replace(gqa, compute_dtype="bfloat16")
    params = random_params(config)
    got = jit(logits)(Policy(config, params), jnp.asarray(TOKENS))
    assert got.dtype == jnp.float32
    wanted = np.stack([literal_logits(gqa, params, tokens) for tokens in TOKENS])
    error = np.abs(got - wanted).max() / np.abs(wanted).max()
    # Some steps of 2^-8, but more than float32 would have: the activations are really bfloat16.
    assert 1e-4 < error < 0.05


def test_attention_of_given_visibility():
    """Each query over the keys it may see, whatever the invisible ones hold."""
    batch, length, slots, heads, kv_heads, size = 2, 3, 5, 4, 2, 3
    queries = random.normal(size=(batch, length, heads, size))
    keys = random.normal(size=(batch, slots, kv_heads, size))
    values = random.normal(size=(batch, slots, kv_heads, size))
    visible = random.random((batch, length, slots)) < 0.5
    visible[:, :, 2] = True
    visible[:, :, 4] = False
    keys[:, 4] = np.nan  # an invisible key
    with jax.enable_x64(True):
        got = attention(*map(jnp.asarray, (queries, keys, values, visible)))
    for b in range(batch):
        for t in range(length):
            for n in range(heads):
                k, seen = n // 2, [s for s in range(slots) if visible[b, t, s]]
                scores = [queries[b, t, n] @ keys[b, s, k] / size**0.5 for s in seen]
                weights = np.exp(scores) / np.sum(np.exp(scores))
                wanted = sum(w * values[b, s, k] for w, s in zip(weights, seen, strict=True))
                np.testing.assert_allclose(got[b, t, n], wanted, rtol=1e-12)


def test_a_query_that_sees_nothing_is_finite():
    ones = jnp.ones((1, 1, 2, 4))
    got = attention(ones, ones, 3 * ones, jnp.zeros((1, 1, 1), bool))
    assert np.array_equal(got, 3 * ones)


def test_rematerialisation_changes_memory_and_nothing_else(gqa, random_params):
    config = dataclasses.replace(gqa, layers=6)
    params, tokens = random_params(config), jnp.asarray(np.tile(TOKENS, (8, 4)))
    results, temporary = {}, {}
    for remat in ("none", "dots", "full"):
        this = dataclasses.replace(config, remat=remat)

        def loss(params, this=this):
            return jnp.mean(logits(Policy(this, params), tokens) ** 2)

        compiled = jit(jax.value_and_grad(loss)).lower(params).compile()
        results[remat] = compiled(params)
        temporary[remat] = compiled.memory_analysis().temp_size_in_bytes
    for remat in results:
        one, other = jax.tree.leaves(results[remat]), jax.tree.leaves(results["none"])
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max())
    assert temporary["full"] < temporary["dots"] < temporary["none"]


def test_parameters_are_those_of_the_switches(gqa):
    def names(**switches):
        params = abstract_params(dataclasses.replace(gqa, **switches))
        return set(params) - {"blocks"} | set(params["blocks"])

    plain = names()
    assert plain == {
        *("embedding", "attention_norm", "query", "key", "value", "output"),
        *("mlp_norm", "gate", "up", "down", "final_norm"),
    }
    assert names(tied_embeddings=False) - plain == {"unembedding"}
    assert names(qk_norm=True) - plain == {"query_norm", "key_norm"}
    assert names(attention_bias=True) - plain == {"query_bias", "key_bias", "value_bias"}


def test_parameter_count(gqa):
    # Embedding, then each block: q, o; k, v; gate, up, down; two norms; then the final norm.
    block = 2 * 12 * 24 + 2 * 12 * 12 + 3 * 12 * 20 + 2 * 12
    assert parameter_count(gqa) == 19 * 12 + 2 * block + 12


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("vocabulary_size", -1, "vocabulary_size must not be negative, got -1"),
        ("layers", 0, "layers must be at least 1, got 0"),
        ("kv_heads", 3, "kv_heads must divide heads 4, got 3"),
        ("head_size", 5, "head_size must be even and at least 2, got 5"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        DecoderConfig(**{field: value})
