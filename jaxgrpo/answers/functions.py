"""The functions and constants that an answer may name, and how each is evaluated.

A function takes an mpmath context (`mpmath.fp` for doubles, an `MPContext` for more digits), so
that one table serves both the quick and the exact look at an expression.
"""

from collections.abc import Callable
from typing import Any

# name -> f(context, *arguments); the argument count is fixed by the parser.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": lambda m, x: m.sin(x),
    "cos": lambda m, x: m.cos(x),
    "tan": lambda m, x: m.tan(x),
    "cot": lambda m, x: m.cos(x) / m.sin(x),
    "sec": lambda m, x: 1 / m.cos(x),
    "csc": lambda m, x: 1 / m.sin(x),
    "arcsin": lambda m, x: m.asin(x),
    "arccos": lambda m, x: m.acos(x),
    "arctan": lambda m, x: m.atan(x),
    "arccot": lambda m, x: m.pi / 2 - m.atan(x),
    "arcsec": lambda m, x: m.acos(1 / x),
    "arccsc": lambda m, x: m.asin(1 / x),
    "sinh": lambda m, x: m.sinh(x),
    "cosh": lambda m, x: m.cosh(x),
    "tanh": lambda m, x: m.tanh(x),
    "coth": lambda m, x: m.cosh(x) / m.sinh(x),
    "arsinh": lambda m, x: m.asinh(x),
    "arcosh": lambda m, x: m.acosh(x),
    "artanh": lambda m, x: m.atanh(x),
    "exp": lambda m, x: m.exp(x),
    "ln": lambda m, x: m.log(x),
    "log": lambda m, x, base: m.log(x) / m.log(base),
    "abs": lambda m, x: abs(x),
    "floor": lambda m, x: m.floor(x),
    "ceil": lambda m, x: m.ceil(x),
    "max": lambda m, *xs: max(xs),
    "min": lambda m, *xs: min(xs),
    "root": lambda m, x, n: _root(m, x, n),
    "factorial": lambda m, x: m.gamma(x + 1),
    "binom": lambda m, n, k: m.gamma(n + 1) / (m.gamma(k + 1) * m.gamma(n - k + 1)),
}

SPELLINGS = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "acot": "arccot", "arcsinh": "arsinh",
    "arccosh": "arcosh", "arctanh": "artanh", "asinh": "arsinh", "acosh": "arcosh",
    "atanh": "artanh", "cosec": "csc", "Abs": "abs", "binomial": "binom", "cbrt": "cbrt",
}  # fmt: skip
INVERSES = {
    "sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec",
    "csc": "arccsc", "sinh": "arsinh", "cosh": "arcosh", "tanh": "artanh",
}  # fmt: skip
# Applied to what follows even without brackets: \sin 2x.
PREFIX = frozenset(FUNCTIONS) - {"abs", "floor", "ceil", "max", "min", "root", "factorial", "binom"}

GREEK = frozenset(
    (
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
        "lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi",
        "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi",
        "Omega",
    )
)  # fmt: skip
# Values that no unknown may take.
SPECIAL = frozenset(
    ("infty", "emptyset", "reals", "integers", "naturals", "rationals", "complexes")
)

CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "pi": lambda m: +m.pi,
    "e": lambda m: +m.e,
    "i": lambda m: m.mpc(0, 1),
}


def _root(m: Any, x: Any, n: Any) -> Any:
    """The real root where there is one, of odd order of a negative number too."""
    order = n.real if hasattr(n, "real") else n
    if order == int(order) and int(order) % 2 == 1 and getattr(x, "imag", 0) == 0 and x.real < 0:
        return -((-x) ** (m.mpf(1) / n))
    return x ** (m.mpf(1) / n)
