import logging

import pytest

from jaxgrpo.core.errors import UserError
from jaxgrpo.data import Example, encode
from jaxgrpo.tokenizers import CharacterTokenizer

EXAMPLES = [Example(i, f"e-{i}", question, "0") for i, question in enumerate(["1", "22", "333"])]
CHARACTERS = CharacterTokenizer()


def test_the_template_is_filled_and_encoded():
    encoded = encode(EXAMPLES, CHARACTERS, template="{question} \\boxed{}", max_prompt_tokens=20)
    assert encoded.skipped == []
    assert [prompt.example for prompt in encoded] == EXAMPLES
    assert CHARACTERS.decode(encoded[1].tokens) == "22 \\boxed{}"


def test_a_prompt_at_the_limit_is_kept_and_above_it_skipped(caplog):
    with caplog.at_level(logging.WARNING):
        encoded = encode(EXAMPLES, CHARACTERS, max_prompt_tokens=2)
    assert [len(prompt.tokens) for prompt in encoded] == [1, 2]
    assert encoded.skipped == ["e-2"]
    assert "1 of 3 prompts have more than 2 tokens" in caplog.text
    assert "e-2" in caplog.text


def test_ids_stay_those_of_the_source_after_skipping():
    encoded = encode(EXAMPLES[::-1], CHARACTERS, max_prompt_tokens=2)
    assert [prompt.example.id for prompt in encoded] == [1, 0]


def test_a_long_prompt_is_an_error_when_asked():
    with pytest.raises(UserError, match=r"e-2: the prompt has 3 tokens, max_prompt_tokens is 2"):
        encode(EXAMPLES, CHARACTERS, max_prompt_tokens=2, on_long="error")


def test_no_prompt_left_is_an_error():
    with pytest.raises(UserError, match=r"none of 3 prompts fits into max_prompt_tokens=5"):
        encode(EXAMPLES, CHARACTERS, template="question: {question}", max_prompt_tokens=5)


def test_an_empty_prompt_is_an_error():
    with pytest.raises(UserError, match="e-0: the prompt has no tokens"):
        encode([Example(0, "e-0", "", "0")], CHARACTERS, max_prompt_tokens=5)


def test_characters_that_the_tokenizer_does_not_know_are_said(caplog):
    source = [Example(index, f"set:{index}", text, "1") for index, text in enumerate(["1", "é"])]
    encode(source, CharacterTokenizer(), max_prompt_tokens=8)
    assert "1 of 2 prompts hold characters that the tokenizer does not know: set:1" in caplog.text
