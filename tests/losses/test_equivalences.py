"""Losses that are one another under other names, and formulas worked out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.clipping import INTERVALS, ratio_interval
from jaxgrpo.divergences import kl3, tv
from jaxgrpo.losses import (
    atr,
    ce_gppo,
    cispo,
    dppo_kl,
    dppo_tv,
    dro,
    erc,
    gppo,
    gspo,
    gspo_token,
    ppo_clip,
    reinforce,
    rpg,
    trust_region,
)

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


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("one", "options", "other", "other_options"),
    [
        (dppo_tv, {"delta": 0.1}, trust_region, {"divergence": "binary_tv", "delta": 0.1}),
        (dppo_kl, {"delta": 0.1}, trust_region, {"divergence": "binary_kl", "delta": 0.1}),
        # Without a region, DPPO is the importance-weighted gradient; with a cap of 3 it is CISPO.
        (dppo_tv, {"delta": INFINITE}, atr, {"delta": INFINITE}),
        (dppo_tv, {"delta": INFINITE, "cap": 3.0}, cispo, {"clip_high": 3.0}),
        (reinforce, {"weight": "ratio", "cap": 3.0}, cispo, {"clip_high": 3.0}),
        (reinforce, {}, dro, {"beta": 0.0}),
        (ce_gppo, {"beta_low": 1.0, "beta_high": 1.0}, gppo, {}),
        (ce_gppo, {"beta_low": 0.0, "beta_high": 0.0}, ppo_clip, {}),
        (rpg, {"beta": 0.0}, atr, {"delta": INFINITE}),
        (
            rpg,
            {"beta": 0.0, "estimator": "differentiable", "clipped": True, "dual_clip": 3.0},
            ppo_clip,
            {"clip_high": 0.28, "dual_clip": 3.0},
        ),
    ],
)
def test_losses_that_have_the_gradient_of_one_another(one, options, other, other_options):
    # Probabilities below 1: the binary divergences are of policies.
    with jax.enable_x64(True):
        log_probs = jnp.minimum(jnp.asarray(LOG_RATIOS), 1.5) - 2

        def weights(loss, options):
            total = jax.jit(
                lambda x: loss(x, jnp.full(400, -2.0), jnp.asarray(ADVANTAGES), **options).sum()
            )
            return -np.asarray(jax.grad(total)(log_probs))

        mine, others = weights(one, options), weights(other, other_options)
    np.testing.assert_allclose(mine, others, rtol=1e-12)
    assert np.count_nonzero(mine)


def test_gspo_token_is_gspo_with_one_advantage_a_sequence():
    with jax.enable_x64(True):
        rows = [jnp.asarray(x.reshape(40, 10)) for x in (LOG_RATIOS, 0 * LOG_RATIOS)]
        advantages = jnp.asarray(ADVANTAGES[:40])
        options = {"clip_low": 0.05, "clip_high": 0.05}
        gradients = [
            jax.grad(lambda x, loss=loss: loss(x, rows[1], advantages, **options).sum())(rows[0])
            for loss in (gspo, gspo_token)
        ]
    np.testing.assert_allclose(*gradients, rtol=1e-12)
    assert 0 < np.count_nonzero(np.asarray(gradients[0]) == 0) < 400


def test_erc_without_bounds_is_its_base_and_with_closed_ones_has_no_gradient():
    log_probs, zeros = jnp.asarray(LOG_RATIOS, jnp.float32), jnp.zeros(400)
    advantages = jnp.asarray(ADVANTAGES, jnp.float32)
    entropies = jnp.exp(log_probs)

    def gradient(loss, **options):
        return jax.grad(lambda x: loss(x, zeros, advantages, **options).sum())(log_probs)

    arrays = {"entropies": entropies, "anchor_entropies": jnp.ones(400)}
    opened = gradient(erc, low=0.0, high=INFINITE, **arrays)
    np.testing.assert_array_equal(opened, gradient(ppo_clip))
    closed = gradient(erc, low=0.0, high=1e-9, **arrays)
    np.testing.assert_array_equal(closed, zeros)
