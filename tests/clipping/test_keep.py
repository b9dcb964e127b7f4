import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.clipping import keep_mask


@pytest.mark.parametrize("log_ratio", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("advantage", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("feasible", [True, False])
def test_only_infeasible_moves_further_out_are_cut(log_ratio, advantage, feasible):
    # log_ratio * advantage > 0: the advantage pushes the way the policy has already gone.
    outward = log_ratio * advantage > 0
    kept = keep_mask(jnp.array([log_ratio]), jnp.array([advantage]), jnp.array([feasible]))
    assert bool(kept[0]) is (feasible or not outward)


def test_sequence_advantages_spread_over_the_tokens():
    log_ratios = jnp.array([[0.5, -0.5], [0.5, -0.5]])
    kept = keep_mask(log_ratios, jnp.array([1.0, -1.0]), jnp.zeros((2, 2), bool))
    np.testing.assert_array_equal(kept, [[False, True], [True, False]])


def test_infinite_ratios_have_a_side():
    log_ratios = jnp.array([jnp.inf, jnp.inf, -jnp.inf, -jnp.inf])
    kept = keep_mask(log_ratios, jnp.array([1.0, -1.0, 1.0, -1.0]), jnp.zeros(4, bool))
    np.testing.assert_array_equal(kept, [False, True, True, False])


def test_jit_and_vmap_change_nothing():
    cases = np.array(list(itertools.product([-0.5, 0.0, 0.5], [-2.0, 0.0, 2.0], [0, 1])))
    arguments = (
        jnp.asarray(cases[:, 0], jnp.float32).reshape(6, 3),
        jnp.asarray(cases[:, 1], jnp.float32).reshape(6, 3),
        jnp.asarray(cases[:, 2] == 1).reshape(6, 3),
    )
    eager = keep_mask(*arguments)
    np.testing.assert_array_equal(jax.jit(keep_mask)(*arguments), eager)
    np.testing.assert_array_equal(jax.vmap(keep_mask)(*arguments), eager)
    assert eager.dtype == bool


def test_what_does_not_fit_is_refused():
    tokens, flags = jnp.zeros((2, 3)), jnp.zeros((2, 3), bool)
    with pytest.raises(ValueError, match="advantages must have shape"):
        keep_mask(tokens, jnp.zeros(3), flags)
    with pytest.raises(ValueError, match="feasible must have shape"):
        keep_mask(tokens, jnp.zeros(2), flags[:, :1])
    with pytest.raises(TypeError, match="feasible must be a bool array"):
        keep_mask(tokens, jnp.zeros(2), tokens)
