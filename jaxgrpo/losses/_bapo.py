"""BAPO: PPO's clip with bounds that are searched in every step."""

import math
from collections.abc import Callable
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
    lows, highs = _steps(low, low_max, low_step), _steps(high, high_max, high_step)
    lows, highs = jnp.asarray(lows, ratios.dtype), jnp.asarray(highs, ratios.dtype)

    def positive(bound: Array) -> Array:
        return masked_sum(jnp.minimum(ratios, bound) * jnp.maximum(advantages, 0), where)

    def needed(bound: Array) -> Array:
        lost = jnp.maximum(ratios, bound) * jnp.maximum(-advantages, 0)
        return target * masked_sum(lost, where)

    # A higher upper bound only adds to the positive part, a higher lower bound only to the
    # negative one. So while the lower bound moves, nothing is reached that wasn't at its start.
    if first == "low":
        at_once = positive(highs[0]) >= needed(lows[0])
        bottom = jnp.where(at_once, lows[0], lows[-1])
        top = jnp.where(
            at_once, highs[0], highs[_first_to_reach(positive, highs, needed(lows[-1]))]
        )
    else:
        top = highs[_first_to_reach(positive, highs, needed(lows[0]))]
        bottom = jnp.where(positive(top) >= needed(lows[0]), lows[0], lows[-1])
    keep = ~((advantages > 0) & (ratios > top) | (advantages < 0) & (ratios < bottom))
    ends = jnp.where(advantages > 0, top, bottom)
    if dual_clip is not None:
        dual = (advantages < 0) & (ratios > dual_clip)
        keep, ends = keep & ~dual, jnp.where(dual, dual_clip, ends)
    return masked_surrogate(log_ratios, advantages, keep=keep, dropped_ratios=ends, where=where)


def _steps(start: float, end: float, step: float) -> np.ndarray:
    """Start, start + step, ..., and the end itself."""
    count = int(np.ceil((end - start) / step - 1e-9))
    return np.minimum(start + step * np.arange(count + 1), end)


def _first_to_reach(sums: Callable[[Array], Array], bounds: Array, wanted: Array) -> Array:
    """Index of the first bound whose sum is at least what is wanted, or the last, by halving.

    The sums never fall as bounds rise, in floating point neither: rounding keeps order.
    """

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        first, last = ends
        middle = (first + last) // 2
        enough = sums(bounds[middle]) >= wanted
        return jnp.where(enough, first, middle + 1), jnp.where(enough, middle, last)

    ends = jnp.int32(0), jnp.int32(len(bounds) - 1)
    # A step too many moves the first end past the last.
    first, last = jax.lax.fori_loop(0, math.ceil(math.log2(max(len(bounds), 2))), halve, ends)
    return jnp.minimum(first, last)
