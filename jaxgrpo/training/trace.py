"""A look at a batch token by token, for records: what the update is about to do, and why."""

import dataclasses
from collections.abc import Callable

import jax
from jaxtyping import Array, Float, Int

from jaxgrpo.losses.objective import Objective
from jaxgrpo.models import DecoderConfig, Params
from jaxgrpo.training.batch import Batch
from jaxgrpo.training.loss import score, token_inputs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TokenTrace:
    """Per token: log-prob and entropy under the trainer's policy, gradient weight and `Reason`."""

    log_probs: Float[Array, "B T"]
    entropies: Float[Array, "B T"]
    gradient_weights: Float[Array, "B T"]
    reasons: Int[Array, "B T"]
    top_log_probs: Float[Array, "B T K"] | None = None
    """The trainer's, at the sampler's likeliest tokens; only where the loss reads it."""


def make_trace(
    model: DecoderConfig,
    objective: Objective,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = 4096,
) -> Callable[[Params, Batch], TokenTrace]:
    """`(params, batch) -> TokenTrace`: run before an update, it shows what that update sees."""

    def trace(params: Params, batch: Batch) -> TokenTrace:
        scores = score(
            model,
            params,
            batch,
            tops=objective.uses_tops,
            temperature=temperature,
            chunk_tokens=chunk_tokens,
        )
        weights, reasons = objective.gradient_weights(
            scores.log_probs, scores.entropies, token_inputs(batch, scores)
        )
        return TokenTrace(
            scores.log_probs, scores.entropies, weights, reasons, scores.top_log_probs
        )

    return trace
