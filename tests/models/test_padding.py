"""Padding may lie anywhere and hold anything: no real position sees it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.models import Policy, logits
from jaxgrpo.models.attention import positions_of

REAL = [[3, 7, 1, 12, 5], [8, 8], [2, 17, 4, 6]]
WIDTH = 8
PLACES = {
    "left": [range(3, 8), range(6, 8), range(4, 8)],
    "right": [range(5), range(2), range(4)],
    "between": [(0, 2, 3, 5, 7), (1, 6), (0, 1, 6, 7)],
}
# What padding holds: anything that an int32 can.
CONTENTS = [5, -1, -(2**31), 19, 10**6, 2**31 - 1]
WEIGHTS = np.random.default_rng(2).normal(size=(3, 5, 19))


def padded(places, content=0):
    """Tokens, mask, and for each real position the weights of its logits in a functional."""
    tokens = np.full((len(REAL), WIDTH), content, np.int32)
    mask, weights = np.zeros(tokens.shape, bool), np.zeros((*tokens.shape, 19))
    for row, (ids, slots) in enumerate(zip(REAL, places, strict=True)):
        ids = ids[: len(slots)]
        tokens[row, list(slots)] = ids
        mask[row, list(slots)] = True
        weights[row, list(slots)] = WEIGHTS[row, : len(ids)]
    return tokens, mask, weights


@pytest.fixture(scope="module")
def run(gqa, random_params):
    """`places, content -> (logits, gradient of the functional)`, float64."""
    config = dataclasses.replace(gqa, compute_dtype="float64", parameter_dtype="float64")
    with jax.enable_x64(True):
        params = random_params(config)

    # Half the time to compile.
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def scored(params, tokens, mask, weights):
        def total(params):
            rows = logits(Policy(config, params), tokens, mask=mask)
            return jnp.sum(jnp.where(mask[..., None], rows * weights, 0)), rows

        return jax.value_and_grad(total, has_aux=True)(params)

    def run(places, content=0):
        with jax.enable_x64(True):
            (_, rows), gradient = scored(params, *padded(places, content))
            return np.asarray(rows), jax.tree.map(np.asarray, gradient)

    run.config, run.params = config, params
    return run


@pytest.mark.parametrize("where", PLACES)
def test_real_positions_are_those_of_the_bare_sequence(where, run, literal_logits):
    rows, _ = run(PLACES[where])
    for row, ids, slots in zip(rows, REAL, PLACES[where], strict=True):
        wanted = literal_logits(run.config, run.params, ids)
        np.testing.assert_allclose(row[list(slots)], wanted, rtol=1e-10)


@pytest.mark.parametrize("where", PLACES)
def test_gradients_are_the_same_wherever_padding_lies(where, run):
    _, wanted = run(PLACES["right"])
    _, got = run(PLACES[where])
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("content", CONTENTS)
def test_contents_of_padding_change_no_bit(where, content, run):
    got, wanted = run(PLACES[where], content), run(PLACES[where], 0)
    assert np.isfinite(got[0]).all()
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.array_equal(one, other)


def test_a_row_of_padding_alone_is_finite_and_carries_no_gradient(run):
    rows, gradient = run([(), (), ()], 10**6)
    assert np.isfinite(rows).all()
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))


def test_positions_count_real_tokens():
    mask = jnp.array([[0, 1, 1, 0, 0, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]], bool)
    wanted = [[0, 0, 1, 1, 1, 2], [0, 1, 2, 3, 4, 5], [0] * 6]
    assert positions_of(mask).tolist() == wanted
