"""Aggregations in which every token weighs the same."""

from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.aggregation._registry import AGGREGATIONS
from jaxgrpo.aggregation._weighted_sum import weighted_sum
from jaxgrpo.core.registry import Card


@AGGREGATIONS.register(
    Card(
        formula="sum(m l) / N",
        source="DAPO, arXiv:2503.14476",
        level="token",
        gradient="none",
        defaults="TRL dapo (its default), verl's default, NeMo-RL token-level",
        disagreements="N counts the tokens of the whole step; per micro-batch it is another loss.",
    )
)
def token_mean(
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    *,
    group_ids: Int[Array, "B"] | None = None,
    row_weights: Float[Array, "B"] | None = None,
) -> Float[Array, ""]:
    """Mean over all tokens: every token weighs the same, so long sequences weigh more.

    Args:
      token_losses: [B, T]. Whatever is held outside `where` has no effect.
      where: [B, T] bool. Trainable tokens, or None for all.
      group_ids: Not used; every aggregation takes it.
      row_weights: [B]. The slice of `row_weights(...)` that belongs to these rows, if they are a
        part of the optimiser step; without it they are taken to be the whole.

    Returns:
      A scalar, in float32 at least; 0 with gradient 0 without trainable tokens.

    Raises:
      TypeError: `token_losses` is not floating point, or `where` is not bool.
      ValueError: a shape does not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True], [True, False]])
      >>> print(jg.aggregation.token_mean(jnp.array([[1.0, 2.0], [6.0, 9.0]]), where))
      3.0

    Source:
      arXiv:2503.14476.
    """
    return weighted_sum("token_mean", token_losses, where, group_ids, row_weights)


@AGGREGATIONS.register(
    Card(
        formula="sum(m l)",
        source="Tinker's losses, tinker-docs.thinkingmachines.ai/losses",
        level="token",
        gradient="none",
        disagreements="The scale is left to the learning rate.",
    )
)
def token_sum(
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    *,
    group_ids: Int[Array, "B"] | None = None,
    row_weights: Float[Array, "B"] | None = None,
) -> Float[Array, ""]:
    """Sum over all tokens, without a normaliser.

    Args:
      token_losses: [B, T]. Whatever is held outside `where` has no effect.
      where: [B, T] bool. Trainable tokens, or None for all.
      group_ids: Not used; every aggregation takes it.
      row_weights: [B]. These rows' slice of `row_weights(...)`; 1 a row, so it changes nothing.

    Returns:
      A scalar, in float32 at least; 0 with gradient 0 without trainable tokens.

    Raises:
      TypeError: `token_losses` is not floating point, or `where` is not bool.
      ValueError: a shape does not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True], [True, False]])
      >>> print(jg.aggregation.token_sum(jnp.array([[1.0, 2.0], [6.0, 9.0]]), where))
      9.0
    """
    return weighted_sum("token_sum", token_losses, where, group_ids, row_weights)
