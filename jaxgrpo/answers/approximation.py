"""Values of expressions to many digits, real or complex, within bounds."""

import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from jaxgrpo.answers.exact import OutOfBoundsError, UndecidedError, bits, exact, stand_in
from jaxgrpo.answers.functions import CONSTANTS, FUNCTIONS, SPECIAL
from jaxgrpo.answers.tree import Call, Measured, Node, Number, Power, Product, Sum, Symbol

_MAX_GAMMA = 1e4
_MAX_EXPONENT = 1e5
_MAX_ANGLE = 1e9
_MAX_DOUBLE_BITS = 1000
_CONTEXTS = threading.local()


def context(digits: int) -> Any:
    """An mpmath context of this thread with so many decimal digits; doubles for 15."""
    import mpmath

    if digits <= 15:
        return mpmath.fp
    kept: dict[int, Any] = _CONTEXTS.__dict__.setdefault("contexts", {})
    if digits not in kept:
        kept[digits] = mpmath.MPContext()
        kept[digits].dps = digits
    return kept[digits]


def approximate(node: Node, values: Mapping[str, Fraction], m: Any, *, real: bool = False) -> Any:
    """The value of an expression in an mpmath context, real or complex.

    Args:
      node: the expression.
      values: of its unknowns.
      m: the context.
      real: refuse roots, powers and logarithms that leave the real numbers.

    Raises:
      UndecidedError: it is not defined, or out of bounds.
    """
    try:
        return _approximate(node, values, m, real)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise UndecidedError from error


def _approximate(node: Node, values: Mapping[str, Fraction], m: Any, real: bool) -> Any:
    match node:
        case Number(value):
            return _number(value, m)
        case Symbol(name):
            if name in CONSTANTS:
                return CONSTANTS[name](m)
            if name in SPECIAL or name not in values:
                raise UndecidedError
            return _number(values[name], m)
        case Sum(terms):
            return sum((_approximate(term, values, m, real) for term in terms), m.zero)
        case Product(factors):
            result = m.one
            for factor in factors:
                result = result * _approximate(factor, values, m, real)
            return result
        case Power(base, exponent):
            below, above = (_approximate(part, values, m, real) for part in (base, exponent))
            result = _power(below, above, _odd_root(exponent), m)
            return _checked(result, [below, above], real)
        case Measured(value, "degree"):
            return _approximate(value, values, m, real) * m.pi / 180
        case Measured(value, "percent"):
            return _approximate(value, values, m, real) / 100
        case Call(name, arguments) if name in FUNCTIONS:
            numbers = [_approximate(argument, values, m, real) for argument in arguments]
            _check_bounds(name, numbers)
            return _checked(FUNCTIONS[name](m, *numbers), numbers, real)
        case Call():
            return _number(stand_in(node), m)
    raise UndecidedError


def _checked(result: Any, numbers: list[Any], real: bool) -> Any:
    """The result, where it may be complex or is not, or was so before."""
    if real and _imaginary(result) and not any(map(_imaginary, numbers)):
        raise UndecidedError
    return result


def _imaginary(number: Any) -> bool:
    return getattr(number, "imag", 0) != 0


def _odd_root(exponent: Node) -> Fraction | None:
    """An exponent such as 2/3, of which a negative number has a real power."""
    if isinstance(exponent, Symbol | Call):
        return None
    try:
        value = exact(exponent, {})
    except UndecidedError:
        return None
    return value if value.denominator > 1 and value.denominator % 2 else None


def _number(value: Fraction, m: Any) -> Any:
    if bits(value) > _MAX_DOUBLE_BITS and not hasattr(m, "dps"):
        raise UndecidedError
    return m.mpf(value.numerator) / value.denominator


def _power(base: Any, exponent: Any, odd: Fraction | None, m: Any) -> Any:
    if base == 0:
        if exponent.real <= 0:
            raise UndecidedError
        return base
    size = abs(exponent)
    if size > 1:
        magnitude = abs(base)
        if magnitude != 1 and size * abs(m.log(magnitude)) > _MAX_EXPONENT:
            raise OutOfBoundsError
    if size > _MAX_ANGLE:
        raise OutOfBoundsError
    if odd is not None and not _imaginary(base) and base.real < 0:
        size = (-base) ** exponent
        return -size if odd.numerator % 2 else size
    return base**exponent


def _check_bounds(name: str, numbers: list[Any]) -> None:
    size = max(abs(number) for number in numbers)
    if name in ("factorial", "binom"):
        if size > _MAX_GAMMA:
            raise OutOfBoundsError
    elif name in ("exp", "sinh", "cosh", "tanh", "coth"):
        if size > _MAX_EXPONENT:
            raise OutOfBoundsError
    elif size > _MAX_ANGLE and name in ("sin", "cos", "tan", "cot", "sec", "csc"):
        raise OutOfBoundsError
