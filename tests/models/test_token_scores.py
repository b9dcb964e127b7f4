import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses.config import LossConfig, PenaltyConfig, make_objective
from jaxgrpo.models import DecoderConfig, abstract_params, row_log_probs, score_tokens
from jaxgrpo.models.log_probs import row_log_probs as same_formula
from jaxgrpo.training import Batch, make_loss, score

B, T, D, V = 3, 7, 5, 11
TEMPERATURE = 0.7
random = np.random.default_rng(0)
STATES, MATRIX = random.normal(size=(B, T, D)), random.normal(size=(D, V)) * 2
TOKENS = random.integers(0, V, (B, T)).astype(np.int32)
COTANGENTS = random.normal(size=(2, B, T))


def log_probs_and_entropies(*arrays, **options):
    scores = score_tokens(*arrays, **options)
    return scores.log_probs, scores.entropies


def plain(states, matrix, tokens):
    """Log-probs and entropies from logits made whole."""
    rows = jax.nn.log_softmax(states @ matrix / TEMPERATURE, axis=-1)
    taken = jnp.take_along_axis(rows, tokens[..., None], axis=-1)[..., 0]
    return taken, -jnp.sum(jnp.exp(rows) * rows, axis=-1)


def value_and_gradients(function, dtype):
    states, matrix = jnp.asarray(STATES, dtype), jnp.asarray(MATRIX, dtype)
    weights = jnp.asarray(COTANGENTS, dtype)

    def total(states, matrix):
        outputs = function(states, matrix, jnp.asarray(TOKENS))
        return jnp.sum(weights * jnp.stack(outputs)), outputs

    both = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)
    # Half the time to compile.
    fast = {"xla_backend_optimization_level": 0}
    return jax.jit(both, compiler_options=fast)(states, matrix)


# 1 row-column at a time, uneven last chunks, exactly whole, more than there is.
@pytest.mark.parametrize("chunk_tokens", [1, 3, 6, 9, 20, 21, 10_000])
def test_chunks_are_log_softmax_in_value_and_gradient(chunk_tokens):
    def chunked(*arrays):
        return log_probs_and_entropies(*arrays, temperature=TEMPERATURE, chunk_tokens=chunk_tokens)

    with jax.enable_x64(True):
        got = value_and_gradients(chunked, jnp.float64)
        wanted = value_and_gradients(plain, jnp.float64)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert one.dtype == jnp.float64
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_chunks_in_float32():
    def chunked(*arrays):
        return log_probs_and_entropies(*arrays, temperature=TEMPERATURE, chunk_tokens=6)

    got = value_and_gradients(chunked, jnp.float32)
    wanted = value_and_gradients(plain, jnp.float32)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert one.dtype == jnp.float32
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_squared_probabilities_against_numpy_and_without_gradient():
    logits = STATES @ MATRIX / TEMPERATURE
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)

    def chunked(*arrays, squares=True):
        return score_tokens(*arrays, squares=squares, temperature=TEMPERATURE, chunk_tokens=6)

    with jax.enable_x64(True):
        arrays = jnp.asarray(STATES), jnp.asarray(MATRIX), jnp.asarray(TOKENS)
        scores = chunked(*arrays)
        gradients = jax.grad(lambda x: chunked(x, *arrays[1:]).squared_probs.sum())(arrays[0])
        plain = chunked(*arrays, squares=False)
    np.testing.assert_allclose(scores.squared_probs, (probs**2).sum(-1), rtol=1e-12)
    assert not np.any(gradients)
    assert plain.squared_probs is None


def test_log_probs_against_numpy():
    logits = STATES @ MATRIX / TEMPERATURE
    rows = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    with jax.enable_x64(True):
        arrays = jnp.asarray(STATES), jnp.asarray(MATRIX), jnp.asarray(TOKENS)
        scores = score_tokens(*arrays, temperature=TEMPERATURE, chunk_tokens=6)
        whole = row_log_probs(*arrays[:2], temperature=TEMPERATURE)
    np.testing.assert_allclose(whole, rows, rtol=1e-12)
    for b in range(B):
        for t in range(T):
            np.testing.assert_allclose(scores.log_probs[b, t], rows[b, t, TOKENS[b, t]], rtol=1e-12)
            entropy = -sum(np.exp(x) * x for x in rows[b, t])
            np.testing.assert_allclose(scores.entropies[b, t], entropy, rtol=1e-12)


