"""The child's side of `jaxgrpo.answers.symbolic`: `python -m jaxgrpo.answers.solver`.

It reads trees as JSON lines and answers `equal` or `unknown`. Expressions are built from sympy's
classes one by one; no text is ever handed to sympy. An alarm of the kernel ends a question that
takes long even where the parent is gone, and memory has a limit.
"""

import contextlib
import json
import os
import resource
import signal
from typing import Any

from jaxgrpo.answers.structures import parse
from jaxgrpo.answers.symbolic import LIMIT_SECONDS, dump
from jaxgrpo.answers.tree import UnreadableError

_MEMORY_BYTES = 256 << 20
_MAX_EXPONENT = 1000
_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arsinh": "asinh",
          "arcosh": "acosh", "artanh": "atanh", "ln": "log", "abs": "Abs", "ceil": "ceiling",
          "max": "Max", "min": "Min", "binom": "binomial"}  # fmt: skip


class _UnknownError(Exception):
    """The tree holds something that is not handed to sympy."""


def main() -> None:
    """Serve until the request pipe ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    import sympy

    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_CORE):
        with contextlib.suppress(OSError, ValueError):
            limit = _MEMORY_BYTES if kind == resource.RLIMIT_DATA else 0
            resource.setrlimit(kind, (limit, limit))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    replies.write(b"ready\n")
    for line in requests:
        signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
        try:
            answer, gold = json.loads(line)
            equal = _equal(sympy, _build(sympy, answer), _build(sympy, gold))
        except Exception:
            # Sympy raises anything; whatever it was, this pair stays undecided.
            equal = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(b"equal\n" if equal else b"unknown\n")


def _equal(sympy: Any, answer: Any, gold: Any) -> bool:
    difference = (answer - gold).doit()
    if difference == 0:
        return True
    return bool(sympy.simplify(difference) == 0)


def _build(sympy: Any, node: list[Any]) -> Any:
    """A tree of `symbolic.dump` as a sympy expression."""
    kind, *fields = node
    match kind:
        case "Number":
            return sympy.Rational(int(fields[0][0]), int(fields[0][1]))
        case "Symbol":
            return _symbol(sympy, fields[0])
        case "Sum":
            return sympy.Add(*(_build(sympy, term) for term in fields[0]))
        case "Product":
            return sympy.Mul(*(_build(sympy, factor) for factor in fields[0]))
        case "Power":
            base, exponent = (_build(sympy, field) for field in fields)
            if exponent.is_number and abs(exponent) > _MAX_EXPONENT:
                raise _UnknownError
            return sympy.Pow(base, exponent)
        case "Call":
            return _call(sympy, fields[0], fields[1])
    raise _UnknownError


def _symbol(sympy: Any, name: str) -> Any:
    constants = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infty": sympy.oo}
    if name in constants:
        return constants[name]
    # Summation indices have to be the same object as in the body.
    return sympy.Symbol(name, real=True)


def _call(sympy: Any, name: str, arguments: list[Any]) -> Any:
    if name in (r"\sum", r"\prod", r"\int", r"\lim"):
        return _operator(sympy, name, arguments)
    values = [_build(sympy, argument) for argument in arguments]
    if name == "root":
        return sympy.real_root(*values)
    if name == "log":
        return sympy.log(values[0]) / sympy.log(values[1])
    if name == "factorial" and values[0].is_number and values[0] > _MAX_EXPONENT:
        raise _UnknownError
    function = getattr(sympy, _NAMES.get(name, name), None)
    if function is None or name == "apply":
        raise _UnknownError
    return function(*values)


def _operator(sympy: Any, name: str, arguments: list[Any]) -> Any:
    """A sum, product, integral or limit; its bounds are the raw text between TeX's braces."""
    *bounds, body = arguments
    marks = {bound[1][0]: bound[1][1:] for bound in bounds}
    if name == r"\int":
        factors = _flat(body)
        if len(factors) < 2 or factors[-2] != ["Symbol", "d"]:
            raise _UnknownError
        integrand = sympy.Mul(*(_build(sympy, factor) for factor in factors[:-2]))
        bounds = (_bound(sympy, marks["_"]), _bound(sympy, marks["^"]))
        return sympy.Integral(integrand, (_build(sympy, factors[-1]), *bounds))
    expression = _build(sympy, body)
    if name == r"\lim":
        variable, _, target = marks["_"].partition(r"\to")
        return sympy.Limit(expression, _bound(sympy, variable), _bound(sympy, target))
    variable, _, start = marks["_"].partition("=")
    return (sympy.Sum if name == r"\sum" else sympy.Product)(
        expression, (_bound(sympy, variable), _bound(sympy, start), _bound(sympy, marks["^"]))
    )


def _flat(node: list[Any]) -> list[list[Any]]:
    if node[0] != "Product":
        return [node]
    return [factor for each in node[1] for factor in _flat(each)]


def _bound(sympy: Any, text: str) -> Any:
    try:
        return _build(sympy, dump(parse(text)))
    except (UnreadableError, RecursionError):
        raise _UnknownError from None


if __name__ == "__main__":
    main()
