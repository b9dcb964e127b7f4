"""FIPO: tokens weighted by where the sequence goes after them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs

_RUN = 64  # tokens summed by one product
_LARGEST = 1e30  # of a log-ratio; its exponential is 0 or inf anyway


@LOSSES.register(
    Card(
        formula="f_t times PPO's clip; f_t = clip(exp(sum_(k >= t) g^(k - t) log w_k), 1, 1.2)",
        source="FIPO, arXiv:2603.19835",
        level="sequence",
        gradient="policy_gradient",
        defaults="clips 0.2 / 0.28, g = 2^(-1/32), tokens with w > 10 out of the sum (ms-swift)",
        disagreements=(
            "Where A < 0 and w > 4 the influence is held in [0.8, 1]; ms-swift does so after the "
            "clip to [1, 1.2], which makes it 1."
        ),
    )
)
def fipo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = 10.0,
    half_life: float = 32.0,
    influence_low: float = 1.0,
    influence_high: float = 1.2,
    safety: float = 4.0,
) -> Float[Array, "*B T"]:
    """FIPO: DAPO's loss times the detached influence of each token on the tokens after it.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      clip_low: PPO's lower clip.
      clip_high: PPO's upper clip.
      dual_clip: Tokens of a larger ratio are left out of the sum, and clipped where A < 0; None
        for no limit.
      half_life: Positions after which a later token counts half.
      influence_low: Smallest influence.
      influence_high: Largest influence.
      safety: Where A < 0, tokens of a larger ratio have an influence in [0.8, 1].

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or the bounds are negative or out of order.

    Note:
      The gradient for `log_probs` is f times PPO's; f is 1 while every ratio is 1.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.fipo(log_ratios, jnp.zeros((1, 2)), jnp.array([-1.0]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.800', '2.400']

    Source:
      arXiv:2603.19835.
    """
    checks.static_number(above=0, half_life=half_life, safety=safety)
    checks.static_number(minimum=0, influence_low=influence_low)
    checks.static_number(minimum=influence_low, influence_high=influence_high)
    log_ratios, spread = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    losses = ppo_clip(
        log_probs,
        anchor_log_probs,
        spread,
        where=where,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )
    detached = jax.lax.stop_gradient(log_ratios)
    counted = detached
    if dual_clip is not None:
        counted = jnp.where(detached > math.log(dual_clip), 0, detached)
    future = jnp.exp(_discounted_tail(counted, 2.0 ** (-1 / half_life)))
    influence = jnp.clip(future, influence_low, influence_high)
    held = (spread < 0) & (detached > math.log(safety))
    influence = jnp.where(held, jnp.clip(future, 0.8, 1.0), influence)
    # Selected: a token without a loss must not meet an influence that is not a number.
    return jnp.where(spread != 0, jnp.where(spread != 0, influence, 1) * losses, losses)


def _discounted_tail(x: Array, discount: float) -> Array:
    """sum_(k >= t) discount^(k - t) x_k along the last axis, in float32 at least."""
    dtype = x.dtype
    x = x.astype(jnp.promote_types(dtype, jnp.float32))
    return _tails(x, discount).astype(dtype)


def _tails(x: Array, discount: float) -> Array:
    """Runs of 64 by one product with a matrix of powers, the runs' sums by the same."""
    length = x.shape[-1]
    runs = -(-length // _RUN)
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, runs * _RUN - length)])
    # The product multiplies tokens by 0 too, where an infinite one would be nan.
    padded = jnp.clip(padded, -_LARGEST, _LARGEST).reshape(*x.shape[:-1], runs, _RUN)
    ahead = np.arange(_RUN)[:, None] - np.arange(_RUN)[None]
    powers = np.where(ahead >= 0, discount ** np.maximum(ahead, 0), 0)
    within = jnp.matmul(padded, jnp.asarray(powers, x.dtype), precision=jax.lax.Precision.HIGHEST)
    if runs == 1:
        return within[..., 0, :length]
    starts = _tails(within[..., 0], discount**_RUN)
    # What begins with the next run; nothing after the last.
    after = jnp.concatenate([starts[..., 1:], jnp.zeros_like(starts[..., :1])], axis=-1)
    reach = jnp.asarray(discount ** (_RUN - np.arange(_RUN)), x.dtype)
    tails = within + after[..., None] * reach.reshape((1,) * x.ndim + (_RUN,))
    return tails.reshape(*x.shape[:-1], runs * _RUN)[..., :length]
