"""The weight each row's token sum has in the scalar, from the mask of a whole optimiser step."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.aggregation._registry import AGGREGATIONS
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.masking import masked_count

Where = Bool[Array, "B T"]
GroupIds = Int[Array, "B"] | None


def row_weights(
    name: str,
    where: Bool[Array, "B T"],
    *,
    group_ids: Int[Array, "B"] | None = None,
    **options: object,
) -> Float[Array, "B"]:
    """The global normaliser of an aggregation, one number a row.

    Make it once from the mask of all rows of the optimiser step, of every process; then pass each
    micro-batch or shard its slice. The parts' losses and gradients add up to the whole's, so they
    are to be summed, not averaged.

    Args:
      name: An aggregation.
      where: [B, T] bool. Trainable tokens of the whole step.
      group_ids: [B] int. Which prompt each row answers; `prompt_mean` needs it.
      **options: The aggregation's own.

    Returns:
      [B] float32; 0 for rows without trainable tokens.

    Raises:
      LookupError: no aggregation has that name.
      TypeError: an option is unknown, missing or of the wrong type; `where` is not bool.
      ValueError: `group_ids` is needed and missing, or a shape does not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True], [True, False], [False, False]])
      >>> jg.aggregation.row_weights("sequence_mean_token_mean", where)
      Array([0.25, 0.5 , 0.  ], dtype=float32)
    """
    AGGREGATIONS.bind(name, **options)
    checks.boolean(where=where)
    checks.shape((None, None), where=where)
    return WEIGHTS[name](where, group_ids, jnp.dtype(jnp.float32), **options)


def token_mean(where: Where, group_ids: GroupIds, dtype: jnp.dtype) -> Float[Array, "B"]:
    """One over the number of tokens."""
    tokens = masked_count(where, axis=-1)
    return _share(tokens > 0, jnp.sum(tokens, dtype=jnp.int32), dtype)


def token_sum(where: Where, group_ids: GroupIds, dtype: jnp.dtype) -> Float[Array, "B"]:
    """One."""
    return jnp.any(where, axis=-1).astype(dtype)


def sequence_mean_token_sum(
    where: Where, group_ids: GroupIds, dtype: jnp.dtype, *, count_empty: bool = False
) -> Float[Array, "B"]:
    """One over the number of sequences."""
    present = jnp.any(where, axis=-1)
    sequences = where.shape[0] if count_empty else jnp.sum(present, dtype=jnp.int32)
    return _share(present, jnp.asarray(sequences, jnp.int32), dtype)


def sequence_mean_token_mean(
    where: Where, group_ids: GroupIds, dtype: jnp.dtype, *, count_empty: bool = False
) -> Float[Array, "B"]:
    """One over the number of sequences and over the row's own tokens."""
    of_sequence = sequence_mean_token_sum(where, group_ids, dtype, count_empty=count_empty)
    tokens = masked_count(where, axis=-1)
    return of_sequence * _share(tokens > 0, tokens, dtype)


def sequence_mean_constant(
    where: Where,
    group_ids: GroupIds,
    dtype: jnp.dtype,
    *,
    length: int,
    count_empty: bool = False,
) -> Float[Array, "B"]:
    """One over the number of sequences and over a constant."""
    checks.static_number(above=0, length=length)
    return sequence_mean_token_sum(where, group_ids, dtype, count_empty=count_empty) / length


def prompt_mean(
    where: Where, group_ids: GroupIds, dtype: jnp.dtype, *, count_empty: bool = False
) -> Float[Array, "B"]:
    """One over the number of prompts and over the tokens of the row's own prompt."""
    if group_ids is None:
        raise ValueError("prompt_mean needs group_ids, [B] int: which prompt each row answers")
    checks.integer(group_ids=group_ids)
    checks.shape((where.shape[0],), group_ids=group_ids)
    tokens = masked_count(where, axis=-1)
    counted = jnp.ones_like(tokens, bool) if count_empty else tokens > 0
    # A prompt is counted at its first row: an integer count, where summing shares would round.
    rows = jnp.arange(where.shape[0], dtype=jnp.int32)
    first = over_group(jnp.min, rows, group_ids, where=counted, initial=where.shape[0])
    prompts = jnp.sum(rows == first, dtype=jnp.int32)
    of_prompt = over_group(jnp.sum, tokens, group_ids, initial=0)
    return _share(tokens > 0, prompts, dtype) * _share(tokens > 0, of_prompt, dtype)


WEIGHTS: dict[str, Callable[..., Float[Array, "B"]]] = {
    weights.__name__: weights
    for weights in (
        token_mean,
        sequence_mean_token_mean,
        sequence_mean_token_sum,
        sequence_mean_constant,
        token_sum,
        prompt_mean,
    )
}


def _share(
    present: Bool[Array, "B"], count: Int[Array, "B"] | Int[Array, ""], dtype: jnp.dtype
) -> Float[Array, "B"]:
    """One over the count for the rows that are present, 0 for the others."""
    return jnp.where(present, 1 / jnp.maximum(count, 1).astype(dtype), 0)
