"""DPPO with the divergences of the sampler's likeliest tokens."""

import math
from collections.abc import Callable

import jax
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import topk_kl, topk_tv
from jaxgrpo.losses._dppo import region_weights
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs, weighted_log_probs

_ANCHOR = (
    "The anchor is to be the sampler itself, whose rows these are. The value is that of the "
    "released code, as for dppo_tv."
)


@LOSSES.register(
    Card(
        formula="-sg(min(w, cap) M) A log pi; M = 0 if top-K TV > delta and the move is outward",
        source="DPPO, arXiv:2602.04879, eq. 12 and 15",
        level="token",
        gradient="policy_gradient",
        defaults="delta 0.15, K = 20; cap as for dppo_tv",
        disagreements=_ANCHOR,
        needs=("top_log_probs", "behaviour_top_log_probs"),
    )
)
def dppo_topk_tv(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    top_log_probs: Float[Array, "*B T K"],
    behaviour_top_log_probs: Float[Array, "*B T K"],
    delta: float = 0.15,
    delta_low: float | None = None,
    cap: float = math.inf,
) -> Float[Array, "*B T"]:
    """DPPO with the total variation on the sampler's top K tokens, the sampled one and the rest.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      top_log_probs: [*B, T, K], nats. The policy at the sampler's K likeliest tokens; no gradient.
      behaviour_top_log_probs: [*B, T, K], nats. The sampler at the same tokens.
      delta: Bound where A > 0, a probability.
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
      >>> anchor, policy = jnp.log(jnp.array([[0.1, 0.1]])), jnp.log(jnp.array([[0.2, 0.2]]))
      >>> before = jnp.log(jnp.array([[[0.6], [0.6]]]))
      >>> after = jnp.log(jnp.array([[[0.6], [0.3]]]))
      >>> jax.grad(
      ...     lambda x: jg.losses.dppo_topk_tv(
      ...         x,
      ...         anchor,
      ...         jnp.array([1.0]),
      ...         top_log_probs=after,
      ...         behaviour_top_log_probs=before,
      ...     ).sum()
      ... )(policy)
      Array([[-2., -0.]], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 12 and 15.
    """
    tops = behaviour_top_log_probs, top_log_probs
    bounds = delta, delta_low, cap
    return _dppo(topk_tv, tops, log_probs, anchor_log_probs, advantages, where, bounds)


@LOSSES.register(
    Card(
        formula="-sg(min(w, cap) M) A log pi; M = 0 if top-K KL > delta and the move is outward",
        source="DPPO, arXiv:2602.04879, eq. 12 and 16",
        level="token",
        gradient="policy_gradient",
        defaults="delta 0.05, K = 20; cap as for dppo_tv",
        disagreements=_ANCHOR,
        needs=("top_log_probs", "behaviour_top_log_probs"),
    )
)
def dppo_topk_kl(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    top_log_probs: Float[Array, "*B T K"],
    behaviour_top_log_probs: Float[Array, "*B T K"],
    delta: float = 0.05,
    delta_low: float | None = None,
    cap: float = math.inf,
) -> Float[Array, "*B T"]:
    """DPPO with the KL on the sampler's top K tokens, the sampled one and the rest.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      top_log_probs: [*B, T, K], nats. The policy at the sampler's K likeliest tokens; no gradient.
      behaviour_top_log_probs: [*B, T, K], nats. The sampler at the same tokens.
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
      >>> anchor, policy = jnp.log(jnp.array([[0.1, 0.1]])), jnp.log(jnp.array([[0.15, 0.15]]))
      >>> before = jnp.log(jnp.array([[[0.6], [0.6]]]))
      >>> after = jnp.log(jnp.array([[[0.6], [0.3]]]))
      >>> jax.grad(
      ...     lambda x: jg.losses.dppo_topk_kl(
      ...         x,
      ...         anchor,
      ...         jnp.array([1.0]),
      ...         top_log_probs=after,
      ...         behaviour_top_log_probs=before,
      ...     ).sum()
      ... )(policy)
      Array([[-1.5, -0. ]], dtype=float32)

    Source:
      arXiv:2602.04879, eq. 12 and 16.
    """
    tops = behaviour_top_log_probs, top_log_probs
    bounds = delta, delta_low, cap
    return _dppo(topk_kl, tops, log_probs, anchor_log_probs, advantages, where, bounds)


def _dppo(
    divergence: Callable,
    tops: tuple[Array, Array],
    log_probs: Array,
    anchor_log_probs: Array,
    advantages: Array,
    where: Array | None,
    bounds: tuple[float, float | None, float],
) -> Array:
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    arrays = jax.lax.stop_gradient((*tops, anchor_log_probs, log_probs))
    distances = divergence(*arrays, where=where)
    weights = region_weights(log_ratios, advantages, distances, *bounds)
    return weighted_log_probs(log_probs, weights, advantages, where=where)
