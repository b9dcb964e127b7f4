"""Metrics as sums and counts, so that the parts of a batch merge into what the whole would give.

A mean of means is wrong as soon as the parts hold different numbers of tokens. These leave jit as
pytrees, merge with `+` on any host or micro-batch, and become a number once, at the end.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mean:
    """A sum and the number of values in it.

    Example:
      >>> import jax.numpy as jnp
      >>> first = Mean.of(jnp.array([1.0, 2.0, jnp.nan]), where=jnp.array([True, True, False]))
      >>> second = Mean.of(jnp.array([6.0]))
      >>> float((first + second).value())
      3.0
    """

    total: Float[Array, ""]
    """Sum of the values, float32 at least."""
    count: Int[Array, ""] | Float[Array, ""]
    """How many values, or the sum of their weights."""

    @classmethod
    def of(cls, values: Num[Array, "..."], where: Bool[Array, "..."] | None = None) -> Self:
        """The mean of the values that `where` selects; what lies outside may be nan or inf.

        Args:
          values: any shape and numeric or bool dtype; summed in float32 at least.
          where: bool, the shape of `values`. None selects all.

        Raises:
          TypeError: `where` is not bool.
          ValueError: the shapes differ. There is no broadcasting.
        """
        values, where = _checked(values, where)
        return cls(
            total=jnp.sum(values, where=where),
            count=jnp.sum(where, dtype=jnp.int32),
        )

    def __add__(self, other: "Mean") -> "Mean":
        return Mean(total=self.total + other.total, count=self.count + other.count)

    def value(self) -> Float[Array, ""]:
        """The mean, or nan where nothing was counted."""
        counted = jnp.asarray(self.count > 0)
        count = jnp.where(counted, self.count, 1).astype(self.total.dtype)
        return jnp.where(counted, self.total / count, jnp.nan)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Max:
    """The largest value seen; merges like `Mean`.

    Example:
      >>> import jax.numpy as jnp
      >>> float((Max.of(jnp.array([1.0, 5.0])) + Max.of(jnp.array([2.0]))).value())
      5.0
    """

    largest: Float[Array, ""]
    """-inf where nothing was seen."""

    @classmethod
    def of(cls, values: Num[Array, "..."], where: Bool[Array, "..."] | None = None) -> Self:
        """The largest of the values that `where` selects; arguments and errors as in `Mean.of`."""
        values, where = _checked(values, where)
        return cls(largest=jnp.max(values, where=where, initial=-jnp.inf))

    def __add__(self, other: "Max") -> "Max":
        return Max(largest=jnp.maximum(self.largest, other.largest))

    def value(self) -> Float[Array, ""]:
        """The largest value, or nan where nothing was seen."""
        return jnp.where(self.largest == -jnp.inf, jnp.nan, self.largest)


Metric = Mean | Max


def merge(parts: Iterable[Mapping[str, Metric]]) -> dict[str, Metric]:
    """Metrics of several parts, name by name; a name may be missing from some of them.

    Raises:
      TypeError: a name is a mean in one part and a maximum in another.

    Example:
      >>> import jax.numpy as jnp
      >>> parts = [{"loss/policy": Mean.of(jnp.array([1.0, 2.0, 3.0]))},
      ...          {"loss/policy": Mean.of(jnp.array([6.0]))}]
      >>> as_floats(merge(parts))
      {'loss/policy': 3.0}
    """
    merged: dict[str, Any] = {}
    for part in parts:
        for name, metric in part.items():
            if name in merged and type(merged[name]) is not type(metric):
                raise TypeError(
                    f"metric {name!r} is a {type(merged[name]).__name__} in one part and a "
                    f"{type(metric).__name__} in another"
                )
            merged[name] = merged[name] + metric if name in merged else metric
    return merged


def as_floats(metrics: Mapping[str, Metric | Array | float]) -> dict[str, float]:
    """Metrics and scalars as Python floats, fetched from the device in one transfer."""
    values = {n: m.value() if isinstance(m, Metric) else m for n, m in metrics.items()}
    return {name: float(value) for name, value in jax.device_get(values).items()}


def _checked(
    values: Num[Array, "..."], where: Bool[Array, "..."] | None
) -> tuple[Float[Array, "..."], Bool[Array, "..."]]:
    """The values in float32 or wider, and a mask of their shape."""
    values = jnp.asarray(values)
    values = values.astype(
        jnp.promote_types(values.dtype, jnp.float32)
        if jnp.issubdtype(values.dtype, jnp.floating)
        else jnp.float32
    )
    if where is None:
        return values, jnp.ones(values.shape, bool)
    if where.dtype != np.bool_:
        raise TypeError(f"where must be bool, got {where.dtype}")
    if where.shape != values.shape:
        raise ValueError(
            f"shapes must be equal, got values {list(values.shape)}, where {list(where.shape)}"
        )
    return values, where
