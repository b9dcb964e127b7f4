"""Losses that are one another under other names, and formulas worked out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.clipping import INTERVALS, ratio_interval
from jaxgrpo.divergences import kl3, tv
from jaxgrpo.losses import atr, ppo_clip, trust_region

RANDOM = np.random.default_rng(11)
LOG_RATIOS = RANDOM.normal(size=400) * 0.6
ADVANTAGES = RANDOM.normal(size=400)


def weights(loss, **options):
    """What multiplies grad log pi: w A on the tokens kept, 0 on the others."""
    with jax.enable_x64(True):
        return -np.asarray(
            jax.grad(lambda x: loss(x, jnp.zeros(400), jnp.asarray(ADVANTAGES), **options).sum())(
                jnp.asarray(LOG_RATIOS)
            )
        )


def clipped(low, high):
    """A clip of the ratio to [low, high], by hand."""
    ratios = np.exp(LOG_RATIOS)
    dropped = ((ADVANTAGES > 0) & (ratios > high)) | ((ADVANTAGES < 0) & (ratios < low))
    return np.where(dropped, 0, ratios * ADVANTAGES)


@pytest.mark.parametrize("delta", [0.0, 1e-4, 0.0231, 0.0331, 0.3, 2.0, float("inf")])
def test_atr_is_a_clip_to_the_interval_of_kl3(delta):
    low, high = ratio_interval("kl3", delta)
    np.testing.assert_allclose(weights(atr, delta=delta), clipped(low, high), rtol=1e-12)
    if delta < 1:
        as_clip = weights(ppo_clip, clip_low=1 - low, clip_high=high - 1)
        np.testing.assert_array_equal(weights(atr, delta=delta), as_clip)


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_a_trust_region_is_a_clip_to_its_interval(name, delta):
    region = weights(trust_region, divergence=name, delta=delta)
    np.testing.assert_allclose(region, clipped(*ratio_interval(name, delta)), rtol=1e-12)
    assert 0 < np.count_nonzero(region == 0) < 400


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.3])
def test_a_trust_region_of_tv_is_ppo_at_twice_the_bound(delta):
    region = weights(trust_region, divergence="tv", delta=delta)
    clip = weights(ppo_clip, clip_low=2 * delta, clip_high=2 * delta)
    np.testing.assert_array_equal(region, clip)


def test_two_bounds_are_two_clips():
    region = weights(trust_region, divergence="tv", delta=0.14, delta_low=0.05)
    np.testing.assert_array_equal(region, weights(ppo_clip, clip_low=0.1, clip_high=0.28))


def test_the_inverse_ratio_reverses_the_interval():
    # kl3(policy, anchor) feeds anchor/policy to the test: the interval becomes [1 / high, 1 / low].
    low, high = ratio_interval("kl3", 0.05)

    def swapped(anchor_log_probs, log_probs, *, where=None):
        return kl3(log_probs, anchor_log_probs, where=where)

    region = weights(trust_region, divergence=swapped, delta=0.05)
    np.testing.assert_allclose(region, clipped(1 / high, 1 / low), rtol=1e-12)
    assert not np.array_equal(region, weights(atr, delta=0.05))


def test_a_name_a_function_and_a_path_are_the_same_region():
    regions = [
        weights(trust_region, divergence=divergence, delta=0.1)
        for divergence in ("tv", tv, "jaxgrpo.divergences:tv")
    ]
    np.testing.assert_array_equal(regions[0], regions[1])
    np.testing.assert_array_equal(regions[0], regions[2])


def test_the_dual_clip_is_the_two_sided_form_in_value_and_gradient():
    ratios, cap = np.exp(LOG_RATIOS), 1.7
    # INTELLECT-2: -min(min(w, D) A, clip(w) A).
    unclipped = np.minimum(ratios, cap) * ADVANTAGES
    expected = -np.minimum(unclipped, np.clip(ratios, 0.8, 1.28) * ADVANTAGES)
    options = {"clip_high": 0.28, "dual_clip": cap}
    with jax.enable_x64(True):
        values = ppo_clip(
            jnp.asarray(LOG_RATIOS), jnp.zeros(400), jnp.asarray(ADVANTAGES), **options
        )
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    capped = (ADVANTAGES < 0) & (ratios > cap)
    assert capped.any()
    np.testing.assert_allclose(
        weights(ppo_clip, **options), np.where(capped, 0, clipped(0.8, 1.28)), rtol=1e-12
    )


def test_ppo_has_the_value_of_its_formula():
    ratios = np.exp(LOG_RATIOS)
    expected = -np.minimum(ratios * ADVANTAGES, np.clip(ratios, 0.7, 1.1) * ADVANTAGES)
    with jax.enable_x64(True):
        values = ppo_clip(
            jnp.asarray(LOG_RATIOS),
            jnp.zeros(400),
            jnp.asarray(ADVANTAGES),
            clip_low=0.3,
            clip_high=0.1,
        )
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_a_region_of_ones_own_is_masked_and_detached():
    def steep(anchor_log_probs, log_probs, *, where=None):
        # nan and a gradient in the padding must not get out.
        return jnp.sqrt(log_probs - anchor_log_probs)

    log_probs = jnp.array([[0.5, 0.01, -1.0]])
    where = jnp.array([[True, True, False]])
    gradient = jax.grad(
        lambda x: trust_region(
            x, jnp.zeros((1, 3)), jnp.ones(1), where=where, divergence=steep, delta=0.2
        ).sum()
    )(log_probs)
    np.testing.assert_allclose(gradient, [[0, -np.exp(0.01), 0]], rtol=1e-6)


def test_the_boundary_belongs_to_the_region():
    log_probs, zeros = jnp.array([[0.5, -0.5]]), jnp.zeros((1, 2))
    advantages = jnp.array([[1.0, -1.0]])

    def on_the_boundary(anchor_log_probs, log_probs, *, where=None):
        return jnp.full((1, 2), 0.25)

    low, high = (float(x) for x in jnp.abs(jnp.expm1(log_probs[0, ::-1])))
    options = {"divergence": on_the_boundary, "delta": 0.25}
    for loss in (
        lambda x: trust_region(x, zeros, advantages, **options),
        lambda x: ppo_clip(x, zeros, advantages, clip_low=low, clip_high=high),
    ):
        gradient = jax.grad(lambda x, loss=loss: loss(x).sum())(log_probs)
        np.testing.assert_allclose(gradient, -jnp.exp(log_probs) * advantages, rtol=1e-6)


def test_a_region_must_return_one_number_a_token():
    with pytest.raises(ValueError, match=r"the divergence's result must have shape \[1, 3\]"):
        trust_region(
            jnp.zeros((1, 3)),
            jnp.zeros((1, 3)),
            jnp.ones(1),
            divergence=lambda p, q, *, where: jnp.zeros(1),
            delta=0.1,
        )


def test_an_unknown_region_names_the_known():
    with pytest.raises(LookupError, match="no divergence named 'k3'; did you mean 'kl3'"):
        trust_region(jnp.zeros((1, 3)), jnp.zeros((1, 3)), jnp.ones(1), divergence="k3", delta=0.1)
