"""Tokens left out because their prefix, the state they were chosen in, has become unlikely."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.core.running import running_sum
from jaxgrpo.ratios._log_ratios import token_log_ratios
from jaxgrpo.ratios._registry import WEIGHTS


@WEIGHTS.register(
    Card(
        formula="1 while the sum of the k1, k2 or k3 of rho over the tokens so far <= budget",
        source="inferred from arXiv:2602.04879, lemma A.1; CPPO, arXiv:2606.10968, has one like it",
        level="sequence",
        gradient="none",
        defaults="k3, budget 1 nat; ours",
        disagreements=(
            "k1 is the |sum of log rho|, which may come back into the budget. CPPO weighs "
            "positions and drops a token only where the policy would move further out."
        ),
    )
)
def prefix_mask(
    log_probs: Float[Array, "*B T"],
    behaviour_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    estimator: Literal["k1", "k2", "k3"] = "k3",
    budget: float = 1.0,
) -> Float[Array, "*B T"]:
    """0 at tokens whose sequence has, up to them, used up a budget of divergence from its sampler.

    The chance that the policy would have come to a token's prefix is not corrected for by token
    ratios; where the two have parted, its gradient estimates little.

    Args:
      log_probs: [*B, T], nats. The tokens as the trainer scores them.
      behaviour_log_probs: [*B, T], nats. The same tokens as the sampler recorded them.
      where: [*B, T] bool. Tokens to judge; elsewhere the weight is 0.
      estimator: "k1" log rho, "k2" (log rho)^2 / 2, "k3" rho - 1 - log rho.
      budget: Largest sum that is kept, in nats; a token's own divergence is in its sum.

    Returns:
      [*B, T], in the dtype of the inputs: 1 or 0. Carries no gradient.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ, or `budget` is negative.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> policy, sampler = jnp.array([-1.0, -3.0, -1.0]), jnp.array([-1.0, -1.0, -1.0])
      >>> jg.ratios.prefix_mask(policy, sampler)
      Array([1., 0., 0.], dtype=float32)

    Source:
      Inferred from arXiv:2602.04879, lemma A.1.
    """
    checks.static_number(minimum=0, budget=budget)
    log_ratios = jax.lax.stop_gradient(
        token_log_ratios(log_probs, behaviour_log_probs, where=where)
    )
    if estimator == "k1":
        values = log_ratios
    elif estimator == "k2":
        values = log_ratios * log_ratios / 2
    else:
        values = jnp.expm1(log_ratios) - log_ratios
    used = jnp.abs(running_sum(values))
    return zero_where_masked((used <= budget).astype(log_ratios.dtype), where)
