"""Autodiff against differences, and autodiff against itself."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.check.closed_forms import closed_form
from jaxgrpo.check.detached import HeldFixed
from jaxgrpo.check.examples import NOT_TRACEABLE, Example, example
from jaxgrpo.check.properties import DIFFERENTIABLE, Outcome, compared, register
from jaxgrpo.check.subject import Subject

_STEP = 1e-5
_MOST = 24  # coordinates that are moved; of more, an even choice


@register("gradient against differences", DIFFERENTIABLE)
def gradient_against_differences(subject: Subject) -> Outcome:
    """Per token, in float64, with what is detached held fixed; kinks are left out."""
    batch = example(subject, masked=True)
    gradient = np.asarray(batch.gradient(subject))

    def total(live: jax.Array) -> jax.Array:
        return jnp.sum(subject(live, batch.others, batch.where))

    held = HeldFixed(total, batch.live)
    middle = float(held(batch.live))
    places = list(np.ndindex(*batch.live.shape))
    places = places[:: -(-len(places) // _MOST)]
    got, expected, kinks = [], [], 0
    for place in places:
        up, down = (float(held(batch.live.at[place].add(step))) for step in (_STEP, -_STEP))
        left, right = (middle - down) / _STEP, (up - middle) / _STEP
        if abs(left - right) > 1e-3 * max(1.0, abs(left), abs(right)):
            kinks += 1
            continue
        got.append(gradient[place])
        expected.append((up - down) / (2 * _STEP))
    return compared(
        got,
        expected,
        tolerance=1e-7,
        diagnosis="autodiff and central differences of the values disagree: a custom derivative, "
        "or a value that isn't what is differentiated",
        note=f"{len(got)} tokens" + (f", {kinks} at a kink left out" if kinks else ""),
    )


@register("closed form", DIFFERENTIABLE)
def against_closed_form(subject: Subject) -> Outcome:
    """Gradient per token against the declared formula, evaluated in NumPy."""
    formula = closed_form(subject)
    if formula is None:
        return Outcome(note="none is declared")
    batch = example(subject, seed=1)
    arrays = {name: np.asarray(x) for name, x in batch.others.items() if name != "key"}
    return compared(
        batch.gradient(subject),
        formula(np.asarray(batch.live), arrays),
        tolerance=1e-9,
        diagnosis="the gradient is not that of the declared formula",
    )


@register("forward and reverse mode", DIFFERENTIABLE)
def forward_and_reverse(subject: Subject) -> Outcome:
    """The directional derivative of forward mode is that of the gradient."""
    batch = example(subject, masked=True)
    direction = _direction(batch)

    def total(live: jax.Array) -> jax.Array:
        return jnp.sum(subject(live, batch.others, batch.where))

    try:
        _, forward = jax.jvp(total, (batch.live,), (direction,))
    except TypeError:
        return Outcome(note="a custom_vjp has no forward mode")
    return compared(
        forward,
        jnp.sum(batch.gradient(subject) * direction),
        tolerance=1e-10,
        diagnosis="forward and reverse mode give different derivatives",
    )


@register("second derivative", DIFFERENTIABLE)
def second_derivative(subject: Subject) -> Outcome:
    """Finite, and that of the gradient by differences, what is detached held fixed."""
    batch = example(subject, masked=True)
    direction = _direction(batch)

    def gradient(live: jax.Array) -> jax.Array:
        return subject.value_and_gradient(live, batch.others, batch.where)[1]

    try:
        _, curvature = jax.jit(lambda x, v: jax.jvp(gradient, (x,), (v,)))(batch.live, direction)
    except NOT_TRACEABLE:
        return Outcome(note="not defined for what cannot be traced")
    except TypeError:
        return Outcome(note="not defined through a custom_vjp")
    held = HeldFixed(gradient, batch.live)
    steps = [held(batch.live + sign * _STEP * direction) for sign in (1, -1)]
    return compared(
        curvature,
        (steps[0] - steps[1]) / (2 * _STEP),
        tolerance=1e-6,
        diagnosis="the second derivative is not that of the gradient",
    )


@register("carries no gradient", ("weight",))
def carries_no_gradient(subject: Subject) -> Outcome:
    """A weight is detached: nothing flows into the log-probs it is made from."""
    gradient = example(subject, masked=True).gradient(subject)
    if bool(jnp.all(gradient == 0)):
        return Outcome(error=0.0, tolerance=0.0)
    return Outcome(diagnosis="the weight is not detached: a gradient flows through it")


def _direction(batch: Example) -> jax.Array:
    random = np.random.default_rng(11).normal(size=batch.live.shape)
    where = batch.where.reshape(batch.where.shape + (1,) * (batch.live.ndim - 2))
    return jnp.where(where, jnp.asarray(random), 0)
