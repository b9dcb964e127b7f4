"""What a picture shows, as numbers: panels of curves and of surfaces, with a caption."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from jaxgrpo.atlas.curves import Curve, ratio_grid, trace_curves
from jaxgrpo.atlas.scenes import PROB, Point, Scene
from jaxgrpo.atlas.subjects import Subject
from jaxgrpo.atlas.surroundings import (
    LENGTH,
    caption_of,
    depends_on_probability,
    is_sequence_level,
    numbers,
    scene_of,
    scene_words,
    second_axis,
)
from jaxgrpo.clipping import INTERVALS, ratio_interval

Scale = Literal["ratio", "log", "linear"]

RATIO = "ratio w = policy / anchor"
WEIGHT = "weight of grad log π, in units of A"
SIGNS = ((1.0, "A > 0"), (-1.0, "A < 0"))
_LENGTHS = (1, 4, 16, 64)
_PROBS = (0.01, 0.1, 0.5, 0.9)
# What a heat map has upwards, by the field of `Point`.
_AXES = {
    "prob": ("probability under the sampler", np.geomspace(1e-3, 0.999, 60)),
    "entropy_ratio": ("entropy ratio, policy / anchor", np.geomspace(0.8, 1.25, 46)),
}


@dataclasses.dataclass(frozen=True)
class Surface:
    """A heat map; its x are those of its panel's ratio axis."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    """[y, x]; nan where nothing is possible."""
    label: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    y_label: str
    x_label: str = RATIO
    x_scale: Scale = "ratio"
    y_scale: Scale = "linear"
    curves: Sequence[Curve] = ()
    surface: Surface | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plate:
    """One picture."""

    slug: str
    """Its file name, without the ending."""
    title: str
    caption: str
    panels: Sequence[Panel]
    columns: int = 3
    subject: Subject | None = None
    """None where several are shown."""


def plate_of(subject: Subject, span: float) -> Plate:
    """The picture of one operator, over ratios from 1 / span to span."""
    panels = {"loss": _loss_panels, "penalty": _penalty_panels}.get(
        subject.family, _divergence_panels
    )(subject, span)
    return Plate(
        slug=subject.slug,
        title=subject.label,
        caption=caption_of(subject),
        panels=panels,
        subject=subject,
    )


def plates_of_several(plates: Sequence[Plate]) -> list[Plate]:
    """For each family of which there are several, one picture of all with the same axes."""
    found = []
    families = dict.fromkeys(plate.subject.family for plate in plates if plate.subject)
    for family in families:
        members = [p for p in plates if p.subject and p.subject.family == family]
        if len(members) > 1:
            found.append(_side_by_side(family, members))
    return found


def interval_plate() -> Plate:
    """The ratios that a bound on each divergence allows, over the bound."""
    deltas = np.geomspace(1e-4, 1, 97)
    curves = []
    for style, name in enumerate(INTERVALS):
        ends = np.array([ratio_interval(name, float(delta)) for delta in deltas])
        ends = np.where((ends > 0) & np.isfinite(ends), ends, np.nan)
        curves.append(Curve(name, deltas, ends[:, 1], style=style))
        curves.append(Curve("", deltas, ends[:, 0], style=style))
    panel = Panel(
        title="",
        x_label="bound delta, in the divergence's unit",
        x_scale="log",
        y_label=RATIO,
        y_scale="ratio",
        curves=curves,
    )
    return Plate(
        slug="intervals",
        title="ratios inside D(anchor || policy) <= delta",
        caption=(
            "Both ends of clipping.ratio_interval for each divergence of the ratio alone. kl1 has "
            "no upper end; a lower end of 0 is not drawn."
        ),
        panels=[panel],
    )


def _loss_panels(subject: Subject, span: float) -> list[Panel]:
    scene = scene_of(subject)
    panels = [_both_signs(subject, scene, span)]
    if "off_policy" in subject.needs:
        panels.append(_both_signs(subject, scene, span, off_policy=True))
    if is_sequence_level(subject):
        return panels + _length_panels(subject, span)
    if axis := second_axis(subject, scene):
        panels += _surfaces(subject, scene, span, axis)
    return panels


def _both_signs(subject: Subject, scene: Scene, span: float, *, off_policy: bool = False) -> Panel:
    def weights(log_ratios: np.ndarray) -> np.ndarray:
        signs = [
            numbers(
                subject, scene, Point(log_ratio=log_ratios, advantage=sign, off_policy=off_policy)
            )[:, 0]
            for sign, _ in SIGNS
        ]
        return np.stack(signs, axis=-1)

    curves = [
        Curve(label, *traced, style=style)
        for style, ((_, label), traced) in enumerate(
            zip(SIGNS, trace_curves(weights, span), strict=True)
        )
    ]
    title = "an off-policy token" if off_policy else scene_words(scene)
    return Panel(title=title, y_label=WEIGHT, curves=curves)


