"""Schulman's estimators of KL(P || Q) from the sampled token: k1, k2 and k3."""

from jaxtyping import Array, Bool, Float

from jaxgrpo.core.registry import Card
from jaxgrpo.divergences._numerics import exp_minus_1_minus, log_ratios
from jaxgrpo.divergences._registry import DIVERGENCES

_SCHULMAN = "Schulman 2020, joschu.net/blog/kl-approx.html"


@DIVERGENCES.register(
    Card(
        formula="-log w",
        source=_SCHULMAN,
        level="token",
        gradient="none",
        disagreements=(
            "As a loss, kl1(log_probs, reference) has expected gradient 0 and regularises nothing; "
            "two stacks ship it as their default penalty."
        ),
    )
)
def kl1(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Unbiased, unbounded estimate of KL(P || Q) at each token: log P/Q; it can be negative.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient is +1 for `sampler_log_probs` and -1 for `other_log_probs`. On tokens drawn from
      the policy, the mean gradient of kl1(log_probs, reference_log_probs) is exactly 0.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.kl1(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.693147], dtype=float32)

    Source:
      Schulman 2020, joschu.net/blog/kl-approx.html.
    """
    return -log_ratios(sampler_log_probs, other_log_probs, where)


@DIVERGENCES.register(
    Card(
        formula="(log w)^2 / 2",
        source=_SCHULMAN,
        level="token",
        gradient="reverse_kl",
        disagreements="Called mse in verl; some leave out the 1/2, which doubles the coefficient.",
    )
)
def kl2(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Biased, non-negative estimate of KL(P || Q) at each token: half the squared log-ratio.

    Symmetric in its arguments. The bias is of third order in the log-ratio.

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The gradient of kl2(log_probs, reference_log_probs) for `log_probs` is log policy/reference;
      on tokens drawn from the policy its mean is the gradient of KL(policy || reference).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.kl2(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.240226], dtype=float32)

    Source:
      Schulman 2020, joschu.net/blog/kl-approx.html.
    """
    log_ratio = log_ratios(sampler_log_probs, other_log_probs, where)
    return log_ratio * log_ratio / 2


@DIVERGENCES.register(
    Card(
        formula="w - 1 - log w",
        source=f"{_SCHULMAN}; arXiv:2402.03300, eq. 4; arXiv:2602.05494",
        level="token",
        gradient="forward_kl",
        disagreements=(
            "low_var_kl in verl. As a loss its expected gradient is that of KL(reference || "
            "policy), not of the KL it estimates. Clamps on it, common elsewhere, cut the gradient "
            "where the policy has drifted most; there is none here."
        ),
    )
)
def kl3(
    sampler_log_probs: Float[Array, "*B T"],
    other_log_probs: Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
) -> Float[Array, "*B T"]:
    r"""Low-variance estimate of KL(P || Q) at each token: unbiased and never negative.

    With :math:`w = Q(a) / P(a)` at a token drawn from P,

    .. math:: k_3 = w - 1 - \log w \ge 0, \qquad
              \mathbb{E}_{a \sim P}[k_3] = KL(P \| Q).

    Args:
      sampler_log_probs: [*B, T], nats. Each token under P, the policy that sampled it.
      other_log_probs: [*B, T], nats. The same tokens under Q.
      where: [*B, T] bool. Tokens to evaluate; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).

    Returns:
      [*B, T], nats, in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes differ. There is no broadcasting.

    Note:
      The value is unbiased for KL(P || Q), its gradient is not: on tokens drawn from the policy,
      the mean gradient of kl3(log_probs, reference_log_probs) is that of KL(reference || policy).
      `jaxgrpo.losses.reverse_kl` has this value and the gradient of KL(policy || reference).

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> jg.divergences.kl3(jnp.log(jnp.array([0.5])), jnp.log(jnp.array([0.25])))
      Array([0.193147], dtype=float32)

    Source:
      Schulman 2020, joschu.net/blog/kl-approx.html; arXiv:2402.03300, eq. 4.
    """
    return exp_minus_1_minus(log_ratios(sampler_log_probs, other_log_probs, where))
