"""The aggregation that takes a mean over prompts."""

from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.aggregation._registry import AGGREGATIONS
from jaxgrpo.aggregation._weighted_sum import weighted_sum
from jaxgrpo.core.registry import Card


@AGGREGATIONS.register(
    Card(
        formula="mean_prompts(sum(m l) / N of the prompt)",
        source="SkyRL, prompt_mean",
        level="group",
        gradient="none",
        needs=("group_ids",),
        disagreements="Prompts are told apart by id, never by position.",
    )
)
def prompt_mean(
    token_losses: Float[Array, "B T"],
    where: Bool[Array, "B T"] | None,
    *,
    group_ids: Int[Array, "B"] | None = None,
    row_weights: Float[Array, "B"] | None = None,
    count_empty: bool = False,
) -> Float[Array, ""]:
    """Mean over prompts of the mean over all tokens that answer them: every prompt weighs the same.

    Args:
      token_losses: [B, T]. Whatever is held outside `where` has no effect.
      where: [B, T] bool. Trainable tokens, or None for all.
      group_ids: [B] int. Which prompt each row answers; needed unless `row_weights` is given.
      row_weights: [B]. These rows' slice of `row_weights(...)`, if they are a part of the step.
      count_empty: Whether a prompt without trainable tokens counts.

    Returns:
      A scalar, in float32 at least; 0 with gradient 0 without trainable tokens.

    Raises:
      TypeError: `token_losses` is not floating point, `where` not bool, `group_ids` not integer.
      ValueError: a shape does not fit, or both `group_ids` and `row_weights` are missing.

    Example:
      >>> import jax.numpy as jnp, jaxgrpo as jg
      >>> losses = jnp.array([[1.0, 2.0], [6.0, 9.0], [4.0, 4.0]])
      >>> where = jnp.array([[True, True], [True, False], [True, True]])
      >>> print(jg.aggregation.prompt_mean(losses, where, group_ids=jnp.array([5, 5, 8])))
      3.5
    """
    return weighted_sum(
        "prompt_mean", token_losses, where, group_ids, row_weights, count_empty=count_empty
    )
