"""Scoring a batch under a policy, and the loss of an objective on those scores."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgrpo.losses.objective import Metrics, Objective
from jaxgrpo.models import DecoderConfig, Params, bind, hidden_states, token_log_probs
from jaxgrpo.training.batch import Batch

Loss = Callable[[Params, Batch], tuple[Array, tuple[dict[str, Array], Metrics]]]


def score(
    model: DecoderConfig,
    params: Params,
    batch: Batch,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """Log-probs of the completions' tokens and entropies at them, by the sampler's own formula.

    Args:
      model: the decoder.
      params: its parameters; gradients flow through them.
      batch: B rows.
      temperature: the one that the completions were sampled at.
      chunk_tokens: about how many tokens' logits exist at once.

    Returns:
      ([B, T], [B, T]), nats, float32 at least. At padding they are finite and mean nothing.
    """
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
    states = hidden_states(model, params, tokens, mask=mask)
    # The state before a token predicts it; prompts are left-padded, so this is one slice.
    before = states[:, width - 1 : -1]
    matrix = bind(model, params).unembedding_matrix()
    return token_log_probs(
        before,
        matrix,
        jnp.where(mask[:, width:], completions, 0),
        temperature=temperature,
        chunk_tokens=chunk_tokens,
    )


def make_loss(
    model: DecoderConfig,
    objective: Objective,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> Loss:
    """`(params, batch) -> (loss, (parts, metrics))` of an objective, for `make_update_step`."""

    def loss(params: Params, batch: Batch) -> tuple[Array, tuple[dict[str, Array], Metrics]]:
        log_probs, entropies = score(
            model, params, batch, temperature=temperature, chunk_tokens=chunk_tokens
        )
        return objective(log_probs, entropies, batch.token_inputs())

    return loss
