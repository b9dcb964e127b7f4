"""Batches to examine operators on: everything in one comes from the same small softmax policies."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.check.subject import Subject

VOCABULARY = 6
_TOP = 3
NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One batch, split into the argument that carries gradient and everything else."""

    live: Float[Array, "..."]
    others: Mapping[str, Array]
    where: Bool[Array, "B T"]

    def values(self, subject: Subject, live: Array | None = None) -> Float[Array, "B T"]:
        """The operator's values, at other live log-probs if given."""
        return self.both(subject, live)[0]

    def gradient(self, subject: Subject, live: Array | None = None) -> Float[Array, "..."]:
        """The gradient of the sum of the values for the live argument."""
        return self.both(subject, live)[1]

    def both(self, subject: Subject, live: Array | None = None) -> tuple[Array, Array]:
        """Values and gradient, compiled where the operator can be."""
        arguments = (self.live if live is None else live, dict(self.others), self.where)
        try:
            return subject.compiled(*arguments)
        except NOT_TRACEABLE:  # the property "jit" says so
            return subject.value_and_gradient(*arguments)

    def replace(self, **arrays: Array) -> "Example":
        """The batch with some arrays exchanged, by the names of the operator's arguments."""
        named = dict(self.others)
        live, where = arrays.pop("live", self.live), arrays.pop("where", self.where)
        named.update(arrays)
        return Example(live=live, others=named, where=where)

    def astype(self, dtype: jnp.dtype) -> "Example":
        """The batch with its floating arrays in another dtype."""

        def cast(x: Array) -> Array:
            return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

        others = {name: cast(x) for name, x in self.others.items()}
        return Example(live=cast(self.live), others=others, where=self.where)


def example(
    subject: Subject,
    *,
    rows: int = 5,
    tokens: int = 5,
    seed: int = 0,
    on_policy: bool = False,
    masked: bool = False,
) -> Example:
    """A random batch of [rows, tokens] for an operator, float64.

    Args:
      subject: decides which argument is live.
      rows: B; two rows make a group.
      tokens: T.
      seed: of everything.
      on_policy: anchor, behaviour and reference are the policy itself.
      masked: rows are of different lengths, the last one empty if there are three or more.
    """
    random = np.random.default_rng((seed, rows, tokens))
    logits = random.normal(size=(rows, tokens, VOCABULARY))
    shape = logits.shape
    policy = _log_softmax(logits)
    anchor = policy if on_policy else _log_softmax(logits + 0.35 * random.normal(size=shape))
    reference = policy if on_policy else _log_softmax(logits + 0.5 * random.normal(size=shape))
    # Outside the sampler's top tokens, whose rows would have to move with the sampled token's.
    likeliest = np.argsort(-anchor, axis=-1)
    drawn = likeliest[..., _TOP:][
        (*np.indices((rows, tokens)), random.integers(0, 3, (rows, tokens)))
    ]
    signs = np.where(np.arange(rows) % 2 == 0, 1.0, -1.0)
    return named_arrays(
        subject,
        policy=policy,
        anchor=anchor,
        reference=reference,
        tokens=drawn,
        advantages=signs * random.uniform(0.5, 2.0, size=rows),
        rewards=(signs > 0) * 1.0,
        group_ids=np.arange(rows) // 2,
        off_policy=np.broadcast_to(
            (np.arange(rows) % 4 == 1)[:, None] & (not on_policy), (rows, tokens)
        ),
        where=_lengths(rows, tokens) if masked else np.ones((rows, tokens), bool),
    )


