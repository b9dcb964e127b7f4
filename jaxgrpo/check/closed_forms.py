"""Gradients per token as the papers state them, in NumPy and apart from the operators' own code.

Each takes the live log-probs and the other arrays, and returns d value / d live [B, T].
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxgrpo.check.subject import Subject
from jaxgrpo.clipping import INTERVALS, ratio_interval

Formula = Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray]
_Weight = Callable[[np.ndarray, np.ndarray, Mapping[str, Any]], np.ndarray]


def closed_form(subject: Subject) -> Formula | None:
    """The declared gradient of an operator with its options; None where none is declared."""
    if subject.card is None:
        return None
    if subject.family.name == "loss" and subject.name in _WEIGHTS:
        weight, options = _WEIGHTS[subject.name], subject.options
        if not set(options) <= _OPTIONS.get(subject.name, set()):
            return None
        if options.get("divergence", "kl3") not in INTERVALS:
            return None

        def of_loss(live: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
            advantages = np.broadcast_to(arrays["advantages"][:, None], live.shape)
            ratios = np.exp(live - arrays["anchor_log_probs"])
            return -weight(ratios, advantages, {**arrays, "live": live, **options}) * advantages

        return of_loss
    if subject.family.name == "penalty" and subject.name in _PENALTIES:
        penalty = _PENALTIES[subject.name]
        return lambda live, arrays: penalty(live - arrays["reference_log_probs"])
    if subject.family.name == "divergence" and subject.name in _DIVERGENCES:
        divergence = _DIVERGENCES[subject.name]
        return lambda live, arrays: divergence(
            np.exp(live - arrays["sampler_log_probs"]), np.exp(arrays["sampler_log_probs"])
        )
    return None


def _one_sided(ratios: np.ndarray, advantages: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """True where a move that leads further out has left [low, high]."""
    return (advantages > 0) & (ratios > high) | (advantages < 0) & (ratios < low)


def _clip(low: float, high: float, dual: float | None = None) -> _Weight:
    def weight(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
        cut = _one_sided(w, a, 1 - have.get("clip_low", low), 1 + have.get("clip_high", high))
        ceiling = have.get("dual_clip", dual)
        if ceiling is not None:
            cut |= (a < 0) & (w > ceiling)
        return np.where(cut, 0, w)

    return weight


def _atr(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    ends = ratio_interval(have.get("divergence", "kl3"), have.get("delta", 0.0231))
    return np.where(_one_sided(w, a, *ends), 0, w)


def _dppo_tv(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    room = have.get("delta", 0.15) / np.exp(have["anchor_log_probs"])
    return np.where(_one_sided(w, a, 1 - room, 1 + room), 0, w)


def _sapo(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    tau = np.where(a > 0, have.get("tau_positive", 1.0), have.get("tau_negative", 1.05))
    gate = 1 / (1 + np.exp(-tau * (w - 1)))
    return 4 * gate * (1 - gate) * w


def _gppo(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    return np.where((a > 0) & (w > 1.2), 1.2, np.where((a < 0) & (w < 0.8), 0.8, w))


def _aspo(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    weight = np.minimum(np.where(a > 0, 1 / w, w), have.get("cap", 3.0))
    return np.where(_one_sided(w, a, 0.8, 1.2), 0, weight)


def _up_grpo(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    return np.where(a > 0, 1, np.where((w < 0.8) | (w > 3), 0, w))


def _cfpo(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    return w * (1 - np.sign(a) * (w - 1) / have.get("epsilon", 0.2))


def _dro(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    return 1 - have.get("beta", 0.1) * np.log(w) / a


def _rpg(w: np.ndarray, a: np.ndarray, have: Mapping[str, Any]) -> np.ndarray:
    return w - have.get("beta", 1e-4) * w * np.log(w) / a  # the default kind, urkl


_WEIGHTS: dict[str, _Weight] = {
    "reinforce": lambda w, a, have: np.ones_like(w),
    "gpg": lambda w, a, have: np.ones_like(w),
    "ppo_clip": _clip(0.2, 0.2),
    "atr": _atr,
    "trust_region": _atr,
    "dppo_tv": _dppo_tv,
    "cispo": lambda w, a, have: np.minimum(w, have.get("clip_high", 5.0)),
    "sapo": _sapo,
    "cfpo": _cfpo,
    "gppo": _gppo,
    "aspo": _aspo,
    "up_grpo": _up_grpo,
    "dro": _dro,
    "rpg": _rpg,
}
# The options that a formula knows; with others there is none.
_OPTIONS = {
    "ppo_clip": {"clip_low", "clip_high", "dual_clip"},
    "atr": {"delta"},
    "trust_region": {"divergence", "delta"},
    "dppo_tv": {"delta"},
    "cispo": {"clip_high"},
    "sapo": {"tau_positive", "tau_negative"},
    "cfpo": {"epsilon"},
    "aspo": {"cap"},
    "dro": {"beta"},
    "rpg": {"beta"},
}
# Of k = log(policy / reference).
_PENALTIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reverse_kl": lambda k: k,
    "k1": lambda k: np.ones_like(k),
    "k2": lambda k: k,
    "k3": lambda k: 1 - np.exp(-k),
    "k1_score": lambda k: k + 1,
    "k3_score": lambda k: np.exp(-k) - 1 + k + 1 - np.exp(-k),
    "absolute": np.sign,
}
# Of the ratio w = other / sampler and the sampler's probability p, for the other's log-prob.
_DIVERGENCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "kl1": lambda w, p: -np.ones_like(w),
    "kl2": lambda w, p: np.log(w),
    "kl3": lambda w, p: w - 1,
    "tv": lambda w, p: np.sign(w - 1) * w / 2,
    "chi2": lambda w, p: 2 * (w - 1) * w,
    "hellinger": lambda w, p: w - np.sqrt(w),
    "binary_tv": lambda w, p: np.sign(w - 1) * w * p,
    "binary_kl": lambda w, p: p * (w - 1) / (1 - w * p),
}
