"""Advantages that differ from token to token: of a return still to come, or of a baseline."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.advantages import _statistics
from jaxgrpo.advantages._registry import ADVANTAGES
from jaxgrpo.core import checks
from jaxgrpo.core.grouping import sum_over_group
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card


@ADVANTAGES.register(
    Card(
        formula="discount^(tokens still to come) R, whitened over all trainable tokens",
        source="REINFORCE++, arXiv:2501.03262; verl, slime, OpenRLHF, NeMo-RL, SkyRL",
        level="batch",
        gradient="none",
        defaults="discount 1",
        disagreements=(
            "No group baseline: that is whitened_over_tokens. A penalty towards the reference is "
            "in the loss here; the paper takes it off the reward."
        ),
    )
)
def reinforce_plus_plus(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    where: Bool[Array, "B T"],
    discount: float = 1.0,
    eps: float = 1e-6,
) -> Float[Array, "B T"]:
    """REINFORCE++'s advantage: the discounted return, with mean 0 and deviation 1 over the tokens.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Not used; every advantage takes it.
      where: [B, T] bool. Trainable tokens.
      discount: Factor for each trainable token between a token and the reward, which comes with
        the completion's last.
      eps: Added to the standard deviation.

    Returns:
      [B, T] float32, without gradient; 0 outside `where`, and everywhere where all returns are
      equal.

    Raises:
      TypeError: rewards are not floating point, group ids not integers, or `where` is not bool.
      ValueError: the shapes do not fit, `discount` is not in (0, 1], or `eps` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> rewards, where = jnp.array([0.0, 2.0]), jnp.array([[True, False], [True, True]])
      >>> advantages = jg.advantages.reinforce_plus_plus(
      ...     rewards, jnp.array([7, 7]), where=where, eps=0.0
      ... )
      >>> [[f"{x:.3f}" for x in row] for row in advantages]
      [['-1.155', '0.000'], ['0.577', '0.577']]

    Source:
      arXiv:2501.03262.
    """
    checks.static_number(minimum=0, eps=eps)
    checks.static_number(above=0, maximum=1, discount=discount)
    rewards, scored = _statistics.scored_rewards(rewards, group_ids)
    where = _tokens(rewards, where) & scored[:, None]
    lowest = jnp.min(rewards, initial=jnp.inf, where=scored)
    lowest = jnp.where(jnp.isfinite(lowest), lowest, 0)
    counts = jnp.cumsum(where, axis=1, dtype=jnp.int32)
    remaining = (counts[:, -1:] - counts).astype(rewards.dtype)
    power = discount**remaining
    # Above the lowest reward, whose own part is exactly 0 without a discount: a large offset of all
    # rewards would drown their differences.
    returns = power * (rewards - lowest)[:, None] + lowest * (power - 1)
    low = jnp.min(returns, initial=jnp.inf, where=where)
    high = jnp.max(returns, initial=-jnp.inf, where=where)
    noise = _statistics.noise_of(jnp.max(jnp.abs(jnp.where(scored, rewards, 0)), initial=0))
    informative = high - low > noise
    span = jnp.where(informative, high - low, 1)
    unit = zero_where_masked((returns - jnp.where(informative, low, 0)) / span, where)
    count = jnp.sum(where, dtype=jnp.int32)
    moved = zero_where_masked(
        unit - jnp.sum(unit) / jnp.maximum(count, 1).astype(unit.dtype), where
    )
    variance = jnp.sum(moved * moved) / jnp.maximum(count - 1, 1).astype(unit.dtype)
    std = span * jnp.sqrt(jnp.where(informative, variance, 1))
    whitened = span * moved / (std + eps)
    return jnp.where(informative & where, whitened, 0).astype(jnp.float32)


@ADVANTAGES.register(
    Card(
        formula="R - sum(W_t R) / sum(W_t), W_t = sum_{j<=t} (1 - 2 p_j + sum_v p_v^2)",
        source="OTB, arXiv:2602.07078; verl",
        level="group",
        gradient="none",
        disagreements=(
            "Sums are over the completions of the group that have a token t: one that outlives all "
            "others has advantage 0 there. verl may scale W by squared sampler weights."
        ),
        needs=("behaviour_log_probs", "squared_probs"),
    )
)
def optimal_token_baseline(
    rewards: Float[Array, "B"],
    group_ids: Int[Array, "B"],
    *,
    where: Bool[Array, "B T"],
    behaviour_log_probs: Float[Array, "B T"],
    squared_probs: Float[Array, "B T"],
) -> Float[Array, "B T"]:
    """The reward minus a baseline of its own at each position, the one of least variance.

    W_t, the weight of a completion in the baseline, estimates the squared norm of its score up to
    t: the derivative of log p for the logits is a one-hot minus p.

    Args:
      rewards: [B]. One a completion; nan or inf says not scored: such a completion is left out of
        the statistics and has advantage 0.
      group_ids: [B] int. Which prompt each completion answers; any integers, in any order.
      where: [B, T] bool. Trainable tokens.
      behaviour_log_probs: [B, T], nats. The tokens as the sampler recorded them.
      squared_probs: [B, T]. The sum of squared probabilities over the vocabulary at each token.

    Returns:
      [B, T] float32, without gradient; 0 outside `where`, and in a group of equal rewards.

    Raises:
      TypeError: an input is not floating point, group ids not integers, or `where` is not bool.
      ValueError: the shapes do not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> advantages = jg.advantages.optimal_token_baseline(
      ...     jnp.array([0.0, 1.0]),
      ...     jnp.array([7, 7]),
      ...     where=jnp.ones((2, 1), bool),
      ...     behaviour_log_probs=jnp.log(jnp.array([[0.5], [0.25]])),
      ...     squared_probs=jnp.array([[0.5], [0.375]]),
      ... )
      >>> [f"{x:.3f}" for x in advantages[:, 0]]
      ['-0.636', '0.364']

    Source:
      arXiv:2602.07078.
    """
    group = _statistics.of_each(rewards, group_ids)
    where = _tokens(group.centred, where) & group.informative[:, None]
    dtype = group.centred.dtype
    checks.per_token(
        behaviour_log_probs=behaviour_log_probs, squared_probs=squared_probs, where=where
    )
    log_probs = zero_where_masked(jax.lax.stop_gradient(behaviour_log_probs), where).astype(dtype)
    squares = zero_where_masked(jax.lax.stop_gradient(squared_probs), where).astype(dtype)
    norms = zero_where_masked(1 - 2 * jnp.exp(log_probs) + squares, where)
    # Rounding may leave a token of probability 1 a norm below 0.
    weights = zero_where_masked(jnp.cumsum(jnp.maximum(norms, 0), axis=1), where)
    total = sum_over_group(weights, group_ids)
    shift = sum_over_group(weights * group.centred[:, None], group_ids)
    baseline = shift / jnp.where(total > 0, total, 1)
    return zero_where_masked(group.centred[:, None] - baseline, where).astype(jnp.float32)


def _tokens(rewards: Array, where: Array) -> Array:
    checks.boolean(where=where)
    checks.shape((rewards.shape[0], None), where=where)
    return jnp.asarray(where)
