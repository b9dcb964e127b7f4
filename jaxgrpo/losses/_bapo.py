"""BAPO: PPO's clip with bounds that are searched in every step."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import masked_sum
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import masked_surrogate, surrogate_inputs


@LOSSES.register(
    Card(
        formula="PPO with the first bounds for which positive / negative contribution >= target",
        source="BAPO, arXiv:2510.18927; search and defaults of the released code",
        level="batch",
        gradient="policy_gradient",
        defaults="low 0.6 to 0.8 by 0.05, then high 1.2 to 2.0 by 0.05; target 1; dual clip 3",
        disagreements=(
            "The released code widens low first, against a quotient of 1; the paper high first, in "
            "[1.2, 3.0] before low in [0.6, 0.9], against a share of one half, which is the same "
            "number. Bounds found on a shard are another objective."
        ),
    )
)
def bapo(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    low: float = 0.6,
    low_max: float = 0.8,
    low_step: float = 0.05,
    high: float = 1.2,
    high_max: float = 2.0,
    high_step: float = 0.05,
    target: float = 1.0,
    first: Literal["low", "high"] = "low",
    dual_clip: float | None = 3.0,
) -> Float[Array, "*B T"]:
    """BAPO: raise the clip's bounds until positive tokens contribute as much as negative ones.

    The contributions are the sums of min(w, high) A over A > 0 and of max(w, low) |A| over A < 0,
    over all rows of the optimiser step.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      low: Lower bound of the ratio where the search starts.
      low_max: Where it ends.
      low_step: Its step.
      high: Upper bound of the ratio where the search starts.
      high_max: Where it ends.
      high_step: Its step.
      target: Least quotient of the positive to the negative contribution.
      first: The bound that is moved first.
      dual_clip: Where A < 0 the ratio is kept up to this, or without limit for None.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or the bounds are out of order.

    Note:
      The gradient for `log_probs` is PPO's at the bounds found: -w A inside, 0 on clipped tokens.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.bapo(log_ratios, jnp.zeros((1, 2)), jnp.array([[-1.0, 1.0]]))
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.600', '-1.200']

    Source:
      arXiv:2510.18927.
    """
    checks.static_number(minimum=0, low=low, target=target)
    checks.static_number(minimum=low, low_max=low_max)
    checks.static_number(minimum=1, high=high)
    checks.static_number(minimum=high, high_max=high_max)
    checks.static_number(above=0, low_step=low_step, high_step=high_step)
    if dual_clip is not None:
        checks.static_number(above=1, dual_clip=dual_clip)
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    detached = jnp.where(advantages != 0, jax.lax.stop_gradient(log_ratios), 0)
    ratios = jnp.exp(jnp.clip(detached, -20, 20))
    raised, lowered = jnp.maximum(advantages, 0), jnp.maximum(-advantages, 0)
    lows, highs = _steps(low, low_max, low_step), _steps(high, high_max, high_step)
    dtype = jnp.promote_types(ratios.dtype, jnp.float32)
    positive = jax.lax.map(
        lambda bound: masked_sum(jnp.minimum(ratios, bound) * raised, where),
        jnp.asarray(highs, ratios.dtype),
    )
    negative = jax.lax.map(
        lambda bound: masked_sum(jnp.maximum(ratios, bound) * lowered, where),
        jnp.asarray(lows, ratios.dtype),
    )
    at_low, at_high = _path(len(lows), len(highs), first)
    reached = positive[at_high] >= jnp.asarray(target, dtype) * negative[at_low]
    step = jnp.where(jnp.any(reached), jnp.argmax(reached), len(at_low) - 1)
    bottom = jnp.asarray(lows, ratios.dtype)[jnp.asarray(at_low)[step]]
    top = jnp.asarray(highs, ratios.dtype)[jnp.asarray(at_high)[step]]
    exact = jnp.exp(jax.lax.stop_gradient(log_ratios))
    keep = ~((advantages > 0) & (exact > top) | (advantages < 0) & (exact < bottom))
    ends = jnp.where(advantages > 0, top, bottom)
    if dual_clip is not None:
        dual = (advantages < 0) & (exact > dual_clip)
        keep, ends = keep & ~dual, jnp.where(dual, dual_clip, ends)
    return masked_surrogate(log_ratios, advantages, keep=keep, dropped_ratios=ends, where=where)


def _steps(start: float, end: float, step: float) -> np.ndarray:
    """Start, start + step, ..., and the end itself."""
    count = int(np.ceil((end - start) / step - 1e-9))
    return np.minimum(start + step * np.arange(count + 1), end)


def _path(lows: int, highs: int, first: str) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the bounds in the order of the search: one bound to its end, then the other."""
    at_low = [*range(lows), *[lows - 1] * (highs - 1)]
    at_high = [*[0] * lows, *range(1, highs)]
    if first == "high":
        at_low = [*[0] * highs, *range(1, lows)]
        at_high = [*range(highs), *[highs - 1] * (lows - 1)]
    return np.array(at_low), np.array(at_high)
