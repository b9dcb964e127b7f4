"""What is behind a stop-gradient stays where it was, however deep it stands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.check.detached import HeldFixed

sg = jax.lax.stop_gradient


def scanned(x):
    total, kept = jax.lax.scan(lambda c, y: (c + sg(y) * y, sg(c) * y), 0.0, x)
    return total + kept.sum()


def reversed_scan(x):
    return jax.lax.scan(lambda c, y: (sg(c) * y + 1, y), 1.0, x, reverse=True)[0]


def looped(x):
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + sg(c[1])), (0, x[0]))[
        1
    ]


def branched(x):
    return jax.lax.cond(x[0] > 0, lambda y: (sg(y) * y).sum(), lambda y: y.sum(), x)


def nested(x):
    return jax.jit(jax.checkpoint(lambda y: (sg(jnp.exp(y)) * y).sum()))(x)


def mapped(x):
    return jax.vmap(jax.jit(lambda y: sg(y) * y))(x).sum()


@pytest.mark.parametrize("function", [scanned, reversed_scan, looped, branched, nested, mapped])
def test_differences_are_autodiffs(function):
    with jax.enable_x64(True):
        x = jnp.array([0.7, 1.3, 0.4])
        held = HeldFixed(function, x)
        np.testing.assert_allclose(held(x), function(x), rtol=1e-14)
        step = 1e-6
        moves = step * jnp.eye(3)
        slopes = [(held(x + move) - held(x - move)) / (2 * step) for move in moves]
        np.testing.assert_allclose(slopes, jax.jacfwd(function)(x), rtol=1e-8)
        free = [(function(x + move) - function(x - move)) / (2 * step) for move in moves]
        assert not np.allclose(slopes, free)


def test_a_gradient_can_be_held_too():
    with jax.enable_x64(True):
        slope = HeldFixed(jax.grad(lambda x: sg(jnp.exp(x)) * x * x), 2.0)
        np.testing.assert_allclose(slope(3.0), np.exp(2.0) * 6, rtol=1e-12)
