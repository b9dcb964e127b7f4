"""Aggregations that take a mean over sequences."""

from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.aggregation._registry import AGGREGATIONS
from jaxgrpo.aggregation._weighted_sum import weighted_sum
from jaxgrpo.core.registry import Card


@AGGREGATIONS.register(
    Card(
        formula="mean_rows(sum(m l) / n)",
        source="GRPO, arXiv:2402.03300, eq. 3",
        level="token",
        gradient="none",
        defaults="TRL grpo, Tunix, NeMo-RL sequence-level, slime",
        disagreements="Rows without tokens are not counted here; TRL's grpo counts them.",
    )
)
def sequence_mean_token_mean(
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    *,
    group_ids: Int[Array, "B"] | None = None,
    row_weights: Float[Array, "B"] | None = None,
    count_empty: bool = False,
) -> Float[Array, ""]:
    """Mean over sequences of the mean over their tokens: every sequence weighs the same.

    Args:
      token_losses: [B, T]. Whatever is held outside `where` has no effect.
      where: [B, T] bool. Trainable tokens, or None for all.
      group_ids: Not used; every aggregation takes it.
      row_weights: [B]. These rows' slice of `row_weights(...)`, if they are a part of the step.
      count_empty: Whether a row without trainable tokens counts as a sequence.

    Returns:
      A scalar, in float32 at least; 0 with gradient 0 without trainable tokens.

    Raises:
      TypeError: `token_losses` is not floating point, or `where` is not bool.
      ValueError: a shape does not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True], [True, False]])
      >>> losses = jnp.array([[1.0, 2.0], [6.0, 9.0]])
      >>> print(jg.aggregation.sequence_mean_token_mean(losses, where))
      3.75

    Source:
      arXiv:2402.03300, eq. 3.
    """
    return weighted_sum(
        "sequence_mean_token_mean",
        token_losses,
        where,
        group_ids,
        row_weights,
        count_empty=count_empty,
    )


@AGGREGATIONS.register(
    Card(
        formula="sum(m l) / B",
        source="REINFORCE on whole sequences; arXiv:2402.14740",
        level="token",
        gradient="none",
        defaults="verl seq-mean-token-sum",
        disagreements="verl once computed a token mean under this name.",
    )
)
def sequence_mean_token_sum(
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    *,
    group_ids: Int[Array, "B"] | None = None,
    row_weights: Float[Array, "B"] | None = None,
    count_empty: bool = False,
) -> Float[Array, ""]:
    """Mean over sequences of the sum over their tokens: the policy gradient of whole sequences.

    Args:
      token_losses: [B, T]. Whatever is held outside `where` has no effect.
      where: [B, T] bool. Trainable tokens, or None for all.
      group_ids: Not used; every aggregation takes it.
      row_weights: [B]. These rows' slice of `row_weights(...)`, if they are a part of the step.
      count_empty: Whether a row without trainable tokens counts as a sequence.

    Returns:
      A scalar, in float32 at least; 0 with gradient 0 without trainable tokens.

    Raises:
      TypeError: `token_losses` is not floating point, or `where` is not bool.
      ValueError: a shape does not fit.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True], [True, False]])
      >>> losses = jnp.array([[1.0, 2.0], [6.0, 9.0]])
      >>> print(jg.aggregation.sequence_mean_token_sum(losses, where))
      4.5
    """
    return weighted_sum(
        "sequence_mean_token_sum",
        token_losses,
        where,
        group_ids,
        row_weights,
        count_empty=count_empty,
    )


@AGGREGATIONS.register(
    Card(
        formula="sum(m l) / (B L), L constant",
        source="Dr. GRPO, arXiv:2503.20783",
        level="token",
        gradient="none",
        defaults="TRL dr_grpo, verl seq-mean-token-sum-norm, Tunix; L = the longest completion",
        disagreements="Where L is the padded width of a micro-batch the loss depends on padding.",
    )
)
def sequence_mean_constant(
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    *,
    length: int,
    group_ids: Int[Array, "B"] | None = None,
    row_weights: Float[Array, "B"] | None = None,
    count_empty: bool = False,
) -> Float[Array, ""]:
    """Mean over sequences of the token sum over a constant length: free of Dr. GRPO's length bias.

    Args:
      token_losses: [B, T]. Whatever is held outside `where` has no effect.
      where: [B, T] bool. Trainable tokens, or None for all.
      length: The constant, in tokens: the longest completion that may be sampled.
      group_ids: Not used; every aggregation takes it.
      row_weights: [B]. These rows' slice of `row_weights(...)`, if they are a part of the step.
      count_empty: Whether a row without trainable tokens counts as a sequence.

    Returns:
      A scalar, in float32 at least; 0 with gradient 0 without trainable tokens.

    Raises:
      TypeError: `token_losses` is not floating point, or `where` is not bool.
      ValueError: a shape does not fit, or `length` is not positive.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> where = jnp.array([[True, True], [True, False]])
      >>> losses = jnp.array([[1.0, 2.0], [6.0, 9.0]])
      >>> print(jg.aggregation.sequence_mean_constant(losses, where, length=4))
      1.125

    Source:
      arXiv:2503.20783.
    """
    return weighted_sum(
        "sequence_mean_constant",
        token_losses,
        where,
        group_ids,
        row_weights,
        length=length,
        count_empty=count_empty,
    )
