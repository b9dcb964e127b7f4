"""Log-probs of given completions under a loaded policy."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from jaxgrpo.core.errors import UserError
from jaxgrpo.run.policy import LoadedPolicy
from jaxgrpo.sampling import SamplingConfig, left_pad
from jaxgrpo.sharding import batch_sharding, row_shards
from jaxgrpo.training import Batch, score


@dataclasses.dataclass(frozen=True)
class ScoredCompletion:
    """A completion's tokens and what the policy thinks of each."""

    tokens: tuple[int, ...]
    log_probs: Float[np.ndarray, " T"]
    """Nats."""

    @property
    def total(self) -> float:
        """Log-prob of the whole completion, nats."""
        return float(self.log_probs.sum(dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """The exponential of minus the mean log-prob of its tokens."""
        return math.exp(-self.total / len(self.tokens))


def score_completions(
    loaded: LoadedPolicy,
    pairs: Sequence[tuple[str, str]],
    *,
    end: bool = False,
    batch_size: int = 16,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[ScoredCompletion]:
    """The log-probs of completions after their prompts, at temperature 1.

    Prompt and completion become tokens apart, as they do when completions are sampled.

    Args:
      loaded: the policy.
      pairs: (prompt, completion) texts; prompts are put into the run's template.
      end: whether the first stop token follows each completion and is scored too.
      batch_size: pairs at once.
      on_progress: called with (done, all) pairs after each batch.

    Raises:
      UserError: a prompt or completion has no tokens.
    """
    ending = loaded.tokenizer.stop_ids[:1] if end else ()
    prompts = [loaded.encode(prompt) for prompt, _ in pairs]
    completions = [(*loaded.tokenizer.encode(text), *ending) for _, text in pairs]
    for tokens, (_, text) in zip(completions, pairs, strict=True):
        if not tokens:
            raise UserError(f"the completion {text!r} has no tokens")
    model, params = loaded.policy.config, loaded.policy.params
    run = jax.jit(lambda params, batch: score(model, params, batch).log_probs)
    rows = min(batch_size, len(pairs))
    rows += -rows % row_shards(loaded.mesh)
    scored: list[ScoredCompletion] = []
    for start in range(0, len(pairs), batch_size):
        stop = min(start + batch_size, len(pairs))
        # Filled up with the last one, so that batches of all sizes share a program.
        picked = [min(index, stop - 1) for index in range(start, start + rows)]
        batch = _batch(
            [prompts[index] for index in picked],
            [completions[index] for index in picked],
            loaded.tokenizer.pad_id,
        )
        placed = jax.device_put(batch, batch_sharding(loaded.mesh))
        log_probs = np.asarray(run(params, placed))
        for row, tokens in enumerate(completions[start:stop]):
            scored.append(ScoredCompletion(tokens, log_probs[row, : len(tokens)]))
        if on_progress is not None:
            on_progress(stop, len(pairs))
    return scored


def _batch(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], pad_id: int
) -> Batch:
    """The tokens, padded; what only an update reads is zero."""
    bucket = SamplingConfig().bucket
    prompt_lengths = np.array([len(tokens) for tokens in prompts], np.int32)
    lengths = np.array([len(tokens) for tokens in completions], np.int32)
    tokens = np.full((len(completions), bucket(int(lengths.max()))), pad_id, np.int32)
    for row, ids in zip(tokens, completions, strict=True):
        row[: len(ids)] = ids
    zeros = np.zeros(len(completions), np.float32)
    arrays: dict[str, Any] = {
        "prompt_tokens": left_pad(prompts, bucket(int(prompt_lengths.max())), pad_id),
        "prompt_lengths": prompt_lengths,
        "completion_tokens": tokens,
        "completion_lengths": lengths,
        "trainable": np.zeros(tokens.shape, bool),
        "behaviour_log_probs": np.zeros(tokens.shape, np.float32),
        "advantages": zeros,
        "group_ids": np.arange(len(completions), dtype=np.int32),
        "row_weights": zeros,
    }
    return Batch(**arrays)
