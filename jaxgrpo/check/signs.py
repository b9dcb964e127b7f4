"""For which ratio and advantage a gradient flows, and which way: from autodiff of the operator."""

import itertools

import numpy as np

from jaxgrpo.check.findings import Region
from jaxgrpo.check.properties import Outcome, register
from jaxgrpo.check.single_tokens import weights
from jaxgrpo.check.subject import Subject

_ANCHOR = 0.05
_RATIOS = np.exp(np.linspace(-np.log(16), np.log(16), 129))
_PROBABILITIES = np.exp(np.linspace(np.log(1e-8), np.log(0.999), 97))
_FADED = 1e-6  # of the largest weight: less than that, just inside, is rounding and no clip
_FLOWS = {1: "with the advantage", 0: "none", -1: "against the advantage"}


def alone(subject: Subject) -> bool:
    """Whether a loss says anything about a token by itself."""
    return subject.level != "group" and "group_ids" not in subject.needs


@register("sign map", ("loss",))
def sign_map(subject: Subject) -> Outcome:
    """No token is pushed against its advantage, at any ratio to the anchor."""
    if not alone(subject):
        return Outcome(note="a lone token of a group has no map")
    flows = {sign: _flow(subject, sign, np.log(_RATIOS)) for sign in (1.0, -1.0)}
    for sign, flow in flows.items():
        if np.isnan(flow).any():
            return Outcome(
                diagnosis=f"the gradient is nan or inf, {_words(sign)} at ratio "
                f"{_RATIOS[np.isnan(flow)][0]:.4g}, and at {int(np.isnan(flow).sum()) - 1} other "
                "places of the map"
            )
    regions = [region for sign, flow in flows.items() for region in _regions(subject, sign, flow)]
    if subject.claims == "none":
        return Outcome(note="claims none", regions=regions)
    against = [(sign, ratio) for sign, flow in flows.items() for ratio in _RATIOS[flow < 0]]
    if against:
        sign, ratio = against[0]
        return Outcome(
            diagnosis=f"tokens are pushed against their advantage: {_words(sign)} at ratio "
            f"{ratio:.4g}, and {len(against) - 1} other places of the map",
            regions=regions,
        )
    return Outcome(regions=regions, note="; ".join(map(str, _quiet(regions))))


@register("clip side", ("loss",))
def clip_side(subject: Subject) -> Outcome:
    """Only moves that lead further from the anchor are cut; the way back stays open."""
    if not alone(subject) or subject.claims == "none":
        return Outcome(note="claims nothing here")
    up, down = (_cut_ends(subject, sign) for sign in (1.0, -1.0))
    if all(up):
        return Outcome(
            diagnosis="a clamp kills the gradient: for positive advantages nothing flows on either "
            "side of the anchor, so no token comes back; cut only moves that lead further out"
        )
    wrong = []
    if up[0] and not up[1]:
        wrong.append("positive")
    if down[1] and not down[0]:
        wrong.append("negative")
    if wrong:
        return Outcome(
            diagnosis=f"the clip acts on the wrong side for {' and '.join(wrong)} advantages: it "
            "cuts moves back to the anchor and lets moves away from it through"
        )
    return Outcome()


@register("every probability", ("loss",))
def every_probability(subject: Subject) -> Outcome:
    """On-policy, the gradient follows the advantage from p = 1e-8 to nearly 1."""
    if not alone(subject) or subject.claims == "none":
        return Outcome(note="claims nothing here")
    log_probs = np.log(_PROBABILITIES)
    for sign in (1.0, -1.0):
        signs = np.full(len(log_probs), sign)
        flow = np.sign(weights(subject, log_probs, log_probs, signs) * sign)
        if np.all(flow > 0):
            continue
        bad = np.flatnonzero(flow <= 0)
        edge = np.exp(_bisect_probability(subject, sign, flow, bad, log_probs))
        if flow[bad[0]] == 0:
            return Outcome(
                diagnosis=f"a clamp kills the gradient on-policy: none below p = {edge:.3g} "
                f"({_words(sign)})"
                if bad[0] == 0
                else f"no gradient on-policy from p = {_PROBABILITIES[bad[0]]:.3g} on"
            )
        if np.all(flow < 0):
            return Outcome(diagnosis="wrong sign at every probability")
        return Outcome(
            diagnosis=f"the weight is not detached: sign flips below p = {edge:.2f} "
            f"({_words(sign)})"
        )
    return Outcome()


