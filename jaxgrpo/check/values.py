"""What a divergence's values mean: zero at equality, and a known divergence in expectation."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxgrpo.check.examples import Tree, example, named_arrays
from jaxgrpo.check.properties import Outcome, compared, register
from jaxgrpo.check.structure import padding_has_no_effect
from jaxgrpo.check.subject import Subject, function_subject
from jaxgrpo.check.subject import subject as another

_TREE = Tree(6, 1)
_EXACT: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "KL(sampler || other)": lambda p, q: np.sum(p * np.log(p / q)),
    "the total variation": lambda p, q: np.sum(np.abs(p - q)) / 2,
    "chi^2(other || sampler)": lambda p, q: np.sum((p - q) ** 2 / p),
    "the squared Hellinger distance": lambda p, q: np.sum((np.sqrt(p) - np.sqrt(q)) ** 2),
    "the Jensen-Shannon divergence": lambda p, q: (
        (np.sum(p * np.log(2 * p / (p + q))) + np.sum(q * np.log(2 * q / (p + q)))) / 2
    ),
}


@register("zero at equality", ("divergence", "row-divergence", "top-divergence", "row-penalty"))
def zero_at_equality(subject: Subject) -> Outcome:
    """A divergence of a policy from itself is 0."""
    values = example(subject, on_policy=True).values(subject)
    return compared(
        values,
        np.zeros(values.shape),
        tolerance=1e-12,
        diagnosis="the divergence of a policy from itself is not 0",
    )


@register("its divergence", ("loss",))
def its_divergence(subject: Subject) -> Outcome:
    """A loss that takes a divergence as an option is as good as that is."""
    given = subject.options.get("divergence")
    if given is None:
        return Outcome(note="none is an option")
    inner = (
        another(given, "divergence")
        if isinstance(given, str)
        else function_subject(given, "divergence")
    )
    for measure in (padding_has_no_effect, zero_at_equality, expected_value):
        outcome = measure(inner)
        if outcome.diagnosis:
            return Outcome(error=outcome.error, diagnosis=f"{inner.name}: {outcome.diagnosis}")
    return Outcome(note=f"{inner.name}: `jaxgrpo check` it by itself for more")


@register("expected value", ("divergence",))
def expected_value(subject: Subject) -> Outcome:
    """Its mean over the sampler's tokens is not negative, and of which divergence, if of one."""
    first, second = _TREE.parameters(3), _TREE.parameters(4)
    p, q = (np.exp(np.asarray(_TREE.log_probs(jnp.asarray(x)))[:, 0]) for x in (first, second))
    straight, swapped = _mean(subject, p, q), _mean(subject, p, q, swap=True)
    name, error = _nearest(straight, p, q)
    if error < 1e-12:
        return Outcome(error=error, tolerance=1e-12, note=f"unbiased for {name}")
    opposite, negated = _nearest(-straight, p, q)
    if negated < 1e-12:
        return Outcome(error=error, diagnosis=f"wrong sign: its mean is minus {opposite}")
    if _nearest(swapped, p, q)[1] < 1e-12:
        other = _nearest(swapped, p, q)[0]
        return Outcome(
            error=error,
            diagnosis="the ratio is inverted: with its arguments swapped its mean is "
            f"{other}; w is other / sampler",
        )
    for size, what in ((len(p), "the number of outcomes"), (0.5, "1/2")):
        if _nearest(straight * size, p, q)[1] < 1e-12:
            return Outcome(
                error=error,
                diagnosis=f"its mean times {what} is {_nearest(straight * size, p, q)[0]}: a mean "
                "for a sum, or a factor",
            )
    if straight < -1e-12:
        return Outcome(diagnosis=f"its mean over the sampler's tokens is negative: {straight:.4g}")
    return Outcome(note="the mean is that of no f-divergence known here")


def _nearest(value: float, p: np.ndarray, q: np.ndarray) -> tuple[str, float]:
    errors = {name: abs(float(exact(p, q)) - value) for name, exact in _EXACT.items()}
    name = min(errors, key=lambda key: errors[key])
    return name, errors[name]


def _mean(subject: Subject, p: np.ndarray, q: np.ndarray, *, swap: bool = False) -> float:
    """Over tokens drawn from p, exactly; swapped, the function gets its arguments in turn."""
    rows = [np.broadcast_to(np.log(x), (len(p), 1, len(p))) for x in ((q, p) if swap else (p, q))]
    none = np.zeros(len(p))
    batch = named_arrays(
        subject,
        policy=rows[1],
        anchor=rows[0],
        reference=rows[0],
        tokens=np.arange(len(p))[:, None],
        advantages=none,
        rewards=none,
        group_ids=none,
        off_policy=np.zeros((len(p), 1), bool),
        where=np.ones((len(p), 1), bool),
    )
    return float(np.sum(p * np.asarray(batch.values(subject))[:, 0]))
