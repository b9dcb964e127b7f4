"""The one-sided rule: only a move that leads further out is cut."""

from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import spread_over_tokens


def keep_mask(
    log_ratios: Float[Array, "*B T"],
    advantages: Float[Array, "*B T"] | Float[Array, "*B"],
    feasible: Bool[Array, "*B T"],
) -> Bool[Array, "*B T"]:
    r"""Tokens that keep their gradient: all but the infeasible ones that would move further out.

    .. math:: M_t = 0 \text{ if } \lnot C_t \text{ and }
              (A_t > 0, w_t > 1 \text{ or } A_t < 0, w_t < 1), \text{ else } 1.

    A token outside the region whose advantage pulls it back in is kept, and so is one at w = 1.
    With a ratio interval for the feasibility test this is the gradient of the min/clip form of
    PPO, without its ties.

    Args:
      log_ratios: [*B, T], nats. Policy over anchor.
      advantages: [*B] or [*B, T].
      feasible: [*B, T] bool. Whether the token is inside the trust region.

    Returns:
      [*B, T] bool.

    Raises:
      TypeError: `log_ratios` or `advantages` is not floating point, or `feasible` is not bool.
      ValueError: the shapes do not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.array([[0.5, 0.5, -0.5, -0.5]])
      >>> advantages = jnp.array([[1.0, -1.0, 1.0, -1.0]])
      >>> jg.clipping.keep_mask(log_ratios, advantages, jnp.zeros((1, 4), bool))
      Array([[False,  True,  True, False]], dtype=bool)

    Source:
      arXiv:2602.05494; arXiv:2602.04879, eq. 12.
    """
    checks.per_token(log_ratios=log_ratios)
    checks.boolean(feasible=feasible)
    checks.shape(tuple(log_ratios.shape), feasible=feasible)
    advantages = spread_over_tokens(advantages, log_ratios)
    rising = (advantages > 0) & (log_ratios > 0)
    falling = (advantages < 0) & (log_ratios < 0)
    return feasible | ~(rising | falling)
