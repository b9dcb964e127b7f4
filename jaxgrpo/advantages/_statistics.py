"""Statistics of each completion's group, safe for missing rewards, huge offsets and float noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group

# A group whose rewards differ by less than this many units in the last place is taken to be equal:
# one reward summed in two orders must not become an advantage of order 1.
_NOISE_ULPS = 4


class Group(NamedTuple):
    """What each completion knows about its own group; every field is [B]."""

    size: Int[Array, "B"]
    """Scored completions in the group."""
    informative: Bool[Array, "B"]
    """Whether the completion is scored and the group's rewards differ."""
    centred: Float[Array, "B"]
    """Reward minus group mean; 0 where not informative."""
    span: Float[Array, "B"]
    """Largest minus smallest reward of the group; 1 where not informative."""


def of_each(rewards: Float[Array, "B"], group_ids: Int[Array, "B"]) -> Group:
    """Each completion's group, found by id and never by position."""
    rewards, scored = scored_rewards(rewards, group_ids)
    low = over_group(jnp.min, rewards, group_ids, where=scored, initial=jnp.inf)
    high = over_group(jnp.max, rewards, group_ids, where=scored, initial=-jnp.inf)
    size = over_group(jnp.sum, scored.astype(jnp.int32), group_ids, initial=0)
    noise = noise_of(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    informative = scored & (high - low > noise)  # never of a lone sample
    # Rewards above the group's lowest first: a mean of huge numbers would drown the differences.
    excess = jnp.where(informative, rewards - jnp.where(informative, low, 0), 0)
    total = over_group(jnp.sum, excess, group_ids, initial=0)
    mean = total / jnp.maximum(size, 1).astype(rewards.dtype)
    return Group(
        size,
        informative,
        centred=jnp.where(informative, excess - mean, 0),
        span=jnp.where(informative, high - low, 1),
    )


def scored_rewards(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"]
) -> tuple[Float[Array, "B"], Bool[Array, "B"]]:
    """The rewards, checked, detached, float32 at least and 0 where not scored; and where they are.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].
    """
    checks.floating(rewards=rewards)
    checks.integer(group_ids=group_ids)
    checks.shape((None,), rewards=rewards)
    checks.shape(tuple(rewards.shape), group_ids=group_ids)
    rewards = jax.lax.stop_gradient(jnp.asarray(rewards))
    rewards = rewards.astype(jnp.promote_types(rewards.dtype, jnp.float32))
    scored = jnp.isfinite(rewards)
    return jnp.where(scored, rewards, 0), scored


def noise_of(sizes: Float[Array, "..."]) -> Float[Array, "..."]:
    """Differences of numbers of these sizes that say nothing."""
    return _NOISE_ULPS * jnp.finfo(sizes.dtype).eps * sizes


def std_of(group: Group, group_ids: Int[Array, "B"], *, ddof: int = 1) -> Float[Array, "B"]:
    """Standard deviation of each completion's group; 1 where not informative."""
    # In units of the span: squares of the rewards themselves leave float32 beyond 1e-19 and 1e19.
    unit = group.centred / group.span
    squares = over_group(jnp.sum, unit * unit, group_ids, initial=0)
    variance = squares / jnp.maximum(group.size - ddof, 1).astype(squares.dtype)
    return group.span * jnp.sqrt(jnp.where(group.informative, variance, 1))


def ranks(
    values: Float[Array, "B"], group_ids: Int[Array, "B"], where: Bool[Array, "B"]
) -> Int[Array, "B"]:
    """How many members of the group inside `where` have a larger value; equals have one rank."""

    def ahead(value: Array, group_id: Array) -> Array:
        return jnp.sum((values > value) & where & (group_ids == group_id), dtype=jnp.int32)

    return jax.vmap(ahead)(values, group_ids)
