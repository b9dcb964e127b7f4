"""Sums over the tokens so far."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.core.running import running_sum


@pytest.mark.parametrize("shape", [(1,), (63,), (64,), (65,), (3, 200), (2, 3, 129), (4, 0)])
def test_it_is_a_cumulative_sum(shape):
    with jax.enable_x64(True):
        values = np.random.default_rng(0).normal(size=shape)
        np.testing.assert_allclose(running_sum(jnp.asarray(values)), values.cumsum(-1), atol=1e-12)


def test_an_infinity_reaches_what_comes_after_it_alone():
    values = jnp.array([1.0, jnp.inf, 1.0])
    sums = running_sum(values)
    assert sums[0] == 1
    assert (sums[1:] > 1e38).all()


def test_bfloat16_is_summed_in_float32():
    assert running_sum(jnp.ones(300, jnp.bfloat16)).dtype == jnp.float32
    assert running_sum(jnp.ones(300, jnp.bfloat16))[-1] == 300
