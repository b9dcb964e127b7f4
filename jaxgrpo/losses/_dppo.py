"""DPPO: trust regions on the token's probability, with a capped, detached ratio."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.clipping import keep_mask
from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import binary_tv
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs, weighted_log_probs

_ANCHOR = (
    "The paper anchors region and ratio at the sampler's recorded log-probs and finds a recomputed "
    "anchor to collapse; verl's port passes the recomputed ones. Here whatever is passed as the "
    "anchor is it. The value is that of the released code, sg(min(w, cap) M) A log pi; the paper "
    "prints M w A, whose gradient is the same without a cap."
)


@LOSSES.register(
    Card(
        formula="-sg(min(w, cap) M) A log pi; M = 0 if |P - Q| > delta and the move is outward",
        source="DPPO, arXiv:2602.04879, eq. 12 and 13",
        level="token",
        gradient="policy_gradient",
        defaults="delta 0.15, 0.2 in the scaling runs; cap 5 there, 10 in code, 20 in verl, TRL",
        disagreements=_ANCHOR,
    )
)
def dppo_tv(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    delta: float = 0.15,
    delta_low: float | None = None,
    cap: float = math.inf,
) -> Float[Array, "*B T"]:
    """DPPO with binary total variation: cut outward moves once the probability has moved by delta.

    It is a ratio interval 1 -+ delta / anchor probability: wide for rare tokens, narrow for
    confident ones.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      delta: Bound on |P - Q| where A > 0, a probability.
      delta_low: The bound where A < 0, or None for the same.
      cap: Largest ratio in the gradient.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a bound is negative.

    Note:
      The gradient for `log_probs` is -min(w, cap) A on the kept tokens, 0 on the cut ones.

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> anchor, policy = jnp.log(jnp.array([[0.1, 0.5]])), jnp.log(jnp.array([[0.2, 0.7]]))
      >>> jax.grad(lambda x: jg.losses.dppo_tv(x, anchor, jnp.array([1.0])).sum())(policy)
      Array([[-2., -0.]], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 12 and 13.
    """
    return _dppo(binary_tv, log_probs, anchor_log_probs, advantages, where, delta, delta_low, cap)


@LOSSES.register(
    Card(
        formula="-sg(min(w, cap) M) A log pi; M = 0 if binary KL > delta and the move is outward",
        source="DPPO, arXiv:2602.04879, eq. 12 and 14",
        level="token",
        gradient="policy_gradient",
        defaults="delta 0.05, robust from 0.05 to 0.15; cap as for dppo_tv",
        disagreements=_ANCHOR,
    )
)
def dppo_kl(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    delta: float = 0.05,
    delta_low: float | None = None,
    cap: float = math.inf,
) -> Float[Array, "*B T"]:
    """DPPO with the binary KL of anchor to policy: cut outward moves once it is above delta.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      delta: Bound where A > 0, in nats.
      delta_low: The bound where A < 0, or None for the same.
      cap: Largest ratio in the gradient.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or a bound is negative.

    Note:
      The gradient for `log_probs` is -min(w, cap) A on the kept tokens, 0 on the cut ones.

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> anchor, policy = jnp.log(jnp.array([[0.1, 0.5]])), jnp.log(jnp.array([[0.2, 0.7]]))
      >>> jax.grad(lambda x: jg.losses.dppo_kl(x, anchor, jnp.array([1.0])).sum())(policy)
      Array([[-2., -0.]], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 12 and 14.
    """
    return _dppo(_binary_kl, log_probs, anchor_log_probs, advantages, where, delta, delta_low, cap)


def _binary_kl(anchor: Array, log_probs: Array, *, where: Array | None) -> Array:
    """`divergences.binary_kl` to the absolute precision of the dtype, at a third of its cost.

    That is all that a comparison with a bound needs.
    """
    anchor, log_probs = zero_where_masked(anchor, where), zero_where_masked(log_probs, where)
    least = jnp.finfo(anchor.dtype).eps
    rests = [jnp.maximum(-jnp.expm1(x), least) for x in (anchor, log_probs)]
    moved = jnp.exp(anchor) * (anchor - log_probs)
    return moved + rests[0] * jnp.log(rests[0] / rests[1])


def _dppo(
    divergence: Callable,
    log_probs: Array,
    anchor_log_probs: Array,
    advantages: Array,
    where: Array | None,
    delta: float,
    delta_low: float | None,
    cap: float,
) -> Array:
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    distances = divergence(
        jax.lax.stop_gradient(anchor_log_probs), jax.lax.stop_gradient(log_probs), where=where
    )
    weights = region_weights(log_ratios, advantages, distances, delta, delta_low, cap)
    return weighted_log_probs(log_probs, weights, advantages, where=where)


def region_weights(
    log_ratios: Float[Array, "*B T"],
    advantages: Float[Array, "*B T"],
    distances: Float[Array, "*B T"],
    delta: float,
    delta_low: float | None,
    cap: float,
) -> Float[Array, "*B T"]:
    """min(w, cap) inside the region or on inward moves, 0 elsewhere."""
    delta_low = delta if delta_low is None else delta_low
    checks.static_number(minimum=0, delta=delta, delta_low=delta_low, cap=cap)
    feasible = distances <= jnp.where(advantages < 0, delta_low, delta)
    keep = keep_mask(log_ratios, advantages, feasible)
    return jnp.where(keep, jnp.minimum(jnp.exp(jax.lax.stop_gradient(log_ratios)), cap), 0)
