import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.core.masking import masked_mean, masked_sum, spread_over_tokens, zero_where_masked

BAD = (jnp.nan, jnp.inf, -jnp.inf, 1e9)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("reduce", [masked_sum, masked_mean])
def test_masked_entries_reach_neither_value_nor_gradient(reduce, bad):
    x, where = jnp.array([1.0, bad, 4.0]), jnp.array([True, False, True])
    value, gradient = jax.value_and_grad(lambda x: reduce(x, where))(x)
    assert value == {masked_sum: 5.0, masked_mean: 2.5}[reduce]
    slope = {masked_sum: 1.0, masked_mean: 0.5}[reduce]
    np.testing.assert_array_equal(gradient, [slope, 0, slope])


@pytest.mark.parametrize("bad", BAD)
def test_the_input_of_an_exponential_can_be_made_safe(bad):
    x, where = jnp.array([0.0, bad]), jnp.array([True, False])
    gradient = jax.grad(lambda x: jnp.exp(zero_where_masked(x, where)).sum())(x)
    np.testing.assert_array_equal(gradient, [1, 0])


def test_a_mean_over_nothing_is_0_with_gradient_0():
    x, where = jnp.array([[jnp.nan, 2.0], [3.0, 5.0]]), jnp.array([[False, False], [True, True]])
    np.testing.assert_array_equal(masked_mean(x, where, axis=-1), [0, 4])
    gradient = jax.grad(lambda x: masked_mean(x, jnp.zeros((2, 2), bool)))(x)
    np.testing.assert_array_equal(gradient, jnp.zeros((2, 2)))


def test_no_mask_means_everything():
    x = jnp.arange(6.0).reshape(2, 3)
    assert masked_sum(x, None) == 15
    np.testing.assert_array_equal(masked_mean(x, None, axis=0), [1.5, 2.5, 3.5])
    np.testing.assert_array_equal(zero_where_masked(x, None), x)


def test_half_precision_is_summed_in_float32():
    # In bfloat16 the sum would stop growing at 256.
    x = jnp.ones(4096, jnp.bfloat16)
    total = masked_sum(x, jnp.ones(4096, bool))
    assert total.dtype == jnp.float32
    assert total == 4096
    assert zero_where_masked(x, jnp.ones(4096, bool)).dtype == jnp.bfloat16


def test_the_number_of_axes_decides_how_advantages_spread():
    square = jnp.zeros((2, 2))
    spread = spread_over_tokens(jnp.array([1.0, 2.0]), square)
    np.testing.assert_array_equal(spread, [[1, 1], [2, 2]])
    each = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(spread_over_tokens(each, square), each)
    assert spread_over_tokens(jnp.float32(3), jnp.zeros(4)).shape == (4,)


@pytest.mark.parametrize("shape", [(2, 1), (3,), (1, 2, 3), ()])
def test_other_shapes_of_advantages_are_refused(shape):
    with pytest.raises(ValueError, match=r"advantages must have shape \[2\] or \[2, 3\]"):
        spread_over_tokens(jnp.zeros(shape), jnp.zeros((2, 3)))
