"""Masks of tokens, and budgets shared out over them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.clipping import token_budgets, token_interval, top_entropy_mask, without_truncated

WHERE = np.array([[True, True, True], [True, False, False], [False, False, False]])
ENTROPIES = np.array([[0.5, 1.5, 0.1], [1.0, 9.0, np.nan], [np.inf, 9.0, 9.0]], np.float32)


def test_truncated_rows_are_not_trained():
    got = without_truncated(jnp.asarray(WHERE), jnp.array([False, True, False]))
    np.testing.assert_array_equal(got, [[True, True, True], [False] * 3, [False] * 3])
    with pytest.raises(ValueError, match=r"truncated must have shape \[3\]"):
        without_truncated(jnp.asarray(WHERE), jnp.array([True]))


@pytest.mark.parametrize(
    ("fraction", "kept"),
    [(0.0, []), (0.2, [1.5]), (0.5, [1.5, 1.0]), (0.6, [1.5, 1.0, 0.5]), (1.0, [1.5, 1, 0.5, 0.1])],
)
def test_the_entropy_threshold_is_over_trainable_tokens_of_the_batch(fraction, kept):
    got = top_entropy_mask(ENTROPIES, where=jnp.asarray(WHERE), fraction=fraction)
    expected = WHERE & np.isin(ENTROPIES, np.float32(kept))
    np.testing.assert_array_equal(got, expected)
    jitted = jax.jit(lambda x, w: top_entropy_mask(x, where=w, fraction=fraction))
    np.testing.assert_array_equal(jitted(ENTROPIES, jnp.asarray(WHERE)), expected)


def test_nothing_to_train_keeps_nothing():
    got = top_entropy_mask(ENTROPIES, where=jnp.zeros((3, 3), bool), fraction=0.5)
    np.testing.assert_array_equal(got, np.zeros((3, 3), bool))
    with pytest.raises(ValueError, match="fraction must be at most 1"):
        top_entropy_mask(ENTROPIES, fraction=1.5)


def test_budgets_add_up_to_the_total():
    where = jnp.asarray(WHERE)
    even = token_budgets(0.6, where=where)
    np.testing.assert_allclose(even, [[0.2] * 3, [0.6, 0, 0], [0] * 3], rtol=1e-6)
    by_entropy = token_budgets(0.6, where=where, entropies=jnp.asarray(ENTROPIES))
    expected = [[0.6 * 5 / 21, 0.6 * 15 / 21, 0.6 / 21], [0.6, 0, 0], [0] * 3]
    np.testing.assert_allclose(by_entropy, expected, rtol=1e-6)
    certain = token_budgets(0.6, where=where, entropies=jnp.zeros((3, 3)))
    np.testing.assert_allclose(certain, even, rtol=1e-6)


def test_the_product_of_token_bounds_is_the_bound_of_the_sequence():
    low, high = token_interval(0.8, 1.28, 50)
    np.testing.assert_allclose([low**50, high**50], [0.8, 1.28], rtol=1e-12)
    for arguments in ((0.0, 2.0, 5), (1.1, 2.0, 5), (0.5, 0.9, 5), (0.5, 2.0, 0)):
        with pytest.raises(ValueError, match="must be"):
            token_interval(*arguments)
