"""Losses with a squared log-ratio: DRO (the form of Kimi k1.5) and GVPO."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.core import checks
from jaxgrpo.core.grouping import over_group
from jaxgrpo.core.masking import masked_count, masked_mean, masked_sum, zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import spread_rows, surrogate_inputs, weighted_log_probs


@LOSSES.register(
    Card(
        formula="-A log pi + (beta / 2) (log w)^2",
        source="Kimi k1.5, arXiv:2501.12599; DRO in verl and ROLL",
        exceptions={
            "A = 0": "its penalty pulls without an advantage too",
            "w = 0": "a squared log-ratio: infinite where it is",
        },
        level="token",
        gradient="policy_gradient",
        defaults="beta 0.1 (ROLL's kimi15); verl has none; prime-rl adds 1e-3 d^2, without the 1/2",
    )
)
def dro(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    beta: float = 0.1,
) -> Float[Array, "*B T"]:
    """Policy gradient at each token with a quadratic pull of the log-ratio to 0.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      beta: Strength of the pull.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `beta` is negative.

    Note:
      The gradient for `log_probs` is -A + beta log w: -A at w = 1, and never clipped.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.dro(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.717', '-0.669']

    Source:
      arXiv:2501.12599.
    """
    checks.static_number(minimum=0, beta=beta)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    return weighted_log_probs(log_probs, 1.0, advantages, where=where) + (
        beta / 2 * log_ratios * log_ratios
    )


@LOSSES.register(
    Card(
        formula="e^2 / (2 (k - 1)), e = (beta sum log w - its group mean) - (A - its group mean)",
        source="GVPO, arXiv:2504.19599; the k - 1 from the released code",
        exceptions={
            "A = 0": "a regression: equal rewards pull log-ratios together",
            "w = 0": "a squared sum of log-ratios: infinite where one is",
            "w = inf": "a squared sum of log-ratios: infinite where one is",
        },
        level="group",
        gradient="none",
        defaults="beta 0.1, k = 4, rewards without division by their deviation: group_centred",
        disagreements=(
            "At w = 1 the gradient is -beta A / (k - 1), not -A; equal rewards still have one "
            "elsewhere. To be aggregated by sequence_mean_token_sum, under which the paper's mean "
            "over prompts is k times this. The group mean is detached, as in the released code, "
            "which changes no gradient of a whole group. Its optimum is anchor exp(R / beta)."
        ),
        needs=("group_ids",),
    )
)
def gvpo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    group_ids: Int[Array, "B"],
    beta: float = 0.1,
) -> Float[Array, "B T"]:
    """GVPO: a regression of the group's centred log-ratios on its centred rewards.

    Whole groups must be in one call. Each token holds its share 1/n of the sequence's loss.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      group_ids: [B] int. Which prompt each sequence answers; any integers, in any order.
      beta: Weight of the log-ratio, as in a KL-regularised objective.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `beta` is not positive.

    Note:
      The gradient of the whole for each of a sequence's `log_probs` is beta e / (k - 1). A group
      of one sequence has loss 0. Sequences without trainable tokens are no members.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, rewards = jnp.zeros((2, 2)), jnp.array([0.0, 2.0])
      >>> jg.losses.gvpo(log_probs, log_probs, rewards, group_ids=jnp.array([7, 7]))
      Array([[0.25, 0.25],
             [0.25, 0.25]], dtype=float32)

    Source:
      arXiv:2504.19599.
    """
    checks.static_number(above=0, beta=beta)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    checks.integer(group_ids=group_ids)
    checks.shape((None, None), log_probs=log_ratios)
    checks.shape(log_probs.shape[:1], group_ids=group_ids)
    tokens = masked_count(jnp.ones(log_probs.shape, bool) if where is None else where, -1)
    present = tokens > 0
    implied = beta * masked_sum(log_ratios, where, -1)
    size = over_group(jnp.sum, present.astype(jnp.int32), group_ids, initial=0)
    others = jnp.maximum(size - 1, 1).astype(implied.dtype)

    def centred(rows: Array) -> Array:
        total = over_group(
            jnp.sum, jax.lax.stop_gradient(rows), group_ids, where=present, initial=0
        )
        return rows - total / jnp.maximum(size, 1).astype(rows.dtype)

    # Rewards are centred first: their common offset must not drown the log-ratios.
    errors = centred(implied) - centred(masked_mean(advantages, where, -1))
    losses = jnp.where(present & (size > 1), errors * errors / (2 * others), 0)
    losses = losses / jnp.maximum(tokens, 1).astype(losses.dtype)
    return zero_where_masked(spread_rows(losses, log_probs), where)
