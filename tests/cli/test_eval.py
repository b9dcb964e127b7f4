"""`jaxgrpo eval`."""

import json

import numpy as np
import pytest

from jaxgrpo.answers import is_correct
from jaxgrpo.evaluation import accuracy_interval


@pytest.fixture
def questions(tmp_path):
    """Four questions, of which 5 answers three."""
    path = tmp_path / "questions.jsonl"
    rows = [("2+3=", "5"), ("3+4=", "7"), ("10/2=", "5.0"), ("4+1=", "5")]
    lines = [json.dumps({"question": question, "answer": gold}) for question, gold in rows]
    path.write_text("\n".join(lines))
    return path


def test_a_known_model_gets_its_known_accuracy(jaxgrpo, five, questions, tmp_path):
    words = ["--data", questions, "--json", tmp_path / "facts.json", "--items", tmp_path / "items"]
    told = jaxgrpo("eval", five, *words)
    assert told.code == 0
    # Wilson, by hand: (3/4 + z^2/8 +- z sqrt(3/64 + z^2/64)) / (1 + z^2/4) with z = 1.96.
    assert "75.0%, 95 % interval 30.1% to 95.4% (3 of 4 completions right by answer)" in told.out
    assert told.err == "evaluated 4 of 4 prompts\n"

    facts = json.loads((tmp_path / "facts.json").read_text())
    assert (facts["accuracy"], facts["correct"], facts["completions"]) == (0.75, 3, 4)
    assert facts["interval"] == pytest.approx([0.3006, 0.9544], abs=1e-4)
    assert (facts["reward_mean"], facts["unscored"], facts["step"]) == (0.75, 0, None)
    # "5" and the end, four times.
    assert (facts["tokens"], facts["truncated_fraction"]) == (8, 0.0)
    assert facts["seconds"] > 0

    items = [json.loads(line) for line in (tmp_path / "items").read_text().splitlines()]
    assert [item["question"] for item in items] == ["2+3=", "3+4=", "10/2=", "4+1="]
    assert [item["correct"] for item in items] == [True, False, True, True]
    assert {item["completion"] for item in items} == {"5"}
    assert items[1]["name"] == "questions.jsonl:2"


def test_a_run_is_evaluated_as_it_evaluated_itself(jaxgrpo, run, tmp_path):
    words = ["--json", tmp_path / "facts.json", "--items", tmp_path / "items"]
    assert jaxgrpo("eval", run, *words).code == 0
    facts = json.loads((tmp_path / "facts.json").read_text())
    summary = json.loads((run / "summary.json").read_text())
    for name in ("accuracy", "completions", "reward_mean", "truncated_fraction"):
        assert facts[name] == summary["eval_end"][name]
    assert (facts["step"], facts["data"], facts["prompts"]) == (2, "arithmetic", 6)


def test_samples_limit_and_template(jaxgrpo, run, tmp_path):
    words = ["--samples", "3", "--temperature", "1", "--limit", "2", "--items", tmp_path / "items"]
    told = jaxgrpo("eval", run, *words, "--template", "{question}")
    assert told.code == 0
    assert "2 prompts, 3 samples each, temperature 1" in told.out
    items = [json.loads(line) for line in (tmp_path / "items").read_text().splitlines()]
    names = [item["name"] for item in items]
    assert len(items) == 6
    assert len(set(names[:3])) == len(set(names[3:])) == 1
    assert len({item["completion"] for item in items}) > 1
    for item in items:
        assert item["correct"] == is_correct(item["completion"], item["answer"])


@pytest.mark.parametrize("right", [0, 3, 10])
def test_one_sample_a_prompt_gives_wilsons_interval(right):
    correct = np.arange(10)[:, None] < right
    p, n, z = right / 10, 10, 1.959964
    # The two roots of (p - x)^2 = z^2 x (1 - x) / n.
    roots = np.roots([1 + z**2 / n, -(2 * p + z**2 / n), p**2])
    np.testing.assert_allclose(accuracy_interval(correct), sorted(roots.real), atol=1e-9)


def test_samples_that_agree_count_as_one():
    alike = np.repeat(np.arange(10)[:, None] < 4, 8, axis=1)
    assert accuracy_interval(alike) == pytest.approx(accuracy_interval(alike[:, :1]))
    # And those that are as different as draws of their own count as so many.
    mixed = np.arange(80).reshape(10, 8) % 2 == 0
    assert accuracy_interval(mixed) == pytest.approx(accuracy_interval(mixed.reshape(-1, 1)))
    low, high = accuracy_interval(np.ones((10, 8), bool))
    assert (low, high) == pytest.approx(accuracy_interval(np.ones((10, 1), bool)))
