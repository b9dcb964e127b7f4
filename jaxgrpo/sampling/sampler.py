"""The sampler: each prompt prefilled once, fanned out to its group, decoded a chunk at a time.

Two programs are compiled for each prompt bucket, `start` and `advance`; the host looks in between
chunks only, to stop when every row is done and to let the caller be interrupted.
"""

import dataclasses
import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxgrpo.models import (
    DecoderConfig,
    KVCache,
    Params,
    bind,
    decode_step,
    prefill,
    row_log_probs,
)
from jaxgrpo.sampling.config import SamplingConfig
from jaxgrpo.sampling.transforms import draw, transform
from jaxgrpo.sharding import batch_sharding, row_shards


class StopReason(enum.IntEnum):
    """Why a completion ended."""

    LENGTH = 0
    STOP = 1


@dataclasses.dataclass(frozen=True)
class Prompts:
    """Token ids of prompts, left-padded, and what their randomness is made from."""

    tokens: Int[np.ndarray, "P T"]
    lengths: Int[np.ndarray, " P"]
    prompt_ids: Int[np.ndarray, " P"]
    """Folded into the key: the same id draws the same numbers, wherever the prompt stands."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Completions:
    """What was sampled; rows of one prompt lie side by side. All on the host, as NumPy arrays."""

    tokens: Int[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]
    """Tokens that the policy chose, the stop token included."""
    log_probs: Float[np.ndarray, "B T"]
    """Nats, of the distribution sampled from (at temperature 0: of the policy itself)."""
    stop_reasons: Int[np.ndarray, " B"]
    top_ids: Int[np.ndarray, "B T K"] | None = None
    """The K likeliest tokens at each position, likeliest first; only of a sampler with `tops`."""
    top_log_probs: Float[np.ndarray, "B T K"] | None = None
    """Theirs, of the same distribution."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _State:
    step: Int[Array, ""]
    cache: KVCache
    keys: PRNGKeyArray
    prompt_lengths: Int[Array, " B"]
    tokens: Int[Array, "B T"]
    log_probs: Float[Array, "B T"]
    lengths: Int[Array, " B"]
    stopped: Bool[Array, " B"]
    done: Bool[Array, " B"]
    top_ids: Int[Array, "B T K"] | None
    top_log_probs: Float[Array, "B T K"] | None


def left_pad(sequences: Sequence[Sequence[int]], width: int, pad_id: int) -> np.ndarray:
    """Ids as one [P, width] array, padding in front.

    Example:
      >>> left_pad([[5, 6], [7]], 3, 0).tolist()
      [[0, 5, 6], [0, 0, 7]]
    """
    rows = np.full((len(sequences), width), pad_id, np.int32)
    for row, ids in zip(rows, sequences, strict=True):
        row[width - len(ids) :] = ids
    return rows


def row_keys(key: PRNGKeyArray, prompt_ids: Array, group_size: int) -> PRNGKeyArray:
    """[P * G] keys, folded from prompt id and sample number, never from the row's place."""

    def fold(prompt_id: Array) -> PRNGKeyArray:
        prompt_key = jax.random.fold_in(key, prompt_id)
        return jax.vmap(lambda sample: jax.random.fold_in(prompt_key, sample))(
            jnp.arange(group_size)
        )

    return jax.vmap(fold)(prompt_ids).reshape(-1)


