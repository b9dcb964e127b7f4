"""Argument checks of the operators, raised while tracing: types, shapes, and static numbers."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


def per_token(*, where: Bool[Array, "*B T"] | None = None, **arrays: Float[Array, "*B T"]) -> None:
    """Arrays with one number a token: floating, of one dtype and one shape; `where` bool like them.

    Raises:
      TypeError: not an array, not floating, dtypes that differ, or a `where` that is not bool.
      ValueError: shapes that differ, or no token axis. There is no broadcasting.

    Example:
      >>> import jax.numpy as jnp
      >>> per_token(log_probs=jnp.zeros((2, 3)), anchor_log_probs=jnp.zeros((2, 4)))
      Traceback (most recent call last):
      ValueError: shapes must be equal, got log_probs [2, 3], anchor_log_probs [2, 4]
    """
    for name, x in arrays.items():
        floating(**{name: x})
    dtypes = {name: _dtype(x) for name, x in arrays.items()}
    if len(set(dtypes.values())) > 1:
        raise TypeError(f"dtypes must be equal, got {_listed(dtypes)}")
    if where is not None:
        boolean(where=where)
        arrays = {**arrays, "where": where}
    shapes = {name: list(x.shape) for name, x in arrays.items()}
    if len(set(map(tuple, shapes.values()))) > 1:
        raise ValueError(f"shapes must be equal, got {_listed(shapes)}")
    if any(not shape for shape in shapes.values()):
        raise ValueError(f"arrays must have a token axis, got {_listed(shapes)}")


def floating(**arrays: Float[Array, "..."]) -> None:
    """Each is a floating-point array, or a TypeError names it."""
    for name, x in arrays.items():
        _kind(name, x, jnp.floating, "a floating-point array")


def integer(**arrays: Array) -> None:
    """Each is an integer array, or a TypeError names it."""
    for name, x in arrays.items():
        _kind(name, x, jnp.integer, "an integer array")


def boolean(**arrays: Bool[Array, "..."]) -> None:
    """Each is a bool array, or a TypeError names it."""
    for name, x in arrays.items():
        _kind(name, x, np.bool_, "a bool array")


def shape(expected: tuple[int | None, ...], **arrays: Array) -> None:
    """Each has the expected shape, None standing for any size, or a ValueError names it."""
    for name, x in arrays.items():
        got = tuple(x.shape)
        fits = len(got) == len(expected) and all(
            want in (None, size) for want, size in zip(expected, got, strict=True)
        )
        if not fits:
            want = ", ".join("any" if size is None else str(size) for size in expected)
            raise ValueError(f"{name} must have shape [{want}], got {list(got)}")


def static_number(
    *,
    minimum: float = -math.inf,
    above: float = -math.inf,
    maximum: float = math.inf,
    **values: float,
) -> None:
    """Each is a Python number, not traced, not nan, and in (above, inf) and [minimum, maximum].

    Raises:
      TypeError: not a real number (bool and arrays included).
      ValueError: nan or out of range.

    Example:
      >>> static_number(minimum=0, delta=-1.0)
      Traceback (most recent call last):
      ValueError: delta must be at least 0, got -1.0
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a Python number, got {_described(value)}")
        if not value >= minimum:
            raise ValueError(f"{name} must be at least {minimum:g}, got {value}")
        if not (value > above or above == -math.inf):
            raise ValueError(f"{name} must be more than {above:g}, got {value}")
        if value > maximum:
            raise ValueError(f"{name} must be at most {maximum:g}, got {value}")


def _kind(name: str, x: Any, kind: type, wanted: str) -> None:
    if not (hasattr(x, "dtype") and hasattr(x, "shape") and jnp.issubdtype(x.dtype, kind)):
        raise TypeError(f"{name} must be {wanted}, got {_described(x)}")


def _described(x: Any) -> str:
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{x.dtype} {list(x.shape)}"
    return f"{type(x).__name__} {x!r}"


def _dtype(x: Array) -> jnp.dtype:
    """The dtype an array has inside JAX: NumPy's float64 is float32 unless 64 bits are enabled."""
    return jax.dtypes.canonicalize_dtype(x.dtype)


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
