"""ADRPO: a KL coefficient that depends on the advantage."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._penalties import k3
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs


@LOSSES.register(
    Card(
        formula="PPO's clip + max(beta - A, beta_min) k3(policy, reference)",
        source="ADRPO, arXiv:2510.18053 (the author's page)",
        exceptions={"A = 0": "its KL pulls without an advantage too"},
        level="token",
        gradient="policy_gradient",
        defaults="beta has none, as its published value is not known to us; beta_min 0, ours",
        disagreements=(
            "As published there is no floor (beta_min -inf): A > beta then rewards divergence, "
            "without bound. k3 is presumed. At w = 1 the gradient is -A only at the reference."
        ),
        needs=("reference_log_probs",),
    )
)
def adrpo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    reference_log_probs: Float[Array, "*B T"],
    beta: float,
    beta_min: float = 0.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Array, "*B T"]:
    """ADRPO at each token: good samples may leave the reference, bad ones are held to it.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      reference_log_probs: [*B, T], nats. The same tokens under the reference; no gradient.
      beta: Coefficient of the penalty at A = 0.
      beta_min: Smallest coefficient; -inf for the published form.
      clip_low: PPO's lower clip.
      clip_high: PPO's upper clip.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a clip is negative.

    Note:
      The gradient for `log_probs` is PPO's plus max(beta - A, beta_min) (1 - reference/policy).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> policy, reference = jnp.log(jnp.array([[0.5]])), jnp.log(jnp.array([[0.25]]))
      >>> jg.losses.adrpo(
      ...     policy, policy, jnp.array([-1.0]), reference_log_probs=reference, beta=1.0
      ... )
      Array([[1.386294]], dtype=float32)

    Source:
      arXiv:2510.18053.
    """
    checks.static_number(beta=beta, beta_min=beta_min)
    _, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    policy = ppo_clip(
        log_probs, anchor_log_probs, spread, where=where, clip_low=clip_low, clip_high=clip_high
    )
    coefficients = jnp.maximum(beta - spread, beta_min)
    # A k3 that overflows, on a token the policy has abandoned, must not meet a coefficient of 0.
    held = coefficients != 0 if where is None else where & (coefficients != 0)
    return policy + coefficients * k3(log_probs, reference_log_probs, where=held)
