"""Penalties with the score-function term that a plain estimator leaves out, and the absolute value.

Off-policy, times a detached ratio to the sampler, the first two are the forms whose ratio is live:
r (k + 1) and r (k3 + 1 - exp(-k)), which DeepSeek-V3.2 calls the unbiased KL.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import kl1, kl3
from jaxgrpo.losses._registry import PENALTIES


@PENALTIES.register(
    Card(
        formula="log(policy / reference) exp(log pi - sg(log pi))",
        source="arXiv:2512.02556; NeMo-RL #2506",
        level="token",
        gradient="reverse_kl",
        disagreements="The constant 1 in its gradient has no expected effect, and adds variance.",
    )
)
def k1_score(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """The log-ratio to the reference at each token, with its score-function term.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      reference_log_probs: [*B, T], nats. The same tokens under the reference; carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0.

    Returns:
      [*B, T], nats, in the dtype of the inputs; to be added to a loss.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient is log(policy / reference) + 1; its mean over tokens drawn from the policy is the
      gradient of KL(policy || reference).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.k1_score(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.693147], dtype=float32)
    """
    values = kl1(log_probs, jax.lax.stop_gradient(reference_log_probs), where=where)
    return values * _score(log_probs, where)


@PENALTIES.register(
    Card(
        formula="k3 exp(log pi - sg(log pi)), k3 = y - 1 - log y, y = reference / policy",
        source="RPG, arXiv:2505.17508, section 2.2; DeepSeek-V3.2, arXiv:2512.02556",
        level="token",
        gradient="reverse_kl",
        defaults="TRL use_bias_correction_kl, with the ratio live",
        disagreements="The factor must be live: detached, the gradient stays that of the other KL.",
        exceptions={"w = 0": "overflows with k3; reverse_kl has the same gradient and doesn't"},
    )
)
def k3_score(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """GRPO's k3 at each token with its score-function term, which gives it the gradient of its KL.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      reference_log_probs: [*B, T], nats. The same tokens under the reference; carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0.

    Returns:
      [*B, T], nats, in the dtype of the inputs; to be added to a loss.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient is log(policy / reference); its mean over tokens drawn from the policy is the
      gradient of KL(policy || reference).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.k3_score(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.193147], dtype=float32)

    Source:
      arXiv:2505.17508, section 2.2.
    """
    values = kl3(log_probs, jax.lax.stop_gradient(reference_log_probs), where=where)
    return values * _score(log_probs, where)


@PENALTIES.register(
    Card(
        formula="|log(policy / reference)|",
        source="verl kl_loss_type abs",
        level="token",
        gradient="none",
        disagreements="Its expected gradient is that of neither KL.",
    )
)
def absolute(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """The absolute log-ratio to the reference at each token.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      reference_log_probs: [*B, T], nats. The same tokens under the reference; carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0.

    Returns:
      [*B, T], nats, in the dtype of the inputs; to be added to a loss.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient is the sign of the log-ratio, and 0 at the reference.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.absolute(jnp.log(jnp.array([0.25])), jnp.log(jnp.array([0.5])))
      Array([0.693147], dtype=float32)
    """
    values = kl1(log_probs, jax.lax.stop_gradient(reference_log_probs), where=where)
    return jnp.sign(jax.lax.stop_gradient(values)) * values


def _score(log_probs: Array, where: Array | None) -> Array:
    """1, with the gradient of log pi."""
    live = jnp.isfinite(log_probs) if where is None else where & jnp.isfinite(log_probs)
    return jnp.exp(jnp.where(live, log_probs - jax.lax.stop_gradient(log_probs), 0))
