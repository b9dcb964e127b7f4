"""A function with everything behind a stop-gradient held fixed, so that differences see autodiff's.

Central differences move what autodiff holds still: of sg(w) log p they see the product rule. So the
function's own program is run once to note what each stop-gradient held, and again at shifted
inputs with those values put back.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core
from jaxtyping import Array

_Detach = Callable[[Any], Any]


class HeldFixed:
    """`function` as autodiff sees it around one point.

    Args:
      function: of arrays, to one array.
      point: the arguments around which it is looked at.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> held = HeldFixed(lambda x: jax.lax.stop_gradient(x) * x, jnp.float32(3.0))
      >>> float(held(jnp.float32(4.0)))
      12.0
    """

    def __init__(self, function: Callable[..., Array], *point: Array) -> None:
        self._program = jax.make_jaxpr(function)(*point)
        self._held: list[Any] = []

        def note(value: Any) -> Any:
            self._held.append(value)
            return value

        _run(self._program.jaxpr, self._program.consts, point, note)

    def __call__(self, *arguments: Array) -> Array:
        """The function at other arguments."""
        held = iter(self._held)
        return _run(self._program.jaxpr, self._program.consts, arguments, lambda _: next(held))[0]


def _run(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], detach: _Detach) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    for equation in jaxpr.eqns:
        outputs = _apply(equation, [read(atom) for atom in equation.invars], detach)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: Any, inputs: list[Any], detach: _Detach) -> Sequence[Any]:
    name, params = equation.primitive.name, equation.params
    if name == "stop_gradient":
        return [detach(inputs[0])]
    if _holds_a_stop(equation):
        if name == "cond":
            branch = params["branches"][int(inputs[0])]
            return _run(branch.jaxpr, branch.consts, inputs[1:], detach)
        if name == "scan":
            return _scan(equation, inputs, detach)
        if name == "while":
            return _while(params, inputs, detach)
        body = next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
        if hasattr(body, "consts"):  # closed over its constants
            return _run(body.jaxpr, body.consts, inputs, detach)
        return _run(body, (), inputs, detach)
    outputs = equation.primitive.bind(*inputs, **equation.primitive.get_bind_params(params))
    return outputs if equation.primitive.multiple_results else [outputs]


def _scan(equation: Any, inputs: list[Any], detach: _Detach) -> list[Any]:
    params, body = equation.params, equation.params["jaxpr"]
    # What is scanned over has one axis more outside than inside; versions of JAX differ in the
    # names under which the counts are kept.
    carried = _same_shapes(equation.outvars, body.jaxpr.outvars)
    first = _same_shapes(equation.invars, body.jaxpr.invars) - carried
    fixed, carry, rows = inputs[:first], inputs[first : first + carried], inputs[first + carried :]
    steps = range(params["length"])
    collected = []
    for step in reversed(steps) if params["reverse"] else steps:
        outputs = _run(
            body.jaxpr, body.consts, [*fixed, *carry, *(row[step] for row in rows)], detach
        )
        carry = outputs[:carried]
        collected.append(outputs[carried:])
    if params["reverse"]:
        collected.reverse()
    stacked = [jax.numpy.stack(column) for column in zip(*collected, strict=True)]
    return [*carry, *stacked]


def _while(params: dict[str, Any], inputs: list[Any], detach: _Detach) -> list[Any]:
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    first, second = params["cond_nconsts"], params["body_nconsts"]
    tested, fixed, state = inputs[:first], inputs[first : first + second], inputs[first + second :]
    while bool(_run(test.jaxpr, test.consts, [*tested, *state], detach)[0]):
        state = _run(body.jaxpr, body.consts, [*fixed, *state], detach)
    return list(state)


def _same_shapes(outer: Sequence[Any], inner: Sequence[Any]) -> int:
    return sum(a.aval.shape == b.aval.shape for a, b in zip(outer, inner, strict=True))


def _holds_a_stop(equation: Any) -> bool:
    return any(
        inner.primitive.name == "stop_gradient" or _holds_a_stop(inner)
        for body in core.jaxprs_in_params(equation.params)
        for inner in body.eqns
    )
