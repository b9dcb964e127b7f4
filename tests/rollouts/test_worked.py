import dataclasses

import numpy as np
import pytest

from jaxgrpo.core.errors import UserError
from jaxgrpo.rollouts import worked_batch
from jaxgrpo.tokenizers import CharacterTokenizer

TOKENIZER = CharacterTokenizer()


def with_worked(prompt, worked):
    return prompt._replace(example=dataclasses.replace(prompt.example, worked=worked))


def test_a_worked_example_is_a_completion_with_its_end(make_prompts, sampling):
    prompts = make_prompts()
    prompts[1] = with_worked(prompts[1], "12345")
    prompts[2] = with_worked(prompts[2], "")
    batch = worked_batch(prompts, TOKENIZER, sampling)
    assert batch.completion_lengths.tolist() == [3, 6, 1, 3]
    end, pad = TOKENIZER.stop_ids[0], TOKENIZER.pad_id
    assert batch.completion_tokens.tolist() == [
        [*TOKENIZER.encode("#0"), end, pad, pad, pad],
        [*TOKENIZER.encode("12345"), end],
        [end, pad, pad, pad, pad, pad],
        [*TOKENIZER.encode("#3"), end, pad, pad, pad],
    ]
    assert np.array_equal(batch.trainable, np.arange(6)[None] < np.array([[3], [6], [1], [3]]))
    assert batch.prompt_lengths.tolist() == [4, 5, 2, 5]
    assert tuple(batch.prompt_tokens[1, -5:]) == prompts[1].tokens


def test_it_is_plain_maximum_likelihood(make_prompts, sampling):
    """Every advantage 1, every token of the batch the same weight."""
    batch = worked_batch(make_prompts(), TOKENIZER, sampling)
    assert batch.advantages.tolist() == [1] * 4
    np.testing.assert_allclose(batch.row_weights, 1 / 12, rtol=1e-6)
    assert batch.completion_tokens.shape == (4, 4)


def test_a_missing_worked_example_is_named(make_prompts, sampling):
    with pytest.raises(UserError, match="sums-0: a worked example is needed, got none"):
        worked_batch(make_prompts(worked=False), TOKENIZER, sampling)


def test_a_worked_example_that_is_too_long_is_named(make_prompts, sampling):
    prompts = make_prompts()
    prompts[3] = with_worked(prompts[3], "123456")
    with pytest.raises(UserError, match=r"sums-3: .* 7 tokens, more than max_new_tokens 6"):
        worked_batch(prompts, TOKENIZER, sampling)
