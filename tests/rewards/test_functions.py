import math

import pytest

from jaxgrpo.rewards import RewardConfig, RewardFunctionConfig, functions


@pytest.mark.parametrize(
    ("completion", "value", "outcome"),
    [
        ("5+7=12 #### 12", 1.0, "right"),
        (r"\boxed{12.0}", 1.0, "right"),
        ("#### 13", 0.0, "wrong"),
        ("twelve it is, probably", 0.0, "no_answer"),
        (r"\boxed{a dozen}", 0.0, "unparseable_answer"),
    ],
)
def test_answer(completion, value, outcome):
    assert functions.answer(completion, answer="12") == (value, outcome)


def test_answer_does_not_blame_the_completion_for_the_gold():
    value, outcome = functions.answer("#### 12", answer=" ")
    assert math.isnan(value)
    assert outcome == "unparseable_gold"


@pytest.mark.parametrize(
    ("completion", "outcome"),
    [
        ("#### (96 - 25) * 12", "right"),
        ("#### 12*(96-25) = 852", "right"),
        (r"\boxed{12 \times (96 - 25)}", "right"),
        ("The answer is $12 \N{MULTIPLICATION SIGN} (96 \N{MINUS SIGN} 25)$.", "right"),
        ("12 * (96 - 25)", "right"),
        ("#### 12 * (96 - 25) + 0", "wrong"),
        ("#### 12 * 71", "wrong"),
        ("#### 852", "wrong"),
        ("#### 12 * 96 - 25", "wrong"),
        ("#### 12 * 12 * (96 - 25) / 12", "wrong"),
        ("#### 12.0 * (96 - 25)", "wrong"),
        ("#### 12 ** (96 - 25)", "unparseable_answer"),
        ("#### 96 / (25 - 25) + 12", "unparseable_answer"),
        ("#### x", "unparseable_answer"),
        (r"\boxed{}", "no_answer"),
        ("I do not know", "no_answer"),
        ("#### __import__('os')", "unparseable_answer"),
        ("(" * 100_000, "no_answer"),
    ],
)
def test_countdown(completion, outcome):
    verdict = functions.countdown(completion, numbers="[96, 25, 12]", target="852")
    assert verdict == (float(outcome == "right"), outcome)


def test_countdown_counts_repeated_numbers():
    assert functions.countdown("#### 4 + 4 + 4", numbers="[4, 4, 4]", target="12").value == 1
    assert functions.countdown("#### 4 + 4 + 4", numbers="[4, 4]", target="12").value == 0
    assert functions.countdown("#### 4 + 8", numbers="[4, 4, 8]", target="12").value == 0


def test_countdown_accepts_what_its_task_gives():
    from jaxgrpo.data import SourceConfig, open_source

    source = open_source(SourceConfig(task="countdown", size=50), seed=0, split="train")
    for index in range(50):
        example = source[index]
        assert functions.countdown(example.worked, **example.fields).outcome == "right"


def test_format_wants_a_marked_answer():
    texts = ["#### 12", r"\boxed{12}", "the answer is 12", "12", r"\boxed{}", "####"]
    assert [functions.BUILT_IN["format"](text) for text in texts] == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"functions": ()}, "at least one"),
        ({"functions": (RewardFunctionConfig(name="answer"),) * 2}, "different names"),
        ({"timeout_seconds": 0}, "timeout_seconds must be above 0"),
        ({"timeout_seconds": math.nan}, "timeout_seconds must be above 0"),
        ({"workers": 0}, "workers must be 1 or more"),
        ({"memory_mib": 1}, "memory_mib must be 64 or more"),
        ({"max_failed_fraction": 1.1}, r"max_failed_fraction must be in \[0, 1\]"),
    ],
)
def test_config_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        RewardConfig(**arguments)


def test_a_weight_must_be_finite():
    with pytest.raises(ValueError, match="weight of 'answer' must be at most 1e\\+06"):
        RewardFunctionConfig(name="answer", weight=math.inf)
