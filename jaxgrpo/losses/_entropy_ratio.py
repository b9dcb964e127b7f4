"""ERC: any loss, without the tokens whose entropy has moved."""

import inspect
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core import checks
from jaxgrpo.core.masking import zero_where_masked
from jaxgrpo.core.registry import Card
from jaxgrpo.losses._registry import LOSSES

_EPS = 1e-8  # as in the released code: two entropies of 0 have the ratio 1


@LOSSES.register(
    Card(
        formula="base loss, detached unless low < H(policy) / H(anchor) < high",
        source="ERC, arXiv:2512.05591; eps and order of the released code",
        level="token",
        gradient="policy_gradient",
        defaults="0.95 / 1.05 (the recipes; the code's config says 0.8 / 1.2, which none uses)",
        disagreements=(
            "Dropped tokens keep their value and stay in the denominator, as in the code. The "
            "anchor's entropies are the trainer's, not the sampler's."
        ),
        needs=("entropies", "anchor_entropies"),
    )
)
def erc(
    log_probs: Float[Array, "*B T"],
    anchor_log_probs: Float[Array, "*B T"],
    advantages: Float[Array, "*B"] | Float[Array, "*B T"],
    *,
    where: Bool[Array, "*B T"] | None = None,
    entropies: Float[Array, "*B T"],
    anchor_entropies: Float[Array, "*B T"],
    base: str | Callable = "ppo_clip",
    base_options: dict | None = None,
    low: float = 0.95,
    high: float = 1.05,
    **arrays: Array,
) -> Float[Array, "*B T"]:
    """Entropy-ratio clipping of any loss: tokens whose entropy moved too far have no gradient.

    Args:
      log_probs: [*B, T], nats. The sampled tokens under the policy being trained.
      anchor_log_probs: [*B, T], nats. The same tokens under the anchor; carries no gradient.
      advantages: [*B] or [*B, T], in the dtype of `log_probs`. Carries no gradient.
      where: [*B, T] bool. Trainable tokens; elsewhere value and gradient are 0,
        whatever the inputs hold there (inf and nan included).
      entropies: [*B, T], nats. Of the policy's whole distribution at each token; no gradient.
      anchor_entropies: [*B, T], nats. Of the anchor's, from the trainer.
      base: The loss that is clipped: a name, `module:function`, or a function.
      base_options: Its options.
      low: A token is kept above this ratio of entropies.
      high: And below this.
      **arrays: What the base needs from the batch.

    Returns:
      [*B, T], to be minimised; in the dtype of the inputs. Not reduced: see `jaxgrpo.aggregation`.

    Raises:
      TypeError: an input is not floating point, dtypes differ, or `where` is not bool.
      ValueError: the shapes do not fit, or the bounds are negative or out of order.
      LookupError: no loss has the name of `base`.

    Note:
      The gradient for `log_probs` is the base's on kept tokens and 0 on the others, for either sign
      of the advantage. At the bounds a token is dropped.

    Example:
      >>> import jax, jax.numpy as jnp, jaxgrpo as jg
      >>> log_probs, before = jnp.zeros((1, 2)), jnp.array([[1.0, 1.0]])
      >>> after = jnp.array([[1.0, 1.1]])
      >>> jax.grad(
      ...     lambda x: jg.losses.erc(
      ...         x, log_probs, jnp.array([2.0]), entropies=after, anchor_entropies=before
      ...     ).sum()
      ... )(log_probs)
      Array([[-2.,  0.]], dtype=float32)

    Source:
      arXiv:2512.05591.
    """
    checks.static_number(minimum=0, low=low)
    checks.static_number(above=low, high=high)
    checks.per_token(
        log_probs=log_probs, entropies=entropies, anchor_entropies=anchor_entropies, where=where
    )
    loss = _bound(base, base_options or {})
    losses = loss(log_probs, anchor_log_probs, advantages, where=where, **arrays)
    now, before = (
        zero_where_masked(jax.lax.stop_gradient(x), where) for x in (entropies, anchor_entropies)
    )
    ratios = (now + _EPS) / (before + _EPS)
    keep = (low < ratios) & (ratios < high)
    return jnp.where(keep, losses, jax.lax.stop_gradient(losses))


def _bound(base: str | Callable, options: Mapping[str, object]) -> Callable:
    if isinstance(base, str):
        return LOSSES.bind(base, **options)
    known = inspect.signature(base).parameters
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(f"the base of erc has no option {unknown[0]}. It takes: {', '.join(known)}")
    return lambda *args, **kwargs: base(*args, **kwargs, **options)
