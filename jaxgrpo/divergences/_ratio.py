"""f-divergences of the ratio w = Q/P at the sampled token: TV, chi-squared, Hellinger."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._numerics import log_ratios, magnitude
from jaxgrpo.divergences._registry import DIVERGENCES


@DIVERGENCES.register(
    Card(
        formula="|w - 1| / 2",
        source="arXiv:2602.04879; arXiv:2602.05494",
        level="token",
        gradient="none",
        disagreements="DPPO's binary TV is binary_tv; this one bounds the ratio, as PPO does.",
    )
)
def tv(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Unbiased estimate of the total variation TV(P, Q) at each token: |w - 1| / 2, w = Q/P.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in the dtype of the inputs; its mean over P lies in [0, 1].

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for `other_log_probs` is sign(w - 1) w / 2, and 0 at w = 1.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.tv(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.25], dtype=float32)

    Source:
      arXiv:2602.04879. A bound d on it is a ratio clip at 1 - 2d and 1 + 2d.
    """
    return magnitude(jnp.expm1(log_ratios(sampler_log_probs, other_log_probs, where))) / 2


@DIVERGENCES.register(
    Card(
        formula="(w - 1)^2",
        source="Pearson's chi-squared as an f-divergence; arXiv:2602.05494",
        level="token",
        gradient="none",
        disagreements="Some write the sum over (P - Q)^2 / Q instead; swap the arguments for that.",
    )
)
def chi2(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Unbiased estimate of the chi-squared divergence sum (Q - P)^2 / P at each token: (w - 1)^2.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in the dtype of the inputs; its mean over P is the variance of the ratio.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for `other_log_probs` is 2 w (w - 1).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.chi2(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.25], dtype=float32)

    Source:
      Pearson's chi-squared. A bound d on it is a ratio clip at 1 - sqrt(d) and 1 + sqrt(d).
    """
    excess = jnp.expm1(log_ratios(sampler_log_probs, other_log_probs, where))
    return excess * excess


@DIVERGENCES.register(
    Card(
        formula="(sqrt w - 1)^2",
        source="the squared Hellinger distance as an f-divergence; arXiv:2602.05494",
        level="token",
        gradient="none",
        disagreements="Without the factor 1/2 of some definitions, so its mean is at most 2.",
    )
)
def hellinger(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Unbiased estimate of sum (sqrt Q - sqrt P)^2 at each token: (sqrt w - 1)^2, w = Q/P.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], in the dtype of the inputs; its mean over P lies in [0, 2].

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient for `other_log_probs` is w - sqrt w.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.hellinger(jnp.log(jnp.array([0.64])), jnp.log(jnp.array([0.16])))
      Array([0.25], dtype=float32)

    Source:
      The squared Hellinger distance. A bound d on it is a ratio clip at (1 - sqrt d)^2 and
      (1 + sqrt d)^2.
    """
    excess = jnp.expm1(log_ratios(sampler_log_probs, other_log_probs, where) / 2)
    return excess * excess
