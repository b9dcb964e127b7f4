"""A baseline from outside the group: what the policy itself would have answered."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import ADVANTAGES
from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card


@ADVANTAGES.register(
    Card(
        formula="R - R of the greedy completion of the same prompt",
        source="ReMax, arXiv:2310.10505; verl",
        level="sequence",
        gradient="none",
        disagreements="A run decodes and scores one completion a prompt more.",
        needs=("greedy_rewards",),
    )
)
def remax(
    rewards: Float[Array, "B"], group_ids: Int[Array, "B"], *, greedy_rewards: Float[Array, "B"]
) -> Float[Array, "B"]:
    """ReMax's advantage: how much better a sample is than the policy's own best guess.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion has advantage 0.
      group_ids: [B] int. Not used; every advantage takes it.
      greedy_rewards: [B]. Of the greedy completion of each completion's prompt; where it is not
        scored, the advantage is 0.

    Returns:
      [B] float32, without gradient.

    Raises:
      TypeError: rewards are not floating point, or group ids are not integers.
      ValueError: the shapes are not [B].

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, greedy = jnp.array([0.0, 1.0]), jnp.array([0.25, 0.25])
      >>> jg.advantages.remax(rewards, jnp.array([7, 7]), greedy_rewards=greedy)
      Array([-0.25,  0.75], dtype=float32)

    Source:
      arXiv:2310.10505.
    """
    plain, scored = _statistics.scored_rewards(rewards, group_ids)
    checks.floating(greedy_rewards=greedy_rewards)
    checks.shape(tuple(plain.shape), greedy_rewards=greedy_rewards)
    greedy = jax.lax.stop_gradient(jnp.asarray(greedy_rewards)).astype(plain.dtype)
    known = scored & jnp.isfinite(greedy)
    return jnp.where(known, plain - jnp.where(known, greedy, 0), 0).astype(jnp.float32)
