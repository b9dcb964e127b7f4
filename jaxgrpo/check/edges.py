"""Kinks and extremes: ends of the trust region, A = 0, ratios of 0 and infinity."""

import jax.numpy as jnp
import numpy as np

from jaxgrpo.check.examples import Example, example
from jaxgrpo.check.properties import LOG_PROB_FAMILIES, Outcome, compared, register
from jaxgrpo.check.signs import alone, edges_of_flow
from jaxgrpo.check.single_tokens import single_tokens, weights
from jaxgrpo.check.subject import Subject
from jaxgrpo.core.options import option_arguments

_BOUNDS = ("delta", "delta_low", "clip", "clip_low", "clip_high")
_INSIDE = 1e-9


@register("a bound of 0", ("loss",))
def zero_bound(subject: Subject) -> Outcome:
    """With every bound at 0 the on-policy token is feasible, and keeps its gradient -A."""
    if subject.card is None or subject.claims != "policy_gradient":
        return Outcome(note="options are not known")
    known = option_arguments(subject.family.registry[subject.name])
    bounds = {name: 0.0 for name in _BOUNDS if name in known}
    if subject.name == "cispo":
        bounds = {}  # its bounds are absolute: a cap of 0 is one at weight 0
    if not bounds:
        return Outcome(note="it has no bound")
    batch = example(subject, on_policy=True)
    gradient = batch.gradient(subject.with_options(**bounds))
    return compared(
        gradient,
        -jnp.broadcast_to(batch.others["advantages"][:, None], gradient.shape),
        tolerance=1e-9,
        diagnosis="at delta = 0 the on-policy token loses its gradient, or half of it: a tie of "
        "min and clip",
    )


@register("at the boundary", ("loss",))
def at_the_boundary(subject: Subject) -> Outcome:
    """The last token inside has its whole gradient and the first outside none: no half ones."""
    if not alone(subject):
        return Outcome(note="a lone token of a group has no boundary")
    count = 0
    for sign in (1.0, -1.0):
        for dead, alive in edges_of_flow(subject, sign):
            count += 1
            anchor, signs = np.full(2, np.log(0.05)), np.full(2, sign)
            inside = alive + np.sign(alive - dead) * _INSIDE
            at, near = weights(subject, anchor + np.array([alive, inside]), anchor, signs)
            if abs(at - near) > 1e-6 * max(abs(near), 1e-3):
                return Outcome(
                    diagnosis=f"at the boundary, ratio {np.exp(alive):.6g}, the weight is "
                    f"{at:.4g} where it is {near:.4g} just inside: a tie of min and clip"
                )
    return Outcome(note=f"{count} ends" if count else "nothing is cut on the map")


@register("A = 0", ("loss",))
def no_advantage(subject: Subject) -> Outcome:
    """Without an advantage there is no gradient, whatever the ratio (0, inf and nan-makers)."""
    log_probs = np.array([-1.0, -0.01, -1e4, -np.inf, -0.01, -2.0])
    anchor = np.array([-1.0, -3.0, -0.01, -1.0, -1e4, -np.inf])
    batch = single_tokens(subject, log_probs, anchor, np.zeros(len(anchor)))
    if "reference_log_probs" in batch.others:
        batch = batch.replace(reference_log_probs=jnp.full(batch.live.shape, -1.0))
    value, gradient = np.asarray(batch.values(subject)), np.asarray(batch.gradient(subject))
    if gradient[0].any() and np.isfinite(gradient[0]).all():
        return Outcome(
            diagnosis=f"at A = 0 and ratio 1 the gradient is {float(gradient[0].sum()):.4g}: "
            "something is added that no advantage multiplies"
        )
    if np.isnan(value).any() or np.isnan(gradient).any():
        return Outcome(
            diagnosis="A = 0 at an overflowed ratio, or a log-prob of -inf, is nan (0 * inf): "
            "where the advantage is 0, select the input of exp, and the log-prob, away"
        )
    if gradient.any():
        return Outcome(diagnosis="a gradient flows at A = 0")
    return Outcome(error=0.0, tolerance=0.0)


@register("w = 0", LOG_PROB_FAMILIES)
def ratio_of_zero(subject: Subject) -> Outcome:
    """A live log-prob of -1e4 or -inf: nothing is nan, and no other row is touched."""
    return _extreme(subject, subject.family.live, (-1e4, -np.inf))


@register("w = inf", LOG_PROB_FAMILIES)
def ratio_of_infinity(subject: Subject) -> Outcome:
    """An anchor's log-prob of -1e4 or -inf: nothing is nan, and no other row is touched."""
    fixed = {
        "loss": "anchor_log_probs",
        "penalty": "reference_log_probs",
        "divergence": "sampler_log_probs",
        "top-divergence": "sampler_log_probs",
        "weight": "behaviour_log_probs",
    }[subject.family.name]
    return _extreme(subject, fixed, (-1e4, -np.inf))


def _extreme(subject: Subject, name: str, levels: tuple[float, ...]) -> Outcome:
    clean = example(subject)
    before = np.asarray(clean.values(subject))
    for level in levels:
        for row in (0, 1):  # a positive and a negative advantage
            batch = _at(subject, clean, name, (row, 2), level)
            value, gradient = np.asarray(batch.values(subject)), np.asarray(batch.gradient(subject))
            if np.isnan(value).any() or np.isnan(gradient).any():
                what = "the value" if np.isnan(value).any() else "the gradient"
                return Outcome(
                    diagnosis=f"{what} is nan where {name} is {level:g}: exp overflows in a branch "
                    "that is not taken, or inf - inf, or 0 * inf; mask the input of what makes it"
                )
            others = np.arange(len(before)) // 2 != row // 2
            if subject.level != "batch" and not np.array_equal(value[others], before[others]):
                return Outcome(diagnosis=f"{name} = {level:g} in one row changes other groups")
    return Outcome()


def _at(subject: Subject, batch: Example, name: str, place: tuple[int, int], x: float) -> Example:
    if name == subject.family.live:
        return batch.replace(live=batch.live.at[place].set(x))
    return batch.replace(**{name: batch.others[name].at[place].set(x)})
