"""Worked examples as a batch: supervised learning is REINFORCE with every advantage 1."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxgrpo.aggregation import row_weights
from jaxgrpo.data import Prompt
from jaxgrpo.rollouts.collect import pad_prompts
from jaxgrpo.rollouts.demonstrations import worked_tokens
from jaxgrpo.sampling import SamplingConfig
from jaxgrpo.tokenizers import Tokenizer
from jaxgrpo.training import Batch


def worked_batch(prompts: Sequence[Prompt], tokenizer: Tokenizer, config: SamplingConfig) -> Batch:
    """The prompts and their worked examples.

    Raises:
      UserError: as for `worked_tokens`.
    """
    limit = config.max_new_tokens
    completions = [worked_tokens(prompt, tokenizer, limit) for prompt in prompts]
    lengths = np.array([len(ids) for ids in completions], np.int32)
    width = min(config.bucket(int(lengths.max())), config.max_new_tokens)
    trainable = np.arange(width)[None] < lengths[:, None]
    tokens = np.full(trainable.shape, tokenizer.pad_id, np.int32)
    for row, ids in zip(tokens, completions, strict=True):
        row[: len(ids)] = ids
    padded = pad_prompts(prompts, config, tokenizer.pad_id)
    rows = len(prompts)
    fields: dict[str, Any] = dict(
        prompt_tokens=padded.tokens,
        prompt_lengths=padded.lengths,
        completion_tokens=tokens,
        completion_lengths=lengths,
        trainable=trainable,
        behaviour_log_probs=np.zeros(trainable.shape, np.float32),
        advantages=np.ones(rows, np.float32),
        group_ids=np.arange(rows, dtype=np.int32),
        row_weights=np.asarray(row_weights("token_mean", jnp.asarray(trainable))),
    )
    return Batch(**fields)