def named_arrays(
    subject: Subject,
    *,
    policy: Array | np.ndarray,
    anchor: Array | np.ndarray,
    reference: Array | np.ndarray,
    tokens: np.ndarray,
    advantages: np.ndarray,
    rewards: np.ndarray,
    group_ids: np.ndarray,
    off_policy: np.ndarray,
    where: np.ndarray,
) -> Example:
    """The arrays that operators take, by name, from log-prob rows [B, T, V] and drawn tokens."""
    ids = jnp.argsort(-jnp.asarray(anchor), axis=-1)[..., :_TOP]

    def drawn(rows: Array | np.ndarray) -> Array:
        return jnp.take_along_axis(jnp.asarray(rows), jnp.asarray(tokens)[..., None], -1)[..., 0]

    def top(rows: Array | np.ndarray) -> Array:
        return jnp.take_along_axis(jnp.asarray(rows), ids, -1)

    named: dict[str, Array] = {
        "log_probs": drawn(policy),
        "other_log_probs": drawn(policy),
        "other_rows": jnp.asarray(policy),
        "other_top_log_probs": top(policy),
        "top_log_probs": top(policy),
        "entropies": entropy(policy),
        "anchor_log_probs": drawn(anchor),
        "behaviour_log_probs": drawn(anchor),
        "sampler_log_probs": drawn(anchor),
        "sampler_rows": jnp.asarray(anchor),
        "sampler_top_log_probs": top(anchor),
        "behaviour_top_log_probs": top(anchor),
        "anchor_entropies": entropy(anchor),
        "reference_log_probs": drawn(reference),
        "rows": jnp.asarray(policy),
        "reference_rows": jnp.asarray(reference),
        "advantages": jnp.asarray(advantages),
        "rewards": jnp.asarray(rewards),
        "group_ids": jnp.asarray(group_ids, jnp.int32),
        "off_policy": jnp.asarray(off_policy),
        "key": jax.random.key(0),
    }
    wanted = {*subject.family.arguments, *subject.needs}
    live = named[subject.family.live]
    others = {
        name: x for name, x in named.items() if name in wanted and name != subject.family.live
    }
    return Example(live=live, others=others, where=jnp.asarray(where))


def entropy(rows: Array | np.ndarray) -> Float[Array, "B T"]:
    """Of each row of log-probs, nats."""
    return -jnp.sum(jnp.exp(jnp.asarray(rows)) * jnp.asarray(rows), axis=-1)


@dataclasses.dataclass(frozen=True)
class Tree:
    """Every sequence of an autoregressive policy with V outcomes a step, so that means are sums.

    Parameters are logits, one table a step: [V ** t, V], a row for each prefix.
    """

    vocabulary: int
    steps: int

    @functools.cached_property
    def sequences(self) -> Int[np.ndarray, "S T"]:
        """All V ** T of them."""
        return np.array(list(itertools.product(range(self.vocabulary), repeat=self.steps)))

    @functools.cached_property
    def prefixes(self) -> Int[np.ndarray, "S T"]:
        """Which row of each table a sequence passes."""
        rows = np.zeros(self.sequences.shape, int)
        for t in range(1, self.steps):
            rows[:, t] = rows[:, t - 1] * self.vocabulary + self.sequences[:, t - 1]
        return rows

    def parameters(self, seed: int, *, near: Float[np.ndarray, " N"] | None = None) -> np.ndarray:
        """Random parameters [N], or some at a distance from others."""
        random = np.random.default_rng((seed, self.vocabulary, self.steps))
        noise = random.normal(size=sum(self.vocabulary ** (t + 1) for t in range(self.steps)))
        return noise if near is None else near + 0.3 * noise

    def rows(self, parameters: Float[Array, " N"]) -> Float[Array, "S T V"]:
        """The log-prob row before each token of each sequence."""
        tables, start = [], 0
        for t in range(self.steps):
            size = self.vocabulary ** (t + 1)
            table = parameters[start : start + size].reshape(-1, self.vocabulary)
            tables.append(jax.nn.log_softmax(table, axis=-1)[self.prefixes[:, t]])
            start += size
        return jnp.stack(tables, axis=1)

    def log_probs(self, parameters: Float[Array, " N"]) -> Float[Array, "S T"]:
        """Of every token of every sequence."""
        rows = self.rows(parameters)
        return jnp.take_along_axis(rows, self.sequences[..., None], -1)[..., 0]


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def _lengths(rows: int, tokens: int) -> np.ndarray:
    lengths = [max(1, tokens - row) for row in range(rows)]
    if rows > 2:
        lengths[-1] = 0
    return np.arange(tokens) < np.array(lengths)[:, None]
