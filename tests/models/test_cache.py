"""Prefill and decoding against one pass over the whole sequence."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.models import bind, decode_step, prefill

# Half the time to compile.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

PROMPTS = [[3, 7, 1, 12], [8, 9], [2]]
CONTINUATIONS = np.random.default_rng(3).integers(0, 19, (3, 5))
# Where each prompt's tokens lie in four slots; the rest holds an id out of range.
PLACES = {
    "left-padded": [(0, 1, 2, 3), (2, 3), (3,)],
    "right-padded": [(0, 1, 2, 3), (0, 1), (0,)],
    "gaps": [(0, 1, 2, 3), (0, 3), (1,)],
}


@pytest.fixture(scope="module", params=[{}, {"qk_norm": True, "attention_bias": True}], ids=str)
def model(request, gqa, random_params):
    """Config, params, and prefill and decoding as two programs."""
    config = dataclasses.replace(
        gqa, compute_dtype="float64", parameter_dtype="float64", **request.param
    )
    with jax.enable_x64(True):
        params = random_params(config)

    @jit
    def start(params, tokens, mask):
        state, cache = prefill(config, params, tokens, mask)
        return state, cache.repeat(2).extend(5)

    @jit
    def advance(params, tokens, positions, slot, cache):
        decoder = bind(config, params)
        return decode_step(decoder, decoder.layers(), tokens, positions, slot, cache)

    return config, jax.tree.map(np.asarray, params), start, advance


@pytest.mark.parametrize("where", PLACES)
def test_cached_decoding_is_the_full_forward_at_every_position(where, model, literal_logits):
    config, params, start, advance = model
    tokens, mask = np.full((3, 4), 10**6, np.int32), np.zeros((3, 4), bool)
    for row, (ids, slots) in enumerate(zip(PROMPTS, PLACES[where], strict=True)):
        tokens[row, list(slots)], mask[row, list(slots)] = ids, True
    lengths = np.repeat([len(ids) for ids in PROMPTS], 2)
    # The two samples of a prompt go their own ways.
    continuations = np.repeat(CONTINUATIONS, 2, axis=0)
    continuations[1::2] = continuations[1::2, ::-1]
    with jax.enable_x64(True):
        first, cache = start(params, tokens, mask)
        states = [np.repeat(np.asarray(first), 2, axis=0)]
        for step in range(5):
            column = jnp.asarray(continuations[:, step], jnp.int32)
            positions = jnp.asarray(lengths + step, jnp.int32)
            state, cache = advance(params, column, positions, jnp.int32(4 + step), cache)
            states.append(np.asarray(state))
    embedding = np.asarray(params["embedding"]).T
    for row in range(6):
        prompt = PROMPTS[row // 2]
        whole = literal_logits(config, params, [*prompt, *continuations[row]])
        got = np.stack([state[row] @ embedding for state in states])
        np.testing.assert_allclose(got, whole[len(prompt) - 1 :], rtol=1e-9)


def test_what_pads_a_prompt_changes_no_bit(model):
    _, params, start, _ = model
    mask = np.array([[0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0]], bool)
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4)
    with jax.enable_x64(True):
        wanted = start(params, tokens, mask)
        for content in (5, -1, 19, 10**6):
            got = start(params, np.where(mask, tokens, np.int32(content)), mask)
            for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
                assert np.array_equal(one, other)


def test_a_prompt_of_padding_alone_is_finite(model):
    _, params, start, advance = model
    with jax.enable_x64(True):
        first, cache = start(params, np.zeros((3, 4), np.int32), np.zeros((3, 4), bool))
        zeros = jnp.zeros(6, jnp.int32)
        state, _ = advance(params, zeros, zeros, jnp.int32(4), cache)
    assert np.isfinite(first).all()
    assert np.isfinite(state).all()


def test_repeat_keeps_rows_of_a_prompt_side_by_side_and_extend_adds_empty_slots(gqa, random_params):
    tokens = jnp.asarray([[1, 2], [3, 4]], jnp.int32)
    _, cache = prefill(gqa, random_params(gqa), tokens, jnp.ones((2, 2), bool))
    wide = cache.repeat(3).extend(4)
    assert wide.filled.tolist() == [[True] * 2 + [False] * 4] * 6
    for old, new in zip(jax.tree.leaves(cache.layers), jax.tree.leaves(wide.layers), strict=True):
        assert new.shape == (6, 6, *old.shape[2:])
        for row in range(6):
            assert np.array_equal(new[row, :2], old[row // 3])
        assert not np.asarray(new[:, 2:]).any()