def _cut_ends(subject: Subject, sign: float) -> list[bool]:
    """Whether the map's lowest and highest ratio are cut; what fades out to 0 is not."""
    log_ratios = np.log(_RATIOS)
    flow = _flow(subject, sign, log_ratios)
    edges = edges_of_flow(subject, sign)
    anchor, signs = np.full(len(log_ratios), np.log(_ANCHOR)), np.full(len(log_ratios), sign)
    largest = np.max(np.abs(weights(subject, anchor + log_ratios, anchor, signs)))
    cut = []
    for end, side in ((0, 1.0), (-1, -1.0)):
        # Of the ends of cut regions, the one that comes first from this end of the map.
        last = [alive for dead, alive in edges if (alive - dead) * side > 0][:: int(side)]
        if flow[end] != 0 or not last:
            cut.append(bool(flow[end] == 0))
            continue
        here = np.full(len(log_ratios), last[0])
        cut.append(abs(weights(subject, anchor + here, anchor, signs)[0]) > _FADED * largest)
    return cut


def edges_of_flow(subject: Subject, sign: float) -> list[tuple[float, float]]:
    """Neighbouring log-ratios, the first cut and the second not, at every end of a cut region."""
    log_ratios = np.log(_RATIOS)
    cut = _flow(subject, sign, log_ratios) == 0
    found = []
    for place in np.flatnonzero(cut[:-1] != cut[1:]):
        a, b = log_ratios[place], log_ratios[place + 1]
        dead, alive = (a, b) if cut[place] else (b, a)
        while abs(alive - dead) > np.spacing(max(abs(alive), abs(dead))):
            middle = (alive + dead) / 2
            if middle in (alive, dead):
                break
            if _flow(subject, sign, np.array([middle]))[0] == 0:
                dead = middle
            else:
                alive = middle
        found.append((float(dead), float(alive)))
    return found


def _flow(subject: Subject, sign: float, log_ratios: np.ndarray) -> np.ndarray:
    """1, 0 or -1 at every ratio: with the advantage, none, against it."""
    # What flows without any advantage, a penalty, is taken off.
    # Always as many as the map has: one program for the map and for the search of its ends.
    filled = np.resize(log_ratios, len(_RATIOS))
    anchor, signs = np.full(len(filled), np.log(_ANCHOR)), np.full(len(filled), sign)
    moved = weights(subject, anchor + filled, anchor, signs)
    still = weights(subject, anchor + filled, anchor, 0 * signs)
    return np.sign((moved - still) * sign)[: len(log_ratios)]


def _regions(subject: Subject, sign: float, flow: np.ndarray) -> list[Region]:
    edges = sorted(np.exp(dead) for dead, _ in edges_of_flow(subject, sign))
    bounds = [0.0, *edges, np.inf]
    regions = []
    for low, high in itertools.pairwise(bounds):
        inside = (low < _RATIOS) & (high > _RATIOS)
        if inside.any():
            kind = _FLOWS[int(flow[inside][len(flow[inside]) // 2])]
            regions.append(
                Region(advantage=_words(sign), low=float(low), high=float(high), flow=kind)
            )
    return regions


def _quiet(regions: list[Region]) -> list[Region]:
    return [region for region in regions if region.flow == "none"]


def _words(sign: float) -> str:
    return "A > 0" if sign > 0 else "A < 0"


def _bisect_probability(
    subject: Subject, sign: float, flow: np.ndarray, bad: np.ndarray, log_probs: np.ndarray
) -> float:
    """The log-prob at which the flow changes, next to the first bad place."""
    good = np.flatnonzero(flow > 0)
    if not len(good):
        return float(log_probs[-1])
    a = log_probs[bad[bad < good[0]][-1]] if bad[0] < good[0] else log_probs[bad[0]]
    b = log_probs[good[0]] if bad[0] < good[0] else log_probs[bad[0] - 1]
    for _ in range(40):
        middle = np.array([(a + b) / 2])
        if weights(subject, middle, middle, np.array([sign]))[0] * sign > 0:
            b = middle[0]
        else:
            a = middle[0]
    return float(b)