class Sampler:
    """Draws completions from a decoder.

    Args:
      model: the decoder.
      config: the distribution and its limits.
      stop_ids: a completion ends with the first of these.
      pad_id: what tokens after the end are; never looked at.
      mesh: rows are split over its `batch` axes.
      tops: K, so many of the likeliest tokens are recorded at each position; 0 records none.

    Raises:
      ValueError: `tops` is not in [0, vocabulary].
    """

    def __init__(
        self,
        model: DecoderConfig,
        config: SamplingConfig,
        *,
        stop_ids: Sequence[int],
        pad_id: int,
        mesh: Mesh,
        tops: int = 0,
    ) -> None:
        if not 0 <= tops <= model.vocabulary_size:
            size = model.vocabulary_size
            raise ValueError(f"tops must be in [0, {size}], the vocabulary's size, got {tops}")
        self.tops = tops
        self.model, self.config, self.mesh = model, config, mesh
        self.stop_ids, self.pad_id = tuple(stop_ids), pad_id
        self._start = jax.jit(self._start_rows, static_argnames="group_size")
        self._advance = jax.jit(self._advance_rows, donate_argnums=1)

    def compiled_programs(self) -> int:
        """How many programs have been compiled so far; steady once every bucket was seen."""
        jitted: list[Any] = [self._start, self._advance]
        return sum(function._cache_size() for function in jitted)

    def __call__(
        self,
        params: Params,
        prompts: Prompts,
        *,
        key: PRNGKeyArray,
        group_size: int = 1,
        on_chunk: Callable[[], None] | None = None,
    ) -> Completions:
        """Completions of every prompt, `group_size` of each.

        Args:
          params: of the decoder.
          prompts: P of them.
          key: threefry; folded with prompt id, sample number and position.
          group_size: G, completions a prompt.
          on_chunk: called between chunks of decoding; what it raises ends the rollout.

        Returns:
          P * G rows, those of one prompt side by side.
        """
        count = len(prompts.lengths)
        prompts = self._fill_up(prompts)
        state = self._start(
            params,
            *(
                jax.device_put(array, batch_sharding(self.mesh))
                for array in (prompts.tokens, prompts.lengths, prompts.prompt_ids)
            ),
            key=key,
            group_size=group_size,
        )
        steps, chunk = self.config.max_new_tokens, self.config.decode_chunk
        for until in range(chunk, steps + chunk, chunk):
            state = self._advance(params, state, jnp.int32(min(until, steps)))
            if on_chunk is not None:
                on_chunk()
            if bool(state.done.all()):
                break
        rows = count * group_size
        tops = (state.top_ids, state.top_log_probs)
        tokens, lengths, log_probs, stopped, *tops = jax.tree.map(
            lambda leaf: leaf[:rows],
            jax.device_get((state.tokens, state.lengths, state.log_probs, state.stopped, *tops)),
        )
        reasons = np.where(stopped, StopReason.STOP, StopReason.LENGTH).astype(np.int8)
        return Completions(tokens, lengths, log_probs, reasons, *tops)

    def _fill_up(self, prompts: Prompts) -> Prompts:
        """With empty prompts, to a number that every device gets an equal share of."""
        missing = -len(prompts.lengths) % row_shards(self.mesh)
        if not missing:
            return prompts
        return Prompts(
            *(
                np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))
                for array in (prompts.tokens, prompts.lengths, prompts.prompt_ids)
            )
        )

    def _start_rows(
        self,
        params: Params,
        tokens: Int[Array, "P T"],
        lengths: Int[Array, " P"],
        prompt_ids: Int[Array, " P"],
        *,
        key: PRNGKeyArray,
        group_size: int,
    ) -> _State:
        width = tokens.shape[1]
        mask = jnp.arange(width)[None] >= width - lengths[:, None]
        states, cache = prefill(self.model, params, tokens, mask)
        matrix = bind(self.model, params).unembedding_matrix()
        rows = row_log_probs(states, matrix, temperature=self.config.temperature or 1.0)
        # Prompt work is over: from here on every prompt is `group_size` rows.
        fan = functools.partial(jnp.repeat, repeats=group_size, axis=0)
        batch, steps = len(prompt_ids) * group_size, self.config.max_new_tokens
        tops = (batch, steps, self.tops)
        state = _State(
            step=jnp.int32(0),
            cache=cache.repeat(group_size).extend(steps),
            keys=row_keys(key, prompt_ids, group_size),
            prompt_lengths=fan(lengths),
            tokens=jnp.full((batch, steps), self.pad_id, jnp.int32),
            log_probs=jnp.zeros((batch, steps), rows.dtype),
            lengths=jnp.zeros(batch, jnp.int32),
            stopped=jnp.zeros(batch, bool),
            done=fan(lengths) == 0,
            top_ids=jnp.zeros(tops, jnp.int32) if self.tops else None,
            top_log_probs=jnp.zeros(tops, rows.dtype) if self.tops else None,
        )
        return self._record(state, fan(rows))

    def _record(self, state: _State, rows: Float[Array, "B V"]) -> _State:
        """Draws the token at `step` of every row that isn't done, and notes it."""
        rows = transform(rows, self.config)
        if self.config.temperature == 0:
            tokens = jnp.argmax(rows, axis=-1).astype(jnp.int32)
        else:
            step_keys = jax.vmap(jax.random.fold_in, (0, None))(state.keys, state.step)
            tokens = draw(rows, jax.vmap(jax.random.uniform)(step_keys))
        log_probs = jnp.take_along_axis(rows, tokens[:, None], axis=-1)[:, 0]
        alive = ~state.done
        stopped = jnp.isin(tokens, jnp.array(self.stop_ids, jnp.int32)) & alive
        column = state.step

        def put(array: Array, values: Array) -> Array:
            kept = alive.reshape(-1, *(1,) * (values.ndim - 1))
            return array.at[:, column].set(jnp.where(kept, values, array[:, column]))

        if state.top_ids is not None and state.top_log_probs is not None:
            likeliest, ids = jax.lax.top_k(rows, self.tops)
            state = dataclasses.replace(
                state,
                top_ids=put(state.top_ids, ids.astype(jnp.int32)),
                top_log_probs=put(state.top_log_probs, likeliest),
            )
        return dataclasses.replace(
            state,
            step=state.step + 1,
            tokens=put(state.tokens, tokens),
            log_probs=put(state.log_probs, log_probs),
            lengths=state.lengths + alive,
            stopped=state.stopped | stopped,
            done=state.done | stopped,
        )

    def _advance_rows(self, params: Params, state: _State, until: Int[Array, ""]) -> _State:
        decoder = bind(self.model, params)
        blocks, matrix = decoder.layers(), decoder.unembedding_matrix()
        width = state.cache.filled.shape[1] - self.config.max_new_tokens

        def unfinished(state: _State) -> Bool[Array, ""]:
            return (state.step < until) & ~jnp.all(state.done)

        def step(state: _State) -> _State:
            past = state.step - 1
            tokens = jax.lax.dynamic_index_in_dim(state.tokens, past, axis=1, keepdims=False)
            hidden, cache = decode_step(
                decoder, blocks, tokens, state.prompt_lengths + past, width + past, state.cache
            )
            rows = row_log_probs(hidden, matrix, temperature=self.config.temperature or 1.0)
            return self._record(dataclasses.replace(state, cache=cache), rows)

        return jax.lax.while_loop(unfinished, step, state)
