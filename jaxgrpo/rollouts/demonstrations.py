"""Worked examples in the place of some completions of each prompt: rows that nobody sampled."""

from collections.abc import Sequence

import numpy as np

from jaxgrpo.core.errors import UserError
from jaxgrpo.data import Prompt
from jaxgrpo.sampling import Completions, StopReason
from jaxgrpo.tokenizers import Tokenizer


def worked_tokens(prompt: Prompt, tokenizer: Tokenizer, max_new_tokens: int) -> list[int]:
    """A prompt's worked example, ended with the first stop id.

    Raises:
      UserError: it has none, or one longer than completions may be.
    """
    example = prompt.example
    if example.worked is None:
        raise UserError(f"{example.name}: a worked example is needed, got none")
    ids = [*tokenizer.encode(example.worked), tokenizer.stop_ids[0]]
    if len(ids) > max_new_tokens:
        raise UserError(
            f"{example.name}: the worked example has {len(ids)} tokens, more than "
            f"max_new_tokens {max_new_tokens}"
        )
    return ids


def with_demonstrations(
    completions: Completions, prompts: Sequence[Prompt], tokenizer: Tokenizer, count: int
) -> Completions:
    """Each prompt's completions, followed by its worked example `count` times.

    Args:
      completions: P * S rows, those of one prompt side by side.
      prompts: P of them.
      tokenizer: of the worked text.
      count: N.

    Returns:
      P * (S + N) rows. The demonstrations' log-probs are 0: no sampler has drawn them.

    Raises:
      UserError: as for `worked_tokens`.
    """
    width = completions.tokens.shape[1]
    tokens = np.full((len(prompts), width), tokenizer.pad_id, completions.tokens.dtype)
    lengths = np.zeros(len(prompts), completions.lengths.dtype)
    for row, prompt in enumerate(prompts):
        ids = worked_tokens(prompt, tokenizer, width)
        tokens[row, : len(ids)] = ids
        lengths[row] = len(ids)

    def joined(sampled: np.ndarray, worked: np.ndarray) -> np.ndarray:
        groups = sampled.reshape(len(prompts), -1, *sampled.shape[1:])
        whole = np.concatenate([groups, np.repeat(worked[:, None], count, axis=1)], axis=1)
        return whole.reshape(-1, *sampled.shape[1:])

    stopped = np.full(len(prompts), StopReason.STOP, completions.stop_reasons.dtype)
    return Completions(
        joined(completions.tokens, tokens),
        joined(completions.lengths, lengths),
        joined(completions.log_probs, np.zeros(tokens.shape, completions.log_probs.dtype)),
        joined(completions.stop_reasons, stopped),
    )