def test_bfloat16_states_give_float32_log_probs():
    states, matrix = jnp.asarray(STATES, jnp.bfloat16), jnp.asarray(MATRIX, jnp.bfloat16)
    got = log_probs_and_entropies(states, matrix, jnp.asarray(TOKENS), temperature=TEMPERATURE)
    wanted = plain(states.astype(jnp.float32), matrix.astype(jnp.float32), jnp.asarray(TOKENS))
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == jnp.float32
        # Products of bfloat16 are exact in float32: nothing is lost but the inputs' own rounding.
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_ids_out_of_range_are_clamped():
    arrays = jnp.asarray(STATES, jnp.float32), jnp.asarray(MATRIX, jnp.float32)
    beyond, _ = log_probs_and_entropies(*arrays, jnp.full((B, T), 10**6))
    below, _ = log_probs_and_entropies(*arrays, jnp.full((B, T), -7))
    last, _ = log_probs_and_entropies(*arrays, jnp.full((B, T), V - 1))
    first, _ = log_probs_and_entropies(*arrays, jnp.zeros((B, T), jnp.int32))
    assert np.array_equal(beyond, last)
    assert np.array_equal(below, first)


def test_sampler_and_trainer_share_one_formula():
    import jaxgrpo.models.log_probs
    import jaxgrpo.sampling.sampler

    assert jaxgrpo.sampling.sampler.row_log_probs is jaxgrpo.models.log_probs.row_log_probs
    assert row_log_probs is same_formula


def temporary_bytes(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_whole_batch_logits_never_exist(entropy_gradient):
    rows, length, width, vocabulary = 8, 1024, 8, 16_384
    shape = jax.ShapeDtypeStruct
    arguments = (
        shape((rows, length, width), jnp.float32),
        shape((width, vocabulary), jnp.float32),
        shape((rows, length), jnp.int32),
    )

    def total(function):
        def loss(states, matrix, tokens):
            log_probs, entropies = function(states, matrix, tokens)
            return jnp.sum(log_probs) + entropy_gradient * jnp.sum(entropies**2)

        return loss

    def chunked(*arrays):
        return log_probs_and_entropies(*arrays, chunk_tokens=64)

    logits = rows * length * vocabulary * 4
    assert temporary_bytes(total(chunked), *arguments) < logits / 16
    assert temporary_bytes(jax.grad(total(chunked), (0, 1)), *arguments) < logits / 16
    # The same measure sees them where they do exist.
    assert temporary_bytes(jax.grad(total(plain), (0, 1)), *arguments) > logits


def test_scoring_a_batch_makes_no_whole_batch_logits_either():
    rows, width, length, vocabulary = 4, 8, 256, 65_536
    model = DecoderConfig(
        vocabulary_size=vocabulary, layers=1, hidden_size=8, heads=1, kv_heads=1, head_size=4
    )
    ints, floats = jax.ShapeDtypeStruct((rows,), jnp.int32), jax.ShapeDtypeStruct((rows,), "f4")
    per_token = jax.ShapeDtypeStruct((rows, length), jnp.float32)
    batch = Batch(
        prompt_tokens=jax.ShapeDtypeStruct((rows, width), jnp.int32),
        prompt_lengths=ints,
        completion_tokens=jax.ShapeDtypeStruct((rows, length), jnp.int32),
        completion_lengths=ints,
        trainable=jax.ShapeDtypeStruct((rows, length), bool),
        behaviour_log_probs=per_token,
        advantages=floats,
        group_ids=ints,
        row_weights=floats,
    )

    def loss(params, batch):
        return jnp.sum(score(model, params, batch, chunk_tokens=16).log_probs)

    params = abstract_params(model)
    limit = rows * length * vocabulary * 4 / 8
    assert temporary_bytes(jax.grad(loss), params, batch) < limit

    # Nor does comparing it with a reference, of which there would be as many again.
    penalty = PenaltyConfig(name="exact_reverse_kl", coefficient=0.1)
    objective = make_objective(LossConfig(name="reinforce", penalty=penalty))
    compared = jax.grad(make_loss(model, objective, chunk_tokens=rows), has_aux=True)
    assert temporary_bytes(compared, params, batch, params) < limit
