"""Scoring a batch under a policy, and the loss of an objective on those scores."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgrpo.losses.objective import Metrics, Objective, TokenInputs
from jaxgrpo.models import (
    DecoderConfig,
    Params,
    RowPenalty,
    TokenScores,
    bind,
    hidden_states,
    score_tokens,
)
from jaxgrpo.training.batch import Batch

Loss = Callable[[Params, Batch, Params | None], tuple[Array, tuple[dict[str, Array], Metrics]]]


def score(
    model: DecoderConfig,
    params: Params,
    batch: Batch,
    *,
    tops: bool = False,
    reference: Params | None = None,
    penalty: RowPenalty | None = None,
    squares: bool = False,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> TokenScores:
    """Log-probs of the completions' tokens and entropies at them, by the sampler's own formula.

    Args:
      model: the decoder.
      params: its parameters; gradients flow through them.
      batch: B rows.
      tops: whether to score the batch's `top_ids` too, in the same pass.
      reference: parameters of a policy to compare whole distributions with; no gradient.
      penalty: of the policy's rows and the reference's, which is needed then.
      squares: whether the squared probabilities at each token are summed too.
      temperature: the one that the completions were sampled at.
      chunk_tokens: about how many tokens' logits exist at once.

    Returns:
      `TokenScores` of [B, T], nats, float32 at least. At padding they are finite and mean nothing.

    Raises:
      ValueError: the batch has no `top_ids` to score, or there is no reference for the penalty.
    """
    if tops and batch.top_ids is None:
        raise ValueError("scoring the sampler's top tokens needs top_ids, got None")
    prompts, completions = batch.prompt_tokens, batch.completion_tokens
    width, length = prompts.shape[1], completions.shape[1]
    mask = jnp.concatenate(
        [
            jnp.arange(width)[None] >= width - batch.prompt_lengths[:, None],
            jnp.arange(length)[None] < batch.completion_lengths[:, None],
        ],
        axis=1,
    )
    tokens = jnp.concatenate([prompts, completions], axis=1)

    def head(params: Params) -> tuple[Float[Array, "B T D"], Float[Array, "D V"]]:
        states = hidden_states(model, params, tokens, mask=mask)
        # The state before a token predicts it; prompts are left-padded, so this is one slice.
        return states[:, width - 1 : -1], bind(model, params).unembedding_matrix()

    return score_tokens(
        *head(params),
        jnp.where(mask[:, width:], completions, 0),
        top_ids=batch.top_ids if tops else None,
        reference=None if reference is None else head(jax.lax.stop_gradient(reference)),
        penalty=penalty,
        squares=squares,
        temperature=temperature,
        chunk_tokens=chunk_tokens,
    )


def token_inputs(batch: Batch, scores: TokenScores) -> TokenInputs:
    """What the objective reads: of the batch, and of the scores what carries no gradient."""
    return dataclasses.replace(
        batch.token_inputs(),
        top_log_probs=scores.top_log_probs,
        reference_kl=scores.reference_kl,
    )


def make_loss(
    model: DecoderConfig,
    objective: Objective,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> Loss:
    """`(params, batch, reference) -> (loss, (parts, metrics))`, for `make_update_step`.

    With the parameters of a reference, the exact KL to it is among the metrics; without a penalty
    on rows it is not needed, and None.
    """

    def loss(
        params: Params, batch: Batch, reference: Params | None = None
    ) -> tuple[Array, tuple[dict[str, Array], Metrics]]:
        scores = score(
            model,
            params,
            batch,
            tops=objective.uses_tops,
            reference=reference,
            penalty=objective.row_penalty,
            temperature=temperature,
            chunk_tokens=chunk_tokens,
        )
        return objective(
            scores.log_probs,
            scores.entropies,
            token_inputs(batch, scores),
            row_penalties=scores.row_penalties,
        )

    return loss
