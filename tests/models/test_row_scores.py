"""Scores of more than the sampled token: the sampler's top ids, and whole rows of a reference."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses import ROW_PENALTIES
from jaxgrpo.models import score_tokens

B, T, D, V, K = 3, 7, 5, 11, 4
TEMPERATURE = 0.7
random = np.random.default_rng(0)
STATES, MATRIX = random.normal(size=(B, T, D)), random.normal(size=(D, V)) * 2
REFERENCE = random.normal(size=(B, T, D)), random.normal(size=(D, V)) * 2
TOKENS = random.integers(0, V, (B, T)).astype(np.int32)
TOP_IDS = np.argsort(random.random((B, T, V)))[..., :K].astype(np.int32)
WEIGHTS = random.normal(size=(3, B, T))
FAST = {"xla_backend_optimization_level": 0}
every = pytest.mark.parametrize("name", ROW_PENALTIES.names())


def softmax(states, matrix):
    logits = states @ matrix / TEMPERATURE
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


P, Q = softmax(STATES, MATRIX), softmax(*REFERENCE)
KLS = {
    "exact_reverse_kl": (P * np.log(P / Q)).sum(-1),
    "exact_forward_kl": (Q * np.log(Q / P)).sum(-1),
}
# For the policy's logits.
GRADIENTS = {
    "exact_reverse_kl": P * (np.log(P / Q) - KLS["exact_reverse_kl"][..., None]),
    "exact_forward_kl": P - Q,
}


def scores_of(*, dtype=jnp.float64, chunk_tokens=6, states=STATES, matrix=MATRIX, **asked):
    return score_tokens(
        jnp.asarray(states, dtype),
        jnp.asarray(matrix, dtype),
        jnp.asarray(TOKENS),
        temperature=TEMPERATURE,
        chunk_tokens=chunk_tokens,
        **asked,
    )


def reference(dtype=jnp.float64):
    return tuple(jnp.asarray(x, dtype) for x in REFERENCE)


# A column at a time, uneven last chunks, more than there is.
@pytest.mark.parametrize("chunk_tokens", [1, 6, 10_000])
def test_top_ids_are_gathered_from_the_rows(chunk_tokens):
    with jax.enable_x64(True):
        got = scores_of(top_ids=jnp.asarray(TOP_IDS), chunk_tokens=chunk_tokens)
        plain = scores_of(chunk_tokens=chunk_tokens)
    for b, t, k in np.ndindex(B, T, K):
        wanted = np.log(P[b, t, TOP_IDS[b, t, k]])
        np.testing.assert_allclose(got.top_log_probs[b, t, k], wanted, rtol=1e-11)
    assert np.array_equal(got.log_probs, plain.log_probs)
    assert plain.top_log_probs is None
    assert plain.reference_kl is None


def test_top_ids_out_of_range_are_clamped_and_carry_no_gradient():
    ids = jnp.broadcast_to(jnp.array([-5, -1, V, 10**6]), (B, T, K))
    got = scores_of(dtype=jnp.float32, top_ids=ids).top_log_probs
    np.testing.assert_allclose(got[..., 0], np.log(P[..., 0]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[..., 3], np.log(P[..., -1]), rtol=1e-4, atol=1e-5)

    def total(states):
        scores = scores_of(dtype=jnp.float32, states=states, top_ids=jnp.asarray(TOP_IDS))
        return scores.top_log_probs.sum()

    assert not np.any(jax.grad(total)(jnp.asarray(STATES, jnp.float32)))


@every
@pytest.mark.parametrize("chunk_tokens", [1, 6, 10_000])
def test_exact_kls_are_the_sums_and_their_gradients(name, chunk_tokens):
    """Against the formulas in NumPy, together with gradients of log-probs and entropies."""

    def total(states, matrix):
        scores = scores_of(
            states=states,
            matrix=matrix,
            chunk_tokens=chunk_tokens,
            reference=reference(),
            penalty=ROW_PENALTIES[name],
        )
        parts = jnp.stack([scores.log_probs, scores.entropies, scores.row_penalties])
        return jnp.sum(parts * WEIGHTS), scores

    with jax.enable_x64(True):
        both = jax.jit(jax.grad(total, (0, 1), has_aux=True), compiler_options=FAST)
        (d_states, d_matrix), scores = both(jnp.asarray(STATES), jnp.asarray(MATRIX))
    np.testing.assert_allclose(scores.row_penalties, KLS[name], rtol=1e-12)
    np.testing.assert_allclose(scores.reference_kl, KLS["exact_reverse_kl"], rtol=1e-12)
    entropies = -(P * np.log(P)).sum(-1, keepdims=True)
    d_logits = WEIGHTS[0][..., None] * (np.eye(V)[TOKENS] - P)
    d_logits += WEIGHTS[1][..., None] * -P * (np.log(P) + entropies)
    d_logits += WEIGHTS[2][..., None] * GRADIENTS[name]
    d_logits /= TEMPERATURE
    np.testing.assert_allclose(d_states, d_logits @ MATRIX.T, rtol=1e-12, atol=1e-12)
    wanted = np.einsum("btd,btv->dv", STATES, d_logits)
    np.testing.assert_allclose(d_matrix, wanted, rtol=1e-12, atol=1e-12)


@every
def test_gradients_are_those_of_autodiff_of_whole_logits(name):
    """The textbook sums, differentiated by JAX, through both arguments that learn."""

    def naive(states, matrix):
        log_p = jax.nn.log_softmax(states @ matrix / TEMPERATURE)
        log_q = jax.nn.log_softmax(reference()[0] @ reference()[1] / TEMPERATURE)
        if name == "exact_forward_kl":
            return jnp.sum(WEIGHTS[0] * jnp.sum(jnp.exp(log_q) * (log_q - log_p), -1))
        return jnp.sum(WEIGHTS[0] * jnp.sum(jnp.exp(log_p) * (log_p - log_q), -1))

    def chunked(states, matrix):
        asked = {"reference": reference(), "penalty": ROW_PENALTIES[name]}
        return jnp.sum(WEIGHTS[0] * scores_of(states=states, matrix=matrix, **asked).row_penalties)

    with jax.enable_x64(True):
        arguments = jnp.asarray(STATES), jnp.asarray(MATRIX)
        got = jax.value_and_grad(chunked, (0, 1))(*arguments)
        wanted = jax.value_and_grad(naive, (0, 1))(*arguments)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@every
def test_the_reference_carries_no_gradient_and_is_paid_nothing(name):
    asked = {"dtype": jnp.float32, "penalty": ROW_PENALTIES[name]}
    gradient = jax.grad(lambda pair: scores_of(reference=pair, **asked).row_penalties.sum())(
        reference(jnp.float32)
    )
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient))
    same = (jnp.asarray(STATES, jnp.float32), jnp.asarray(MATRIX, jnp.float32))
    assert not np.any(scores_of(reference=same, **asked).row_penalties)


def test_a_measured_kl_has_no_gradient_and_changes_none():
    def total(pair):
        def loss(states):
            scores = scores_of(dtype=jnp.float32, states=states, reference=pair)
            return jnp.sum(scores.log_probs), scores

        return jax.grad(loss, has_aux=True)(jnp.asarray(STATES, jnp.float32))

    (gradient, scores), (plain, _) = total(reference(jnp.float32)), total(None)
    assert scores.row_penalties is None
    assert np.array_equal(gradient, plain)
    np.testing.assert_allclose(scores.reference_kl, KLS["exact_reverse_kl"], rtol=1e-4)

    def measured(states):
        asked = {"dtype": jnp.float32, "reference": reference(jnp.float32)}
        return scores_of(states=states, **asked).reference_kl.sum()

    assert not np.any(jax.grad(measured)(jnp.asarray(STATES, jnp.float32)))


def test_bfloat16_rows_are_compared_in_float32():
    pair = tuple(jnp.asarray(x, jnp.bfloat16) for x in REFERENCE)
    got = scores_of(dtype=jnp.bfloat16, reference=pair).reference_kl
    rounded = [np.asarray(jnp.asarray(x, jnp.bfloat16), np.float64) for x in (STATES, MATRIX)]
    p, q = softmax(*rounded), softmax(*[np.asarray(x, np.float64) for x in pair])
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, (p * np.log(p / q)).sum(-1), rtol=1e-4, atol=1e-5)


def test_a_penalty_without_a_reference_is_refused():
    with pytest.raises(ValueError, match="needs the reference's states, got None"):
        scores_of(dtype=jnp.float32, penalty=ROW_PENALTIES["exact_reverse_kl"])


def compiled(function, *arguments):
    return jax.jit(function).lower(*arguments).compile()


def test_whole_batch_logits_never_exist():
    rows, length, width, vocabulary = 8, 1024, 8, 16_384
    shape = jax.ShapeDtypeStruct
    states, matrix = shape((rows, length, width), "f4"), shape((width, vocabulary), "f4")
    ids = shape((rows, length), "i4"), shape((rows, length, 2), "i4")

    def loss(states, matrix, other, tokens, tops):
        scores = score_tokens(
            states,
            matrix,
            tokens,
            top_ids=tops,
            reference=other,
            penalty=ROW_PENALTIES["exact_reverse_kl"],
            chunk_tokens=64,
        )
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(scores))

    program = compiled(jax.grad(loss, (0, 1)), states, matrix, (states, matrix), *ids)
    logits = rows * length * vocabulary * 4
    assert program.memory_analysis().temp_size_in_bytes < logits / 8


def test_the_backward_pass_makes_the_references_logits_only_for_a_penalty():
    """Matrix products of a chunk: one forward, and three backward for states and matrix."""
    arguments = jnp.asarray(STATES, jnp.float32), jnp.asarray(MATRIX, jnp.float32)

    def products(**asked):
        def loss(states, matrix):
            scores = scores_of(dtype=jnp.float32, states=states, matrix=matrix, **asked)
            kept = dataclasses.replace(scores, reference_kl=None)
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(kept)), scores

        jaxpr = jax.make_jaxpr(jax.grad(loss, (0, 1), has_aux=True))(*arguments)
        return str(jaxpr).count("dot_general[")

    pair = reference(jnp.float32)
    assert products() == 4
    assert products(top_ids=jnp.asarray(TOP_IDS)) == 4
    assert products(reference=pair) == 5
    assert products(reference=pair, penalty=ROW_PENALTIES["exact_reverse_kl"]) == 6
