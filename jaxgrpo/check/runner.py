"""All properties of one operator, one after the other."""

import dataclasses
import time
from collections.abc import Callable

import jax

from jaxgrpo.check import claims, derivatives, edges, programs, signs, structure, values
from jaxgrpo.check.examples import NOT_TRACEABLE, example
from jaxgrpo.check.findings import Finding, Report
from jaxgrpo.check.properties import PROPERTIES, Outcome, Property
from jaxgrpo.check.subject import Subject
from jaxgrpo.core.errors import UserError

# A check goes through the properties in this order, whichever file was imported first.
_ROOMS = [
    room.__name__ for room in (structure, derivatives, claims, values, signs, edges, programs)
]
# Without these nothing else says anything.
_FIRST = ("shape and dtype", "same every time")


def check(subject: Subject, on_property: Callable[[str], None] | None = None) -> Report:
    """Measure every property that an operator of its family should have.

    Runs in float64, whatever `jax_enable_x64` says.

    Args:
      subject: from `subject`, or `function_subject`.
      on_property: called with the name of each property before it is measured.
    """
    began = time.perf_counter()
    findings, regions = [], []
    with jax.enable_x64(True):
        for each in in_order():
            if subject.family.name not in each.families:
                continue
            if on_property is not None:
                on_property(each.name)
            outcome = _measured(each, subject)
            finding = _judged(each.name, outcome, subject)
            findings.append(finding)
            regions.extend(outcome.regions)
            if not finding.passed and each.name in _FIRST:
                break
    return Report(
        name=subject.name,
        family=subject.family.name,
        claims=subject.claims,
        findings=findings,
        regions=regions,
        card=dataclasses.asdict(subject.card) if subject.card else None,
        seconds=time.perf_counter() - began,
    )


def rehearse(subject: Subject) -> None:
    """Call the operator on shapes alone, to learn what it makes of its options.

    Raises:
      UserError: it refuses them.
    """
    with jax.enable_x64(True):
        batch = example(subject)
        try:
            jax.eval_shape(subject.value_and_gradient, batch.live, dict(batch.others), batch.where)
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(f"{subject.name}: {error.args[0] if error.args else error}") from error


def measure(subject: Subject, name: str) -> Finding:
    """One property alone."""
    with jax.enable_x64(True):
        return _judged(name, _measured(PROPERTIES[name], subject), subject)


def in_order() -> list[Property]:
    """All properties, as a report lists them."""
    return sorted(PROPERTIES.values(), key=lambda each: _ROOMS.index(each.measure.__module__))


def _measured(each: Property, subject: Subject) -> Outcome:
    try:
        return each.measure(subject)
    except NOT_TRACEABLE as error:
        return Outcome(
            diagnosis=f"cannot be traced ({type(error).__name__}): a Python branch or conversion "
            "on an array; use jnp.where"
        )
    except Exception as error:  # a user's function may fail in any way
        text = " ".join(str(error).split())[:200]
        return Outcome(diagnosis=f"raises {type(error).__name__}: {text}")


def _judged(name: str, outcome: Outcome, subject: Subject) -> Finding:
    declared = subject.exceptions.get(name)
    passed = not outcome.diagnosis
    diagnosis, note = outcome.diagnosis, outcome.note
    if declared is not None:
        diagnosis = "" if not passed else "declared as an exception, and yet it holds"
        passed, note = not passed, f"declared: {declared}"
    return Finding(
        name=name,
        passed=passed,
        error=outcome.error,
        tolerance=outcome.tolerance,
        diagnosis=diagnosis,
        note=note,
    )
