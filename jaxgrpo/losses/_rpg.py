"""RPG: the exact gradient of a KL-regularised objective, in eight losses and two clip forms."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.divergences import kl3
from jaxgrpo.losses._ppo import ppo_clip
from jaxgrpo.losses._registry import LOSSES
from jaxgrpo.losses._surrogate import surrogate_inputs


@LOSSES.register(
    Card(
        formula="-sg(v) log pi, or a loss with that gradient; v = w A + beta (KL's part by kind)",
        source="RPG, arXiv:2505.17508, tables 1, 2 and 4; algorithms 1 and 2",
        exceptions={"A = 0": "its KL pulls without an advantage too"},
        level="token",
        gradient="policy_gradient",
        defaults="beta 1e-4, clips 0.2 / 0.28, dual clip 10 (scripts); A is a centred reward",
        disagreements=(
            "The reference of the KL is the anchor. At w = 1 the gradient of fkl is -(A + beta), "
            "that of rkl -(A - beta): constants without expected effect. The clipped "
            "differentiable form detaches the regularised advantage, without which it has another "
            "gradient than the paper states, and its fkl and ufkl clip the plain advantage, as "
            "printed. The released code branches on the sign of A, not of the regularised "
            "advantage, and its actor never calls the loss. Clipped tokens have the value 0 here."
        ),
    )
)
def rpg(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    kind: Literal["fkl", "rkl", "ufkl", "urkl"] = "urkl",
    estimator: Literal["reinforce", "differentiable"] = "reinforce",
    beta: float = 1e-4,
    clipped: bool = False,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float = 10.0,
) -> Float[Array, "*B T"]:
    r"""RPG at each token: reward minus beta times a KL to the anchor, importance-weighted exactly.

    With w = policy/anchor, the weight v of grad log pi is

    .. math:: fkl: wA + \beta; \quad rkl: w(A - \beta(\log w + 1)); \quad
              ufkl: wA - \beta(w - 1); \quad urkl: w(A - \beta \log w).

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      kind: KL(anchor || policy) "fkl", KL(policy || anchor) "rkl", or their unnormalised forms.
      estimator: "reinforce": -sg(v) log pi; "differentiable": a loss whose derivative is -v.
      beta: Coefficient of the KL.
      clipped: Algorithm 2 for "reinforce", algorithm 1 (PPO's form) for "differentiable".
      clip_low: Clipped below the ratio 1 - clip_low.
      clip_high: Clipped above the ratio 1 + clip_high.
      dual_clip: And above this ratio where the regularised advantage is negative.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, a number is negative, or `dual_clip` is too small.

    Note:
      The gradient for `log_probs` is -v; clipped, 0 on the cut tokens. The KL's part stays where
      A = 0. Algorithm 2 cuts at its bounds, algorithm 1 beyond them.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> log_ratios = jnp.log(jnp.array([[0.5, 2.0]]))  # as log-probs, with an anchor of 0
      >>> anchor, advantages = jnp.zeros((1, 2)), jnp.array([1.0])
      >>> loss = jg.losses.rpg(log_ratios, anchor, advantages, kind="urkl", beta=0.1)
      >>> [f"{x:.3f}" for x in loss[0]]
      ['0.371', '-1.290']

    Source:
      arXiv:2505.17508, tables 1, 2 and 4; algorithms 1 and 2.
    """
    checks.static_number(minimum=0, beta=beta, clip_low=clip_low, clip_high=clip_high)
    checks.static_number(above=1 + clip_high, dual_clip=dual_clip)
    live, advantages = surrogate_inputs(log_probs, anchor_log_probs, advantages, where)
    # w log w is 0 at w = 0, where the logarithm is -inf.
    live = jnp.where(jnp.isneginf(live), jnp.finfo(live.dtype).min, live)
    log_ratios = jax.lax.stop_gradient(live)
    if estimator == "differentiable" and clipped:
        regularised = advantages
        if kind == "rkl":
            regularised = advantages - beta * (log_ratios + 1)
        elif kind == "urkl":
            regularised = advantages - beta * log_ratios
        return ppo_clip(
            log_probs,
            anchor_log_probs,
            regularised,
            where=where,
            clip_low=clip_low,
            clip_high=clip_high,
            dual_clip=dual_clip,
        )
    log_probs = zero_where_masked(log_probs, where)
    if estimator == "differentiable":
        return zero_where_masked(_differentiable(kind, beta, log_probs, live, advantages), where)
    ratios = jnp.exp(log_ratios)
    weights = _weights(kind, beta, ratios, log_ratios, advantages)
    if clipped:
        # The sign of the regularised advantage is that of the weight, which is w > 0 times it.
        inside = (ratios > 1 - clip_low) & (ratios < dual_clip)
        weights = jnp.where(jnp.where(weights >= 0, ratios < 1 + clip_high, inside), weights, 0)
    weights = jax.lax.stop_gradient(weights)
    log_probs = jnp.where(weights != 0, log_probs, 0)
    return zero_where_masked(-weights * log_probs, where)


def _weights(kind: str, beta: float, ratios: Array, log_ratios: Array, advantages: Array) -> Array:
    """What multiplies grad log pi: the last column of the paper's tables."""
    if kind == "fkl":
        return ratios * advantages + beta
    if kind == "rkl":
        return ratios * (advantages - beta * (log_ratios + 1))
    if kind == "ufkl":
        return ratios * advantages - beta * jnp.expm1(log_ratios)
    return ratios * (advantages - beta * log_ratios)


def _differentiable(
    kind: str, beta: float, log_probs: Array, log_ratios: Array, advantages: Array
) -> Array:
    """The fully differentiable losses, whose derivative is minus the weight."""
    ratios = jnp.exp(log_ratios)
    if kind == "fkl":
        return -ratios * advantages - beta * log_probs
    if kind == "rkl":
        return ratios * (beta * log_ratios - advantages)
    if kind == "ufkl":
        return beta * kl3(jnp.zeros_like(log_ratios), log_ratios) - ratios * advantages
    return ratios * (beta * (log_ratios - 1) - advantages)
