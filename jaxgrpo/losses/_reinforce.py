"""The plain policy gradient, with detached weights or without."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs, weighted_log_probs


@LOSSES.register(
    Card(
        formula="-sg(v) A log pi; v = 1, or min(w, cap) where low <= w <= high and 0 elsewhere",
        source="Williams 1992, doi:10.1007/BF00992696",
        level="token",
        gradient="policy_gradient",
        defaults="v = 1; weight = ratio in verl bypass reinforce, SkyRL, ROLL tis, tinker",
        disagreements=(
            "With v = 1 it is biased off-policy. Tinker's -w A has the derivative of weight = "
            "ratio and another value."
        ),
    )
)
def reinforce(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    weight: Literal["one", "ratio"] = "one",
    cap: float = math.inf,
    low: float = 0.0,
    high: float = math.inf,
) -> Float[Array, "*B T"]:
    """REINFORCE at each token: minus the advantage times the log-probability, weighted or not.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      weight: "one", or "ratio": the detached ratio policy/anchor, bounded by what follows.
      cap: Largest weight; a larger ratio weighs this much.
      low: Tokens whose ratio is below weigh 0.
      high: Tokens whose ratio is above weigh 0.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a bound is negative.

    Note:
      The gradient for `log_probs` is -v A.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.reinforce(jnp.array([[-1.0, -3.0]]), jnp.zeros((1, 2)), jnp.array([2.0]))
      Array([[2., 6.]], dtype=float32)

    Source:
      Williams 1992, doi:10.1007/BF00992696.
    """
    checks.static_number(minimum=0, cap=cap, low=low, high=high)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    weights = jnp.ones_like(log_ratios)
    if weight == "ratio":
        ratios = jnp.exp(jax.lax.stop_gradient(log_ratios))
        weights = jnp.where((low <= ratios) & (ratios <= high), jnp.minimum(ratios, cap), 0)
    return weighted_log_probs(log_probs, weights, advantages, where=where)


@LOSSES.register(
    Card(
        formula="-A log pi",
        source="GPG, arXiv:2504.02546",
        level="token",
        gradient="policy_gradient",
        defaults="with the advantage of the same name, which carries its scale alpha",
        disagreements="As a loss it is reinforce; what is GPG's own is in the advantage.",
    )
)
def gpg(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """GPG at each token: the policy gradient without ratio, clip, reference or critic.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit.

    Note:
      The gradient for `log_probs` is -A.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.gpg(jnp.array([[-1.0, -3.0]]), jnp.zeros((1, 2)), jnp.array([2.0]))
      Array([[2., 6.]], dtype=float32)

    Source:
      arXiv:2504.02546.
    """
    return reinforce(log_probs, anchor_log_probs, advantages, where=where)
