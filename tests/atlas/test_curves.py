"""The weights that are drawn, against a table made by hand, and the places of the jumps."""

import math

import numpy as np
import pytest

from jaxgrpo.atlas.curves import trace_curves
from jaxgrpo.atlas.plates import plate_of
from jaxgrpo.atlas.scenes import Point, Scene, evaluate
from jaxgrpo.atlas.subjects import find_subject
from jaxgrpo.clipping import ratio_interval

RATIOS = [0.5, 0.79, 1.0, 1.19, 1.25, 2.0, 4.0]
GOLDEN = [
    ("ppo_clip", +1, [0.5, 0.79, 1, 1.19, 0, 0, 0]),
    ("ppo_clip", -1, [0, 0, 1, 1.19, 1.25, 2, 4]),
    ("ppo_clip,clip_high=0.28", +1, [0.5, 0.79, 1, 1.19, 1.25, 0, 0]),
    ("ppo_clip,dual_clip=3", -1, [0, 0, 1, 1.19, 1.25, 2, 0]),
    ("cispo,clip_high=2", +1, [0.5, 0.79, 1, 1.19, 1.25, 2, 2]),
    ("cispo,clip_high=2", -1, [0.5, 0.79, 1, 1.19, 1.25, 2, 2]),
]


def weights(request, ratios, **point):
    subject = find_subject(request)
    scene = point.pop("scene", Scene())
    points = Point(log_ratio=np.log(ratios), **point)
    return evaluate(subject.function, subject.family, subject.needs, scene, points)[:, 0]


def jumps(request, panel=0):
    """For A > 0 and for A < 0."""
    return [curve.jumps for curve in plate_of(find_subject(request), 8.0).panels[panel].curves]


@pytest.mark.parametrize(("request_", "sign", "expected"), GOLDEN)
def test_golden_weights(request_, sign, expected):
    found = weights(request_, RATIOS, advantage=float(sign))
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0)


def test_no_weight_where_the_policy_would_be_certain():
    found = weights("ppo_clip", [4.0, 6.0], prob=0.2, advantage=-1.0)
    np.testing.assert_allclose(found, [4.0, np.nan], rtol=1e-14)


@pytest.mark.parametrize("length", [1, 5])
def test_the_weight_in_a_sequence_is_that_of_its_mean_ratio(length):
    found = weights("gspo,clip_low=1,clip_high=7", [2.0], scene=Scene(tokens=length))
    # s A summed over the sequence's tokens, whose mean log-ratio is log 2 / length.
    assert found[0] == pytest.approx(2 ** (1 / length), rel=1e-14)


def test_tokens_that_move_together_have_their_own_ratio_as_mean():
    scene = Scene(tokens=5)
    found = weights("gspo,clip_low=1,clip_high=7", [2.0], scene=scene, together=1.0)
    assert found[0] == pytest.approx(2.0, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "delta"),
    [
        ("kl1", 0.2),
        ("kl2", 0.05),
        ("kl3", 0.0231),
        ("tv", 0.1),
        ("chi2", 0.04),
        ("hellinger", 0.01),
    ],
)
def test_a_trust_region_jumps_at_the_ends_of_its_interval(name, delta):
    low, high = ratio_interval(name, delta)
    positive, negative = jumps(f"trust_region,divergence={name},delta={delta}")
    (down,) = negative
    assert down.x == pytest.approx(low, rel=1e-12)
    assert (down.before, down.after) == (0, pytest.approx(low, rel=1e-12))
    if math.isinf(high):
        assert positive == ()
        return
    (up,) = positive
    assert up.x == pytest.approx(high, rel=1e-12)
    assert (up.before, up.after) == (pytest.approx(high, rel=1e-12), 0)


def test_atr_jumps_where_its_interval_ends():
    low, high = ratio_interval("kl3", 0.0231)
    (up,), (down,) = jumps("atr")
    assert (down.x, up.x) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))


def test_a_kink_is_no_jump_and_a_lone_value_is_one():
    kink = trace_curves(lambda x: np.maximum(x, 0)[:, None], 8.0)
    assert kink[0][2] == ()
    ((_, _, (jump,)),) = trace_curves(lambda x: np.sign(x)[:, None], 8.0)
    assert (jump.x, jump.before, jump.after) == (pytest.approx(1, abs=1e-12), -1, 1)


def test_a_line_is_interrupted_at_its_jump_and_reaches_it():
    curve = plate_of(find_subject("ppo_clip"), 8.0).panels[0].curves[0]
    x, y = curve.line()
    (gap,) = np.flatnonzero(np.isnan(y))
    assert x[gap - 1 : gap + 2] == pytest.approx([1.2] * 3, rel=1e-12)
    assert (y[gap - 1], y[gap + 1]) == (pytest.approx(1.2, rel=1e-12), 0)


def test_a_second_axis_is_drawn_where_a_weight_depends_on_it():
    def axes(name):
        return [panel.y_label for panel in plate_of(find_subject(name), 8.0).panels[1:]]

    assert axes("ppo_clip") == []
    assert axes("dppo_tv") == ["probability under the sampler"] * 2
    assert axes("erc") == ["entropy ratio, policy / anchor"] * 2
    assert len(axes("gspo")) == 2
    positive, _ = plate_of(find_subject("dppo_tv"), 8.0).panels[1:]
    surface = positive.surface
    assert surface is not None
    # P (w - 1) > 0.15 has no gradient; w P >= 1 is no probability.
    probs, ratios = np.meshgrid(surface.y, surface.x, indexing="ij")
    away = abs(probs * (ratios - 1) - 0.15) > 1e-9
    expected = np.where(probs * (ratios - 1) > 0.15, 0, ratios)
    expected = np.where(probs * ratios < 1, expected, np.nan)
    np.testing.assert_allclose(surface.z[away], expected[away], rtol=1e-12)


def test_penalties_and_divergences():
    gradient, value = plate_of(find_subject("k3"), 8.0).panels[0].curves
    # y - 1 - log y with y = 1 / w, and its derivative for log w.
    np.testing.assert_allclose(value.y, 1 / value.x - 1 + np.log(value.x), atol=1e-12)
    np.testing.assert_allclose(gradient.y, 1 - 1 / gradient.x, atol=1e-12)
    (kl3,) = plate_of(find_subject("kl3"), 8.0).panels[0].curves
    np.testing.assert_allclose(kl3.y, kl3.x - 1 - np.log(kl3.x), atol=1e-12)
    curves = plate_of(find_subject("full_tv"), 8.0).panels[0].curves
    for curve, prob in zip(curves, [0.01, 0.1, 0.5, 0.9], strict=True):
        # What the token gains all others lose together.
        inside = prob * curve.x < 1
        np.testing.assert_allclose(curve.y[inside], prob * abs(curve.x - 1)[inside], atol=1e-12)
        assert np.isnan(curve.y[~inside]).all()
