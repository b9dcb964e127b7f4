"""Losses that compare the sequences of a group: REAL, and a mask inspired by DaGRPO."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.masking import masked_count, masked_mean, zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import spread_rows, surrogate_inputs, weighted_steps

_FAR = 1e4  # a score beyond it, of a token without probability, would make differences nan


@LOSSES.register(
    Card(
        formula="log(1 + sum_pos exp(-s/tau)) + log(1 + sum_neg exp(s/tau)), s = mean_t log w_t",
        source="REAL, arXiv:2602.05630",
        exceptions={"A = 0": "it reads rewards in the place of advantages"},
        level="group",
        gradient="none",
        defaults="tau 0.5; aggregated by sequence_mean_token_mean: the mean over groups",
        disagreements=(
            "Rewards take the place of advantages, so at w = 1 the gradient is not -A but "
            "-+k / (tau (1 + number of that sign)). ms-swift splits by the sign of the advantage "
            "and skips groups of one sign; here all-correct groups train, as in the paper."
        ),
        needs=("group_ids", "rewards"),
    )
)
def real(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    group_ids: Int[Array, "B"],
    rewards: Float[Array, "B"],
    tau: float = 0.5,
) -> Float[Array, "B T"]:
    """REAL: classify the group's right and wrong sequences by their length-normalised log-ratios.

    Whole groups must be in one call. Each token holds its group's loss.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      group_ids: [B] int. Which prompt each sequence answers; any integers, in any order.
      rewards: [B]. Right where positive; a reward that is not finite leaves its sequence out.
      tau: Temperature of the scores.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `tau` is not positive.

    Note:
      Under `sequence_mean_token_mean` the gradient is that of the mean of the groups' losses; a
      token's own is k p / tau, p the softmax weight of its sequence and k the group's size, with
      the sign of its class. Advantages are checked and not used.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, rewards = jnp.zeros((2, 1)), jnp.array([0.0, 1.0])
      >>> jg.losses.real(
      ...     log_probs, log_probs, rewards, group_ids=jnp.array([7, 7]), rewards=rewards
      ... )
      Array([[1.386294],
             [1.386294]], dtype=float32)

    Source:
      arXiv:2602.05630.
    """
    checks.static_number(above=0, tau=tau)
    log_ratios, _ = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    checks.floating(rewards=rewards)
    checks.integer(group_ids=group_ids)
    checks.shape((None, None), log_probs=log_ratios)
    checks.shape(log_probs.shape[:1], group_ids=group_ids, rewards=rewards)
    present = _present(log_probs, where) & jnp.isfinite(rewards)
    scores = jax.lax.stop_gradient(masked_mean(log_ratios, where, -1)) / tau
    scores = jnp.clip(scores, -_FAR, _FAR)
    signs = jnp.where(rewards > 0, -1, 1).astype(scores.dtype)
    size = over_group(jnp.sum, present.astype(jnp.int32), group_ids, initial=0)
    groups = jnp.zeros_like(scores)
    shares = jnp.zeros_like(scores)
    for positive in (True, False):
        members = present & ((rewards > 0) == positive)
        scaled = jnp.where(members, signs * scores, -jnp.inf)
        top = jnp.maximum(over_group(jnp.max, scaled, group_ids, initial=-jnp.inf), 0)
        total = over_group(jnp.sum, jnp.exp(scaled - top), group_ids, initial=0)
        normaliser = jnp.log(jnp.exp(-top) + total) + top
        groups += jnp.where(present, normaliser, 0)
        shares += jnp.where(members, jnp.exp(scaled - normaliser), 0)
    slopes = signs * shares / tau * size.astype(scores.dtype)
    # The gradient goes straight through: each token's step times the slope of its group's loss.
    finite = jnp.isfinite(log_ratios)
    steps = jnp.where(finite, log_ratios - jax.lax.stop_gradient(log_ratios), 0)
    losses = spread_rows(groups, log_probs) + spread_rows(slopes, log_probs) * steps
    return zero_where_masked(losses, where)


@LOSSES.register(
    Card(
        formula="PPO's clip, without sequences whose score is within tau of one of the other sign",
        source="inspired by DaGRPO, arXiv:2512.06337 (abstract)",
        level="group",
        gradient="none",
        defaults="tau 0.1, ours; scores are the rewards",
        disagreements=(
            "Not a reproduction: the paper's scores, pairs, threshold and the weight of its anchor "
            "answers are not known to us. Inferred here: a pair is a sequence of positive and one "
            "of negative advantage in a group, and both are left out; off-policy tokens have the "
            "plain gradient -A, without a ratio. At w = 1 sequences left out have gradient 0."
        ),
        needs=("group_ids", "rewards", "off_policy"),
    )
)
def dagrpo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    group_ids: Int[Array, "B"],
    rewards: Float[Array, "B"],
    off_policy: Bool[Array, "B T"] | None = None,
    tau: float = 0.1,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Array, "B T"]:
    """PPO's clip on the sequences that are distinct from those of the other sign in their group.

    Whole groups must be in one call.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      group_ids: [B] int. Which prompt each sequence answers; any integers, in any order.
      rewards: [B]. The scores that are compared.
      off_policy: [B, T] bool. Tokens of an expert's answer, which have no ratio; None for none.
      tau: Two scores nearer than this are not distinct.
      clip_low: PPO's lower clip.
      clip_high: PPO's upper clip.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a number is negative.

    Note:
      The gradient for `log_probs` is PPO's, -A on off-policy tokens, and 0 in sequences left out.
      Left-out tokens have the value 0 and stay in the denominator.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, rewards = jnp.zeros((3, 1)), jnp.array([0.9, 0.85, 0.1])
      >>> advantages, group_ids = jnp.array([1.0, -1.0, -2.0]), jnp.array([7, 7, 7])
      >>> jg.losses.dagrpo(log_probs, log_probs, advantages, group_ids=group_ids, rewards=rewards)
      Array([[0.],
             [0.],
             [2.]], dtype=float32)

    Source:
      arXiv:2512.06337.
    """
    checks.static_number(minimum=0, tau=tau)
    log_ratios, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    checks.floating(rewards=rewards)
    checks.integer(group_ids=group_ids)
    checks.shape((None, None), log_probs=log_ratios)
    checks.shape(log_probs.shape[:1], group_ids=group_ids, rewards=rewards)
    signs = jnp.sign(masked_mean(spread, where, -1))

    def distinct(group_id: Array, sign: Array, reward: Array) -> Array:
        rivals = (group_ids == group_id) & (signs * sign < 0)
        return ~jnp.any(rivals & (jnp.abs(rewards - reward) < tau))

    keep = jax.vmap(distinct)(group_ids, signs, rewards)
    keep = jnp.broadcast_to(keep[:, None], spread.shape)
    own = jnp.ones(log_probs.shape, bool) if off_policy is None else ~off_policy
    checks.boolean(off_policy=own)
    checks.shape(tuple(log_probs.shape), off_policy=own)
    options = {"where": own if where is None else where & own, "clip_low": clip_low}
    ppo = ppo_clip(log_probs, anchor_log_probs, spread, clip_high=clip_high, **options)
    theirs = weighted_steps(log_probs, 1.0, jnp.where(own, 0, spread), where=where)
    return jnp.where(keep, ppo + theirs, 0)


def _present(log_probs: Array, where: Array | None) -> Array:
    """Whether a sequence has any trainable token."""
    return masked_count(jnp.ones(log_probs.shape, bool) if where is None else where, -1) > 0
