"""Shapes, masks, and which inputs a value depends on."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.check.detached import HeldFixed
from jaxgrpo.check.examples import NOT_TRACEABLE, Example, example
from jaxgrpo.check.properties import EVERY, Outcome, compared, register
from jaxgrpo.check.subject import Subject

_JUNK = (np.nan, np.inf, -np.inf, 1e30)


@register("shape and dtype", EVERY)
def shape_and_dtype(subject: Subject) -> Outcome:
    """One value a token, in the dtype of the inputs, finite on an ordinary batch."""
    batch = example(subject)
    returned = subject(batch.live, batch.others, batch.where)
    if not hasattr(returned, "shape"):
        return Outcome(
            diagnosis=f"one value a token is wanted, an array; got {type(returned).__name__}"
        )
    for dtype in (jnp.float64, jnp.float32):
        values = batch.astype(jnp.dtype(dtype)).values(subject)
        shape, wanted = jnp.shape(values), batch.where.shape
        if shape != wanted:
            return Outcome(
                diagnosis=f"one value a token is wanted, {list(wanted)}, got {list(shape)}"
            )
        if values.dtype != dtype:
            return Outcome(diagnosis=f"{values.dtype} came out where {np.dtype(dtype)} went in")
        if not bool(jnp.all(jnp.isfinite(values))):
            return Outcome(diagnosis="nan or inf on an ordinary batch")
    return Outcome()


@register("same every time", EVERY)
def same_every_time(subject: Subject) -> Outcome:
    """Called again on the same arrays, other calls between, it gives the same bits."""
    batch, other = example(subject, masked=True), example(subject, seed=1)
    arguments = batch.live, batch.others, batch.where
    first = subject(*arguments)
    subject(other.live, other.others, other.where)
    if _same(subject(*arguments), first):
        return Outcome(error=0.0, tolerance=0.0)
    return Outcome(
        diagnosis="two calls on the same arrays give different numbers: it keeps something from "
        "call to call, or draws random numbers without `key`"
    )


@register("other sizes", EVERY)
def other_sizes(subject: Subject) -> Outcome:
    """One token in one row, and B > T; B == T is every other batch here."""
    for rows, tokens in ((1, 1), (6, 2)):
        batch = example(subject, rows=rows, tokens=tokens)
        try:
            values, gradient = batch.values(subject), batch.gradient(subject)
        except (TypeError, ValueError) as error:
            said = f"fails for [B, T] = [{rows}, {tokens}]: {_short(error)}"
            return Outcome(diagnosis=f"{said}; {_BROADCAST}" if _broadcasts(error) else said)
        if jnp.shape(values) != (rows, tokens):
            return Outcome(
                diagnosis=f"[B, T] = [{rows}, {tokens}] gave the shape {list(jnp.shape(values))}"
            )
        if not bool(jnp.all(jnp.isfinite(gradient))):
            return Outcome(diagnosis=f"the gradient is nan or inf for [B, T] = [{rows}, {tokens}]")
    return Outcome()


_BROADCAST = "are advantages [B] broadcast against [B, T] without a token axis?"


def _broadcasts(error: Exception) -> bool:
    text = str(error).lower()
    return "broadcast" in text or "incompatible shapes" in text or "rank" in text


@register("padding has no effect", EVERY)
def padding_has_no_effect(subject: Subject) -> Outcome:
    """nan, inf and huge numbers outside `where` change no bit of value or gradient."""
    clean = example(subject, masked=True)
    value, gradient = clean.both(subject)
    if bool(jnp.any(jnp.where(clean.where, 0, value) != 0)):
        return Outcome(diagnosis="values outside `where` are not 0: the mask is not applied last")
    for junk in _JUNK:
        spoilt = _spoilt(clean, junk)
        got, got_gradient = spoilt.both(subject)
        plain = _one_by_one(subject, spoilt)
        if bool(jnp.any(jnp.isnan(plain))) or bool(jnp.any(jnp.isnan(got))):
            return Outcome(
                diagnosis=f"{junk} under the mask reaches the value: the mask multiplies or comes "
                "too early; select with jnp.where"
            )
        if bool(jnp.any(jnp.isnan(got_gradient))):
            return Outcome(
                diagnosis=f"{junk} under the mask makes the gradient nan: the mask comes after "
                "exp, or another function whose derivative there is nan; mask its input too"
            )
        if not (_same(got, value) and _same(got_gradient, gradient)):
            return Outcome(diagnosis=f"{junk} under the mask changes values of trainable tokens")
    return Outcome(error=0.0, tolerance=0.0)


@register("wider padding", EVERY)
def wider_padding(subject: Subject) -> Outcome:
    """More padded columns and rows change no value and no gradient."""
    narrow = example(subject, masked=True)
    rows, tokens = narrow.where.shape
    wide = _padded(narrow)

    def cut(x: jax.Array) -> jax.Array:
        return x[:rows, :tokens]

    def diagnosis() -> str:
        return (
            "padded columns change the loss of real tokens: a mean over T counts masked tokens "
            "(divide by the number of trainable ones, or sum)"
        )

    value = compared(
        cut(wide.values(subject)), narrow.values(subject), tolerance=1e-12, diagnosis=diagnosis
    )
    if value.diagnosis:
        return value
    return compared(
        cut(wide.gradient(subject)), narrow.gradient(subject), tolerance=1e-12, diagnosis=diagnosis
    )


@register("empty mask", EVERY)
def empty_mask(subject: Subject) -> Outcome:
    """Without a trainable token, value and gradient are exactly 0."""
    batch = example(subject)
    batch = batch.replace(where=jnp.zeros_like(batch.where))
    value, gradient = batch.values(subject), batch.gradient(subject)
    if bool(jnp.all(value == 0)) and bool(jnp.all(gradient == 0)):
        return Outcome(error=0.0, tolerance=0.0)
    return Outcome(
        diagnosis="with nothing trainable, value or gradient is not 0: is there a division by the "
        "number of trainable tokens?"
    )


@register("what a value depends on", EVERY)
def dependence(subject: Subject) -> Outcome:
    """A token's value depends on what its level says: its own token, row or group."""
    batch = example(subject)
    found, shifted = "token", set()
    base = np.asarray(batch.values(subject))
    level = subject.level or ("group" if "group_ids" in subject.needs else "sequence")
    for name, array in {"live": batch.live, **batch.others}.items():
        if array.shape[:2] != batch.where.shape or array.dtype == bool:
            continue
        for row, token in ((0, 2), (3, 1)):
            moved = array.at[row, token].add(-0.05)
            rows, tokens = np.nonzero(
                np.asarray(batch.replace(**{name: moved}).values(subject) != base)
            )
            offsets = set(tokens[rows == row] - token)
            if len(offsets) == 1 and offsets <= {-1, 1}:
                shifted.add(subject.family.live if name == "live" else name)
            found = max(found, _level(rows, tokens, row, token), key=_ORDER.index)
    if shifted:
        return Outcome(
            diagnosis=f"a one-position shift: the value at t depends on {min(shifted)} at a "
            "neighbouring position and not at t"
        )
    wrong = _advantage_axis(subject, batch)
    if wrong:
        return Outcome(diagnosis=wrong)
    if _ORDER.index(found) > _ORDER.index(level):
        return Outcome(
            diagnosis=f"a value depends on its whole {found}, though its level is {level}: rows "
            "are mixed, and splitting a batch would change the loss"
            if found in ("group", "batch")
            else f"a value depends on its whole {found}, though its level is {level}"
        )
    return Outcome(note=f"depends on the {found}")