def _length_panels(subject: Subject, span: float) -> list[Panel]:
    """Over the length of the sequence, for either sign."""
    cases = [(f"{n} tokens" if n > 1 else "1 token", Scene(tokens=n), 0.0) for n in _LENGTHS]
    cases.append((f"all {LENGTH} move together", Scene(tokens=LENGTH), 1.0))
    panels = []
    for sign, sign_label in SIGNS:
        curves = []
        for style, (label, scene, together) in enumerate(cases):
            ((x, y, jumps),) = trace_curves(
                lambda log_ratios, scene=scene, together=together, sign=sign: numbers(
                    subject,
                    scene,
                    Point(log_ratio=log_ratios, advantage=sign, together=together),
                ),
                span,
            )
            curves.append(Curve(label, x, y, jumps, style))
        title = f"{sign_label}, by length, others at ratio 1"
        panels.append(Panel(title=title, y_label=WEIGHT, curves=curves))
    return panels


def _surfaces(subject: Subject, scene: Scene, span: float, axis: str) -> list[Panel]:
    label, values = _AXES[axis]
    grid = ratio_grid(span)
    log_ratios, second = (a.ravel() for a in np.meshgrid(grid, values))
    panels = []
    for sign, sign_label in SIGNS:
        points = dataclasses.replace(Point(log_ratio=log_ratios, advantage=sign), **{axis: second})
        z = numbers(subject, scene, points)[:, 0].reshape(len(values), len(grid))
        surface = Surface(np.exp(grid), values, z, WEIGHT)
        panels.append(Panel(title=sign_label, y_label=label, y_scale="log", surface=surface))
    return panels


def _penalty_panels(subject: Subject, span: float) -> list[Panel]:
    traced = trace_curves(
        lambda log_ratios: numbers(subject, Scene(), Point(log_ratio=log_ratios)), span
    )
    labels = ("gradient, d penalty / d log π", "value, nats")
    curves = [
        Curve(label, *line, style=style)
        for style, (label, line) in enumerate(zip(labels, traced[::-1], strict=True))
    ]
    return [Panel(title="", x_label="policy / reference", y_label="nats per token", curves=curves)]


def _divergence_panels(subject: Subject, span: float) -> list[Panel]:
    probs = _PROBS if depends_on_probability(subject, Scene()) else (PROB,)
    curves = []
    for style, prob in enumerate(probs):
        ((x, y, jumps),) = trace_curves(
            lambda log_ratios, prob=prob: numbers(
                subject, Scene(), Point(log_ratio=log_ratios, prob=prob)
            ),
            span,
        )
        label = f"P = {prob:g}" if len(probs) > 1 else "value"
        curves.append(Curve(label, x, y, jumps, style))
    return [Panel(title="", x_label="Q / P at the token", y_label="D(P || Q)", curves=curves)]


def _side_by_side(family: str, plates: Sequence[Plate]) -> Plate:
    subjects = [plate.subject.label for plate in plates if plate.subject]
    caption = f"{', '.join(subjects)}: as in their own pictures, with the same axes."
    slug = f"compare-{family.replace(' ', '-')}"
    firsts = [plate.panels[0] for plate in plates]
    if len(plates) > 8:
        panels = [
            dataclasses.replace(panel, title=plate.title)
            for plate, panel in zip(plates, firsts, strict=True)
        ]
        caption = f"{caption[:-1]}, which end at -1 and 4."
        return Plate(slug=slug, title=plural(family), caption=caption, panels=panels, columns=6)
    panels = []
    for index, (_, sign) in enumerate(SIGNS if family == "loss" else [(0, "")]):
        curves = [
            dataclasses.replace(panel.curves[index], label=plate.title, style=style)
            for style, (plate, panel) in enumerate(zip(plates, firsts, strict=True))
        ]
        y_label = firsts[0].curves[0].label if family == "penalty" else firsts[0].y_label
        panels.append(dataclasses.replace(firsts[0], title=sign, y_label=y_label, curves=curves))
    return Plate(slug=slug, title=" / ".join(subjects), caption=caption, panels=panels)


def plural(family: str) -> str:
    """A family in the plural."""
    return {"loss": "losses", "penalty": "penalties"}.get(family, f"{family}s")
