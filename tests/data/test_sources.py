import json

import pytest

from jaxgrpo.core.errors import UserError
from jaxgrpo.data import DataConfig, JsonlSource, SourceConfig, open_source


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        path = tmp_path / "set.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return path

    return write


def test_rows_become_examples(write):
    path = write(
        {"question": "1+1?", "answer": 2, "numbers": [1, 1], "level": "easy", "note": None},
        "",
        {"question": "naïve?", "answer": "yes", "worked": "#### yes", "completion": "no"},
    )
    first, second = JsonlSource(path)
    assert (first.id, first.name, first.question, first.answer) == (0, "set.jsonl:1", "1+1?", "2")
    assert first.worked is None
    assert first.fields == {"numbers": "[1, 1]", "level": "easy"}
    assert (second.id, second.name, second.question) == (1, "set.jsonl:3", "naïve?")
    # "completion" is a reward function's first argument.
    assert (second.worked, second.fields) == ("#### yes", {})


def test_fields_are_renamed(write):
    path = write({"problem": "p", "answer": "steps", "final": "7", "question": "other"})
    config = SourceConfig(
        path=str(path), fields={"question": "problem", "answer": "final", "worked": "answer"}
    )
    (example,) = open_source(config, seed=0, split="train")
    assert (example.question, example.answer, example.worked) == ("p", "7", "steps")
    assert example.fields == {}


def test_one_column_may_serve_twice(write):
    path = write({"question": "q", "solution": "7"})
    (example,) = JsonlSource(path, {"answer": "solution", "worked": "solution"})
    assert (example.answer, example.worked) == ("7", "7")


def test_size_takes_the_first_rows(write):
    path = write(*({"question": str(i), "answer": "1"} for i in range(5)))
    assert [example.question for example in JsonlSource(path, size=2)] == ["0", "1"]
    with pytest.raises(UserError, match="size is 6, the file has 5"):
        JsonlSource(path, size=6)


GOOD = {"question": "q", "answer": "a"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"question": "q", ', r"set\.jsonl:2: not a line of JSON"),
        ("[" * 100_000, r"set\.jsonl:2: not a line of JSON"),
        ("[1]", r"set\.jsonl:2: wanted a JSON object, got list"),
        ({"question": "q"}, r"set\.jsonl:2: no field 'answer'"),
        ({"question": "q", "anwser": "a"}, r"'answer' \(for answer\); did you mean 'anwser'"),
        ({"question": "q", "answer": None}, r"set\.jsonl:2: no field 'answer'"),
        ({"question": "q", "answer": " "}, r"set\.jsonl:2: field 'answer' .* is empty"),
        ({"question": "", "answer": "a"}, r"set\.jsonl:2: field 'question' .* is empty"),
        ('{"question": "q", "question": "r", "answer": "a"}', r"2: .* 'question' is given twice"),
        ('{"question": "q", "answer": NaN}', r"set\.jsonl:2: .* NaN is no value of JSON"),
        ({"question": "q", "answer": "a\ud800"}, r"set\.jsonl:2: .* surrogates not allowed"),
        ({"question": "q", "answer": "a", "x": ["\udfff"]}, r"2: .* surrogates not allowed"),
    ],
)
def test_a_bad_line_is_named(write, bad, message):
    path = write(GOOD, bad, GOOD)
    with pytest.raises(UserError, match=message):
        JsonlSource(path)


def test_bytes_that_are_no_utf8_are_named(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"question": "q", "answer": "a"}\n{"question": "\xe9", "answer": "a"}\n')
    with pytest.raises(UserError, match=r"latin\.jsonl:2: not a line of JSON"):
        JsonlSource(path)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert JsonlSource(path)[0].question == "q"


def test_an_escaped_pair_of_surrogates_is_a_character(write):
    assert JsonlSource(write({"question": "\U0001f600", "answer": "a"}))[0].question == "\U0001f600"


def test_a_path_that_no_file_can_have_is_a_user_error():
    with pytest.raises(UserError, match="cannot read: embedded null byte"):
        JsonlSource("a\0b")


def test_a_column_can_not_stand_for_the_completion(write):
    with pytest.raises(UserError, match="'completion' is what the policy writes"):
        JsonlSource(write(GOOD), {"completion": "answer"})


@pytest.mark.parametrize("content", ["", "\n\n  \n"])
def test_an_empty_file_is_refused(tmp_path, content):
    path = tmp_path / "empty.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match="no examples"):
        JsonlSource(path)


def test_a_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"none\.jsonl: cannot read: No such file"):
        JsonlSource(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give one of task and path"),
        ({"task": "arithmetic", "path": "x.jsonl"}, "give one of task and path"),
        ({"task": "arithmetic", "size": -1}, "size must be"),
        ({"path": "x.jsonl", "options": {"digits": 3}}, "options belong to a task"),
        ({"task": "arithmetic", "fields": {"question": "q"}}, "fields belong to a file"),
    ],
)
def test_source_config_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        SourceConfig(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"template": "{q}"}, "template must contain"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens must be"),
        ({"on_long_prompt": "cut"}, "on_long_prompt must be 'skip' or 'error'"),
    ],
)
def test_data_config_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        DataConfig(train=SourceConfig(task="arithmetic"), **arguments)