_ORDER = ("token", "sequence", "group", "batch")


def _level(rows: np.ndarray, tokens: np.ndarray, row: int, token: int) -> str:
    if np.all((rows == row) & (tokens == token)):
        return "token"
    if np.all(rows == row):
        return "sequence"
    return "group" if np.all(rows // 2 == row // 2) else "batch"


def _advantage_axis(subject: Subject, batch: Example) -> str:
    """What is wrong with how advantages [B] meet [B, T], where B == T hides it."""
    if "advantages" not in batch.others or subject.level in ("group", "batch"):
        return ""
    advantages = batch.others["advantages"]
    base, moved = (
        np.asarray(batch.replace(advantages=x).values(subject))
        for x in (advantages, advantages.at[1].multiply(1.5))
    )
    rows, tokens = np.nonzero(base != moved)
    if set(rows) <= {1}:
        return ""
    if set(tokens) == {1}:
        return (
            "advantages [B] are broadcast against [B, T] along the wrong axis: the advantage of "
            "row 1 acts on column 1; write advantages[:, None]"
        )
    if subject.needs and "group_ids" in subject.needs:
        return ""
    return "the advantage of one row changes the values of others"


def _one_by_one(subject: Subject, batch: Example) -> jax.Array:
    """The values with every primitive run by itself."""
    # A compiler may turn a product with a mask into a selection, even that of a single `*`; others
    # do not.

    def values(live: jax.Array) -> jax.Array:
        return subject(live, batch.others, batch.where)

    try:
        return HeldFixed(values, batch.live)(batch.live)
    except NOT_TRACEABLE:
        return values(batch.live)


def _same(a: jax.Array, b: jax.Array) -> bool:
    return bool(jnp.array_equal(a, b))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def _spoilt(batch: Example, junk: float) -> Example:
    """The batch with junk in every entry that belongs to a masked token."""

    def spoil(x: jax.Array) -> jax.Array:
        if x.shape[:2] != batch.where.shape or not jnp.issubdtype(x.dtype, jnp.floating):
            return x
        where = batch.where if x.ndim == 2 else batch.where[..., None]
        return jnp.where(where, x, junk)

    others = {name: spoil(x) for name, x in batch.others.items()}
    return Example(live=spoil(batch.live), others=others, where=batch.where)


def _padded(batch: Example) -> Example:
    """Three more columns and two more rows, all padding."""
    rows, tokens = batch.where.shape

    def pad(x: jax.Array) -> jax.Array:
        if x.ndim == 0:
            return x  # a key
        tail = [(0, 0)] * (x.ndim - 2)
        if x.shape[:2] == (rows, tokens):
            return jnp.pad(x, [(0, 2), (0, 3), *tail])
        widths = [(0, 2)] + [(0, 0)] * (x.ndim - 1)
        # New rows are groups of their own.
        return jnp.pad(x, widths, constant_values=-7 if x.dtype == jnp.int32 else 0)

    others = {name: pad(x) for name, x in batch.others.items()}
    return Example(live=pad(batch.live), others=others, where=pad(batch.where))
