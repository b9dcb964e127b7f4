"""A trust region whose size is given for a whole sequence and shared out over its tokens."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.clipping import keep_mask, token_budgets
from jaxgrpo.core import checks
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import kl3
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import masked_surrogate, surrogate_inputs


@LOSSES.register(
    Card(
        formula="-w A while w - 1 - log w <= total H_t / sum H or the move leads inward; constant",
        source="inferred from arXiv:2102.10616 and arXiv:2202.00082, with arXiv:2602.05494's mask",
        level="sequence",
        gradient="policy_gradient",
        defaults="total 0.5 nats, by entropy; ours",
        disagreements=(
            "The sources share out among agents; tokens for agents is our reading. By tokens the "
            "region shrinks with the length: of thousands it is vacuously tight."
        ),
        needs=("entropies",),
    )
)
def sequence_budget(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    entropies: Float[Array, "*B T"],
    total: float = 0.5,
    by: Literal["entropy", "tokens"] = "entropy",
) -> Float[Array, "*B T"]:
    r"""ATR-GRPO with a bound of its own at each token, which add up to one for the sequence.

    By the chain rule the KL of a sequence is the expected sum of its tokens' KLs; a token whose
    policy is certain gets next to nothing of it.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the policy the region is centred on.
        Carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      entropies: [*B, T], nats. Of the policy at each token. Carries no gradient.
      total: The budget of each sequence, in nats.
      by: "entropy": tokens share in proportion to it; "tokens": evenly.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or `total` is negative.

    Note:
      The gradient for `log_probs` is -w A on the kept tokens, exactly -A at w = 1, and 0 on the cut
      ones, whose value is -A.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[1.3, 1.3]]))  # as log-probs, with an anchor of 0
      >>> loss = jg.losses.sequence_budget(
      ...     log_ratios, jnp.zeros((1, 2)), jnp.array([1.0]), entropies=jnp.array([[2.0, 0.1]]),
      ...     total=0.05,
      ... )
      >>> [f"{x:.3f}" for x in loss[0]]
      ['-1.300', '-1.000']

    Source:
      Inferred from arXiv:2102.10616; the mask is arXiv:2602.05494's.
    """
    log_ratios, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    checks.per_token(log_probs=log_probs, entropies=entropies)
    counted = jnp.ones(log_ratios.shape, bool) if where is None else where
    budgets = token_budgets(total, where=counted, entropies=entropies if by == "entropy" else None)
    distance = kl3(jnp.zeros_like(log_ratios), jax.lax.stop_gradient(log_ratios))
    return masked_surrogate(
        log_ratios,
        advantages,
        keep=keep_mask(log_ratios, advantages, distance <= budgets.astype(distance.dtype)),
        dropped_ratios=1.0,
        where=where,
    )
