"""The same numbers under every transformation and dtype: jit, vmap, remat, shard_map, bfloat16."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.sharding import PartitionSpec
from jax.typing import DTypeLike

from jaxgrpo.check.examples import NOT_TRACEABLE, Example, example
from jaxgrpo.check.properties import DIFFERENTIABLE, EVERY, Outcome, compared, register
from jaxgrpo.check.subject import Subject

_DEVICES = 8


def _arguments(batch: Example) -> tuple:
    return batch.live, dict(batch.others), batch.where


def _agree(got: tuple, expected: tuple, tolerance: float, diagnosis: str) -> Outcome:
    outcomes = [
        compared(mine, other, tolerance=tolerance, diagnosis=diagnosis)
        for mine, other in zip(got, expected, strict=True)
    ]
    return max(outcomes, key=lambda outcome: (bool(outcome.diagnosis), outcome.error or 0.0))


@register("jit", EVERY)
def under_jit(subject: Subject) -> Outcome:
    """Compiled, it gives what it gives without."""
    batch = example(subject, masked=True)
    try:
        got = subject.compiled(*_arguments(batch))
    except NOT_TRACEABLE as error:
        return Outcome(
            diagnosis="fails under jit: a Python branch or conversion on an array "
            f"({type(error).__name__}); use jnp.where"
        )
    return _agree(
        got, subject.value_and_gradient(*_arguments(batch)), 1e-12, "jit changes the numbers"
    )


@register("vmap", EVERY)
def under_vmap(subject: Subject) -> Outcome:
    """Mapped over a new leading axis, it gives what each batch gives by itself."""
    batches = [example(subject, seed=seed, masked=True) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *map(_arguments, batches))
    got = jax.jit(jax.vmap(subject.value_and_gradient))(*stacked)
    expected = jax.tree.map(lambda *x: jnp.stack(x), *[x.both(subject) for x in batches])
    return _agree(
        got, expected, 1e-12, "vmap changes the numbers: an axis is counted from the front"
    )


@register("remat", DIFFERENTIABLE)
def under_remat(subject: Subject) -> Outcome:
    """Recomputed in the backward pass, the gradient is the same."""
    batch = example(subject, masked=True)

    def total(live: jax.Array) -> jax.Array:
        return jnp.sum(subject(live, batch.others, batch.where))

    return compared(
        jax.jit(jax.grad(jax.checkpoint(total)))(batch.live),
        batch.gradient(subject),
        tolerance=1e-12,
        diagnosis="recomputing the forward pass changes the gradient",
    )


@register("shard_map", EVERY)
def under_shard_map(subject: Subject) -> Outcome:
    """Rows split over 8 devices give what one device gives."""
    # What looks across rows has no meaning a shard at a time: the compiler lays it out instead.
    devices = jax.devices()[:_DEVICES]
    batch = example(subject, rows=2 * _DEVICES, tokens=4)
    expected = batch.both(subject)
    mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
    across = subject.level in ("group", "batch") or "group_ids" in subject.needs
    rows, whole = PartitionSpec("rows"), PartitionSpec()

    def spec(x: jax.Array) -> PartitionSpec:
        return rows if x.ndim else whole

    arguments = _arguments(batch)
    specs = jax.tree.map(spec, arguments)
    if across:
        placed = jax.tree.map(
            lambda x, s: jax.device_put(x, jax.sharding.NamedSharding(mesh, s)), arguments, specs
        )
        got = jax.jit(subject.value_and_gradient)(*placed)
    else:
        mapped = jax.shard_map(
            subject.value_and_gradient, mesh=mesh, in_specs=specs, out_specs=rows
        )
        got = jax.jit(mapped)(*arguments)
    note = f"{len(devices)} devices" + (", by the compiler" if across else "")
    outcome = _agree(got, expected, 1e-12, "rows split over devices give other numbers")
    return Outcome(error=outcome.error, tolerance=1e-12, diagnosis=outcome.diagnosis, note=note)


@register("float32", EVERY)
def in_float32(subject: Subject) -> Outcome:
    """Rounding of float32, against float64 on the same inputs."""
    return _in_dtype(subject, jnp.float32, 64)


@register("bfloat16", EVERY)
def in_bfloat16(subject: Subject) -> Outcome:
    """Rounding of bfloat16, against float64 on the same inputs; tokens at a bound are left out."""
    return _in_dtype(subject, jnp.bfloat16, 16)


@register("precision kept", EVERY)
def keeps_precision(subject: Subject) -> Outcome:
    """Nothing inside is rounded to fewer bits than what went in has."""
    batch = example(subject, masked=True)
    try:
        program = jax.make_jaxpr(subject)(batch.live, dict(batch.others), batch.where)
    except NOT_TRACEABLE:
        return Outcome(note="not known of what cannot be traced")
    narrow = sorted(set(_narrowed(program.jaxpr)))
    if not narrow:
        return Outcome()
    return Outcome(
        diagnosis=f"float64 went in and is rounded to {', '.join(narrow)} inside: keep the dtype "
        "of the inputs, or go up from it"
    )


def _narrowed(jaxpr: core.Jaxpr) -> Iterator[str]:
    """The float dtypes that a program rounds float64 to, those of programs inside it too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "convert_element_type":
            atoms: Any = (*equation.invars, *equation.outvars)
            before, after = (jnp.dtype(atom.aval.dtype) for atom in atoms)
            floats = all(jnp.issubdtype(dtype, jnp.floating) for dtype in (before, after))
            if floats and after.itemsize < before.itemsize:
                yield str(after)
        for inner in core.jaxprs_in_params(equation.params):
            yield from _narrowed(inner)


def _in_dtype(subject: Subject, dtype: DTypeLike, ulps: int) -> Outcome:
    rounded = example(subject, seed=2, masked=True).astype(jnp.dtype(dtype))
    exact = rounded.astype(jnp.dtype(jnp.float64))
    epsilon = float(jnp.finfo(dtype).eps)
    # A token that a rounding error carries over a bound is no error of the arithmetic.
    settled = _settled(subject, exact, 4 * epsilon)
    errors = []
    for mine, other in zip(rounded.both(subject), exact.both(subject), strict=True):
        if mine.dtype != dtype:
            return Outcome(diagnosis=f"{mine.dtype} came out where {np.dtype(dtype)} went in")
        keep = settled.reshape(settled.shape + (1,) * (other.ndim - 2))
        mine, other = (jnp.where(keep, x.astype(jnp.float64), 0) for x in (mine, other))
        scale = max(1.0, float(jnp.max(jnp.abs(other))))
        errors.append(float(jnp.max(jnp.abs(mine - other))) / scale)
    error = max(errors)
    if error <= ulps * epsilon:
        return Outcome(error=error, tolerance=ulps * epsilon)
    return Outcome(
        error=error,
        tolerance=ulps * epsilon,
        diagnosis=f"loses {np.log2(error / epsilon):.1f} bits in {np.dtype(dtype)}: a difference "
        "of large numbers, or a sum in too narrow a dtype",
    )


def _settled(subject: Subject, batch: Example, step: float) -> jax.Array:
    """Tokens whose weight does not jump when the policy moves by a rounding error."""
    middle = batch.gradient(subject)
    jumps = jnp.zeros(batch.where.shape, bool)
    for factor in (1 + step, 1 - step):
        other = batch.gradient(subject, batch.live * factor)
        jump = jnp.abs(other - middle) > 0.05 * jnp.maximum(1, jnp.abs(middle))
        jumps |= jump if jump.ndim == 2 else jnp.any(jump, axis=-1)
    return ~jumps
