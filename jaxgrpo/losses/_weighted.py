"""REINFORCE with a detached weight made of the ratio: CISPO, MiniRL, TOPR, VESPO."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.clipping import keep_mask
from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_mean, masked_sum
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import spread_rows, surrogate_inputs, weighted_log_probs
from jaxgrpo.ratios import token_log_ratios


@LOSSES.register(
    Card(
        formula="-sg(clip(w, low, high)) A log pi",
        source="CISPO, arXiv:2506.13585; ScaleRL, arXiv:2510.13786",
        level="token",
        gradient="policy_gradient",
        defaults="no lower bound, cap 5, as in TRL and ms-swift",
        disagreements=(
            "The bounds are absolute ratios here, in TRL and in tinker; verl, NeMo-RL and slime "
            "write 1 - low and 1 + high, so the same number is another bound there."
        ),
    )
)
def cispo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float | None = None,
    clip_high: float = 5.0,
) -> Float[Array, "*B T"]:
    """CISPO at each token: the clipped ratio is a detached weight, so no token loses its gradient.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: Smallest weight, an absolute ratio; None for no bound.
      clip_high: Largest weight, an absolute ratio.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or the bounds are negative or out of order.

    Note:
      The gradient for `log_probs` is -clip(w) A, never 0.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.cispo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]), clip_high=1.5)
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.347', '-1.040']

    Source:
      arXiv:2506.13585.
    """
    low = 0.0 if clip_low is None else clip_low
    checks.static_number(minimum=0, clip_low=low)
    checks.static_number(minimum=low, clip_high=clip_high)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    weights = jnp.clip(jnp.exp(jax.lax.stop_gradient(log_ratios)), low, clip_high)
    return weighted_log_probs(log_probs, weights, advantages, where=where)


@LOSSES.register(
    Card(
        formula="-sg(min(w, cap) M) A log pi; w = policy/behaviour, M PPO's on policy/anchor",
        source="MiniRL, arXiv:2512.01374; the clips from arXiv:2602.04879, appendix C",
        level="token",
        gradient="policy_gradient",
        defaults="clips 0.2 / 0.28; cap inf, 3 in MiniRL-TIS",
        disagreements="Meant with centred rewards and without length normalisation.",
        needs=("behaviour_log_probs",),
    )
)
def minirl(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    behaviour_log_probs: Float[Array, "*B T"],
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    cap: float = math.inf,
) -> Float[Array, "*B T"]:
    """MiniRL at each token: PPO's mask against the anchor, the weight against the sampler.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      clip_low: Tokens with A < 0 keep their gradient down to policy/anchor = 1 - clip_low.
      clip_high: Tokens with A > 0 keep their gradient up to policy/anchor = 1 + clip_high.
      cap: Largest weight.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a bound is negative.

    Note:
      The gradient for `log_probs` is -w M A, which is -A where the policy is anchor and sampler.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs = jnp.array([[-1.0, -2.0]])
      >>> jg.losses.minirl(log_probs, log_probs, jnp.array([2.0]), behaviour_log_probs=log_probs)
      Array([[2., 4.]], dtype=float32)

    Source:
      arXiv:2512.01374.
    """
    checks.static_number(minimum=0, clip_low=clip_low, clip_high=clip_high, cap=cap)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    change = jnp.expm1(jax.lax.stop_gradient(log_ratios))
    keep = keep_mask(log_ratios, advantages, (-clip_low <= change) & (change <= clip_high))
    to_sampler = token_log_ratios(log_probs, behaviour_log_probs, where=where)
    ratios = jnp.exp(jax.lax.stop_gradient(to_sampler))
    weights = jnp.where(keep, jnp.minimum(ratios, cap), 0)
    return weighted_log_probs(log_probs, weights, advantages, where=where)


@LOSSES.register(
    Card(
        formula="-A log pi where R > 0; elsewhere -sg(clip(w, 0, 1)) A log pi",
        source="TOPR, arXiv:2503.14286",
        level="sequence",
        gradient="policy_gradient",
        defaults="token ratios, as in ROLL",
        disagreements=(
            "The split is by the sign of the reward, not of the advantage. The paper's ratio is "
            "that of the whole sequence, ROLL's the token's, verl's open request the length-"
            "normalised one: `level` chooses."
        ),
        needs=("rewards",),
    )
)
def topr(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    rewards: Float[Array, "*B"],
    level: Literal["token", "sequence", "sequence_mean"] = "token",
) -> Float[Array, "*B T"]:
    """TOPR at each token: rewarded sequences are reinforced whole, the others with a tapered ratio.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      rewards: [*B]. The raw rewards, whose sign decides; one that is nan counts as not positive.
      level: The ratio of each "token", of the whole "sequence", or its "sequence_mean".

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit.

    Note:
      The gradient for `log_probs` is -A, or -clip(w, 0, 1) A where the reward is not positive.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> anchor, advantages = jnp.zeros((1, 2)), jnp.array([-1.0])
      >>> loss = jg.losses.topr(log_ratios, anchor, advantages, rewards=jnp.zeros(1))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-0.347', '0.693']

    Source:
      arXiv:2503.14286.
    """
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    checks.floating(rewards=rewards)
    checks.shape(log_probs.shape[:-1], rewards=rewards)
    tapered = jax.lax.stop_gradient(log_ratios)
    if level != "token":
        over_tokens = masked_sum if level == "sequence" else masked_mean
        tapered = spread_rows(over_tokens(tapered, where, -1), log_probs)
    positive = jnp.broadcast_to((rewards > 0)[..., None], log_probs.shape)
    weights = jnp.where(positive, 1, jnp.exp(jnp.minimum(tapered, 0)))
    return weighted_log_probs(log_probs, weights, advantages, where=where)


@LOSSES.register(
    Card(
        formula="-sg(phi(W)) A log pi; phi = exp(lambda + k log W - lambda W), W of the sequence",
        source="VESPO, arXiv:2602.10693",
        level="sequence",
        gradient="policy_gradient",
        defaults="k / lambda: 2 / 3 where A >= 0, 3 / 2 where A < 0 (TRL, the authors)",
        disagreements=(
            "The anchor should be the sampler: its correction is inside W, not a second factor. "
            "log W is a sum, so the weight of long sequences vanishes quickly."
        ),
    )
)
def vespo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    k_positive: float = 2.0,
    lambda_positive: float = 3.0,
    k_negative: float = 3.0,
    lambda_negative: float = 2.0,
) -> Float[Array, "*B T"]:
    """VESPO at each token: the sequence's ratio, reshaped into a weight that peaks near 1.

    The token log-ratios are clamped to -+20, their sum to [log 1e-8, 20].

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      k_positive: Exponent of the ratio where A >= 0.
      lambda_positive: Rate of decay in the ratio where A >= 0.
      k_negative: Exponent of the ratio where A < 0.
      lambda_negative: Rate of decay in the ratio where A < 0.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a parameter is negative.

    Note:
      The gradient for `log_probs` is -phi(W) A; phi(1) = 1.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.vespo(log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.693', '-0.693']

    Source:
      arXiv:2602.10693.
    """
    checks.static_number(
        minimum=0,
        k_positive=k_positive,
        lambda_positive=lambda_positive,
        k_negative=k_negative,
        lambda_negative=lambda_negative,
    )
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    clamped = jnp.clip(jax.lax.stop_gradient(log_ratios), -20, 20)
    total = jnp.clip(masked_sum(clamped, where, -1), math.log(1e-8), 20)
    change = spread_rows(jnp.expm1(total), log_probs)
    total = spread_rows(total, log_probs)
    k = jnp.where(advantages < 0, k_negative, k_positive).astype(log_probs.dtype)
    rate = jnp.where(advantages < 0, lambda_negative, lambda_positive).astype(log_probs.dtype)
    weights = jnp.exp(k * total - rate * change)
    return weighted_log_probs(log_probs, weights, advantages, where=where)
