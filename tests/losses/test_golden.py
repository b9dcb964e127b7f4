"""The interval losses at hand-made ratios: what each token weighs, and what it is worth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses import LOSSES

RATIOS = np.array([0.5, 0.79, 1, 1.19, 1.25, 2, 4])
FREE = [0.5, 0.79, 1, 1.19, 1.25, 2, 4]
# (name, options): weights on grad log pi in units of A, for A > 0 and for A < 0, at these ratios;
# then the values in units of -A.
HIGH_AT_1_2 = [0.5, 0.79, 1, 1.19, 0, 0, 0]
LOW_AT_0_8 = [0, 0, 1, 1.19, 1.25, 2, 4]
ROWS = {
    "ppo": (
        "ppo_clip",
        {},
        (HIGH_AT_1_2, LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1.2, 1.2, 1.2], [0.8, 0.8, 1, 1.19, 1.25, 2, 4]),
    ),
    "dapo": (
        "ppo_clip",
        {"clip_high": 0.28},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1.25, 1.28, 1.28], [0.8, 0.8, 1, 1.19, 1.25, 2, 4]),
    ),
    "dual clip": (
        "ppo_clip",
        {"dual_clip": 3.0},
        (HIGH_AT_1_2, [0, 0, 1, 1.19, 1.25, 2, 0]),
        ([0.5, 0.79, 1, 1.19, 1.2, 1.2, 1.2], [0.8, 0.8, 1, 1.19, 1.25, 2, 3]),
    ),
    "ppo unclipped": (
        "ppo_clip",
        {"clip_low": 1.0, "clip_high": float("inf")},
        (FREE, FREE),
        (FREE, FREE),
    ),
    "ppo closed": (
        "ppo_clip",
        {"clip_low": 0.0, "clip_high": 0.0},
        ([0.5, 0.79, 1, 0, 0, 0, 0], [0, 0, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1, 1, 1, 1], [1, 1, 1, 1.19, 1.25, 2, 4]),
    ),
    # The interval of delta = 0.023144 is 0.80000 to 1.23084.
    "atr": (
        "atr",
        {"delta": 0.023144},
        (HIGH_AT_1_2, LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1.23084, 1.23084, 1.23084], [0.8, 0.8, 1, 1.19, 1.25, 2, 4]),
    ),
    "atr closed": (
        "atr",
        {"delta": 0.0},
        ([0.5, 0.79, 1, 0, 0, 0, 0], [0, 0, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1, 1, 1, 1], [1, 1, 1, 1.19, 1.25, 2, 4]),
    ),
    "atr open": ("atr", {"delta": float("inf")}, (FREE, FREE), (FREE, FREE)),
    "trust region": (
        "trust_region",
        {"divergence": "tv", "delta": 0.1},
        (HIGH_AT_1_2, LOW_AT_0_8),
        ([0.5, 0.79, 1, 1.19, 1, 1, 1], [1, 1, 1, 1.19, 1.25, 2, 4]),
    ),
    "trust region, two bounds": (
        "trust_region",
        {"divergence": "tv", "delta": 0.14, "delta_low": 0.24},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], [0, 0.79, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1.19, 1.25, 1, 1], [1, 0.79, 1, 1.19, 1.25, 2, 4]),
    ),
    # The anchor's probability is 0.2: |P - Q| is 0.1, 0.042, 0, 0.038, 0.05, 0.2, 0.6.
    "binary trust region": (
        "trust_region",
        {"divergence": "binary_tv", "delta": 0.06},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], [0, 0.79, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1.19, 1.25, 1, 1], [1, 0.79, 1, 1.19, 1.25, 2, 4]),
    ),
    # The value is -A log pi, here in units of -A.
    "reinforce": ("reinforce", {}, ([1] * 7, [1] * 7), (np.log(0.2 * RATIOS),) * 2),
    "cispo": (
        "cispo",
        {"clip_low": 0.6, "clip_high": 1.5},
        ([0.6, 0.79, 1, 1.19, 1.25, 1.5, 1.5],) * 2,
        (np.array([0.6, 0.79, 1, 1.19, 1.25, 1.5, 1.5]) * np.log(0.2 * RATIOS),) * 2,
    ),
    # A clipped token keeps the gradient of the boundary, scaled.
    "ce_gppo": (
        "ce_gppo",
        {},
        ([0.5, 0.79, 1, 1.19, 1.2, 1.2, 1.2], [0.6, 0.6, 1, 1.19, 1.25, 2, 4]),
        ([0.5, 0.79, 1, 1.19, 1.2, 1.2, 1.2], [0.6, 0.6, 1, 1.19, 1.25, 2, 4]),
    ),
    # The anchor's probability is 0.2: |P - Q| as above.
    "dppo_tv": (
        "dppo_tv",
        {"delta": 0.06, "cap": 3.0},
        ([0.5, 0.79, 1, 1.19, 1.25, 0, 0], [0, 0.79, 1, 1.19, 1.25, 2, 3]),
        (
            [0.5, 0.79, 1, 1.19, 1.25, 0, 0] * np.log(0.2 * RATIOS),
            [0, 0.79, 1, 1.19, 1.25, 2, 3] * np.log(0.2 * RATIOS),
        ),
    ),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(("dtype", "rtol"), [(jnp.float32, 1e-5), (jnp.float64, 1e-12)])
def test_golden_weights_and_values(row, dtype, rtol):
    name, options, weights, values = ROWS[row]
    loss = LOSSES.bind(name, **options)
    sides = np.array([[3.0], [-0.5]])
    with jax.enable_x64(True):
        anchor = jnp.full((2, 7), np.log(0.2), dtype)
        log_probs = jnp.asarray(np.log(0.2 * RATIOS)[None].repeat(2, 0), dtype)
        # The ratio 1 must be exactly that.
        log_probs = log_probs.at[:, 2].set(anchor[:, 2])
        advantages = jnp.asarray(sides[:, 0], dtype)
        got, pull = jax.vjp(jax.jit(lambda x: loss(x, anchor, advantages)), log_probs)
        (gradient,) = pull(jnp.ones_like(got))
    assert got.dtype == gradient.dtype == dtype
    expected = -sides * np.asarray(weights, float)
    np.testing.assert_allclose(gradient, expected, rtol=rtol)
    np.testing.assert_array_equal(np.asarray(gradient)[expected == 0], 0)
    # The interval of ATR is known to five decimals here.
    value_rtol = 1e-5 if row == "atr" else rtol
    np.testing.assert_allclose(got, -sides * np.asarray(values), rtol=value_rtol)
