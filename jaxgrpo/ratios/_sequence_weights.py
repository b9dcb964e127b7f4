"""Detached weights of whole sequences: truncated, masked (MIS), and the geometric rejection."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.ratios._log_ratios import sequence_mean_log_ratios, sequence_sum_log_ratios
from jaxgrpo.ratios._registry import WEIGHTS


@WEIGHTS.register(
    Card(
        formula="min(max(rho, floor), cap), rho = exp(sum_t log(trainer / behaviour))",
        source="verl rollout_is = sequence; TRL sequence_truncate",
        level="sequence",
        gradient="none",
        defaults="cap 2 in verl, 3 in TRL, 5 in SkyRL",
        disagreements="The ratio of a long sequence is at the cap or near 0 (NeMo-RL #2269).",
    )
)
def sequence_truncated_weights(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    cap: float = 2.0,
    floor: float = 0.0,
) -> Float[Array, "*B T"]:
    """The ratio of each whole sequence, held in [floor, cap], at each of its tokens.

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them at the sampler's weights.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens of the sequence; elsewhere the weight is 0.
      cap: Largest weight.
      floor: Smallest weight.

    Returns:
      [*B, T], in the dtype of the inputs. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, `floor` is negative, or `cap` is not above `floor`.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.sequence_truncated_weights(jnp.array([-1.0, -2.0]), jnp.array([-1.5, -1.5]))
      Array([1., 1.], dtype=float32)
    """
    checks.static_number(minimum=0, floor=floor)
    checks.static_number(above=floor, cap=cap)
    total = sequence_sum_log_ratios(log_probs, behaviour_log_probs, where=where)
    weights = jnp.clip(jnp.exp(jax.lax.stop_gradient(total)), floor, cap)
    return _at_tokens(weights, log_probs, where)


@WEIGHTS.register(
    Card(
        formula="rho if low <= rho <= high else 0, rho = exp(sum_t log(trainer / behaviour))",
        source="MIS: TRL sequence_mask, its default mode; slime",
        level="sequence",
        gradient="none",
        defaults="no lower bound, 3 above (TRL)",
        disagreements="The weight is 0 but the tokens count in the denominator: counted_tokens.",
    )
)
def sequence_masked_weights(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    low: float = 0.0,
    high: float = 3.0,
) -> Float[Array, "*B T"]:
    """The ratio of each whole sequence at each of its tokens, 0 where it is outside a band (MIS).

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them at the sampler's weights.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens of the sequence; elsewhere the weight is 0.
      low: Smallest ratio that is kept.
      high: Largest ratio that is kept.

    Returns:
      [*B, T], in the dtype of the inputs. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, `low` is negative, or `high` is not above `low`.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.sequence_masked_weights(jnp.array([-1.0, -2.0]), jnp.array([-2.0, -3.0]))
      Array([0., 0.], dtype=float32)
    """
    checks.static_number(minimum=0, low=low)
    checks.static_number(above=low, high=high)
    total = sequence_sum_log_ratios(log_probs, behaviour_log_probs, where=where)
    ratios = jnp.exp(jax.lax.stop_gradient(total))
    kept = (low <= ratios) & (ratios <= high) & jnp.isfinite(ratios)
    return _at_tokens(jnp.where(kept, ratios, 0), log_probs, where)


@WEIGHTS.register(
    Card(
        formula="1 if low <= exp(mean_t log(trainer / behaviour)) <= high else 0",
        source="verl geometric rejection; NeMo-RL seq-mask-tis",
        level="sequence",
        gradient="none",
        defaults="0.999 / 1.002 (NeMo-RL); 0.999 / 1.001 in verl, 0.99 / 1.01 in SkyRL",
        disagreements="Not a weight but a rejection: kept tokens weigh 1.",
    )
)
def geometric_mask(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    low: float = 0.999,
    high: float = 1.002,
) -> Float[Array, "*B T"]:
    """1 at the tokens of sequences whose geometric mean ratio is inside a band, 0 at the others.

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them at the sampler's weights.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens of the sequence; elsewhere the weight is 0.
      low: Smallest mean ratio that is kept.
      high: Largest mean ratio that is kept.

    Returns:
      [*B, T], in the dtype of the inputs. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, `low` is negative, or `high` is not above `low`.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.ratios.geometric_mask(jnp.array([-1.0, -2.0]), jnp.array([-1.5, -1.5]))
      Array([1., 1.], dtype=float32)
    """
    checks.static_number(minimum=0, low=low)
    checks.static_number(above=low, high=high)
    # In the dtype of the mean: the band is below the resolution of bfloat16.
    mean = sequence_mean_log_ratios(log_probs, behaviour_log_probs, where=where)
    change = jnp.expm1(jax.lax.stop_gradient(mean))
    kept = (low - 1 <= change) & (change <= high - 1)
    return _at_tokens(kept.astype(change.dtype), log_probs, where)


def _at_tokens(rows: Array, like: Array, where: Array | None) -> Array:
    spread = jnp.broadcast_to(rows[..., None].astype(like.dtype), like.shape)
    return zero_where_masked(spread, where)
