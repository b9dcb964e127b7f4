"""Penalties towards a reference policy: a value to look at and a gradient, which are two things.

A penalty is added to the policy loss, times its coefficient. The expected gradients named here hold
for tokens drawn from the policy itself; off-policy, multiply by a detached ratio.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import kl1, kl2, kl3
from jaxgrpo.losses._registry import PENALTIES

_SCHULMAN = "Schulman 2020, joschu.net/blog/kl-approx.html"


@PENALTIES.register(
    Card(
        formula="value k3, gradient that of k2: log(policy / reference)",
        source=f"{_SCHULMAN}; the straight-through form is verl's kl_loss_type with a +",
        level="token",
        gradient="reverse_kl",
        disagreements="GRPO itself adds k3, whose gradient is that of KL(reference || policy).",
    )
)
def reverse_kl(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""KL(policy || reference) at each token: k3's value and the gradient of the KL itself.

    The value is non-negative and unbiased. The gradient comes straight through from k2:
    :math:`k = \log \pi_\theta - \log \pi_{ref}` for `log_probs`.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      reference_log_probs: [*B, T], nats. The same tokens under the reference; carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs; to be added to a loss.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The mean gradient over tokens drawn from the policy is that of KL(policy || reference). The
      gradient stays finite where the value overflows, for tokens the policy has abandoned.

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, reference = jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25]))
      >>> jg.losses.reverse_kl(log_probs, reference)
      Array([0.193147], dtype=float32)
      >>> jax.grad(lambda x: jg.losses.reverse_kl(x, reference).sum())(log_probs)
      Array([0.693147], dtype=float32)
    """
    reference_log_probs = jax.lax.stop_gradient(reference_log_probs)
    log_ratios = kl1(log_probs, reference_log_probs, where=where)
    # Of an infinite value no difference can be taken.
    through = jnp.square(jnp.where(jnp.isfinite(log_ratios), log_ratios, 0)) / 2
    value = kl3(jax.lax.stop_gradient(log_probs), reference_log_probs, where=where)
    return value + (through - jax.lax.stop_gradient(through))


@PENALTIES.register(
    Card(
        formula="log(policy / reference)",
        source=_SCHULMAN,
        level="token",
        gradient="none",
        defaults="the default penalty of Tunix and slime",
        disagreements="Its expected gradient is 0: as a loss it adds noise and no regularisation.",
    )
)
def k1(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """The log-ratio to the reference at each token; here for comparison, as it regularises nothing.

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
      The gradient is 1 at every token, and its mean over tokens drawn from the policy is 0.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.k1(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.693147], dtype=float32)
    """
    return kl1(log_probs, jax.lax.stop_gradient(reference_log_probs), where=where)


@PENALTIES.register(
    Card(
        formula="log(policy / reference)^2 / 2",
        source=_SCHULMAN,
        level="token",
        gradient="reverse_kl",
        disagreements="The value is biased; reverse_kl has the same gradient and k3's value.",
    )
)
def k2(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """Half the squared log-ratio to the reference at each token.

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
      >>> jg.losses.k2(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.240226], dtype=float32)
    """
    return kl2(log_probs, jax.lax.stop_gradient(reference_log_probs), where=where)


@PENALTIES.register(
    Card(
        formula="y - 1 - log y, y = reference / policy",
        source=f"{_SCHULMAN}; arXiv:2402.03300, eq. 4",
        level="token",
        gradient="forward_kl",
        defaults="GRPO's own; verl low_var_kl, TRL, NeMo-RL",
        disagreements="The value estimates KL(policy || reference); the gradient is the other's.",
    )
)
def k3(
    log_probs: Float[Array, "*B T"],
    reference_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    """GRPO's published penalty at each token; its gradient is not that of the KL it estimates.

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
      The gradient is 1 - reference/policy; its mean over tokens drawn from the policy is the
      gradient of KL(reference || policy). It overflows for tokens the policy has abandoned.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.losses.k3(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.193147], dtype=float32)

    Source:
      arXiv:2402.03300, eq. 4.
    """
    return kl3(log_probs, jax.lax.stop_gradient(reference_log_probs), where=where)
