"""`jaxgrpo verify --audit`."""

import json

import pytest


@pytest.fixture
def rollouts(tmp_path):
    rows = [
        {"gold": "26", "text": "A: 26", "correct": True},
        {"gold": r"\sqrt{", "text": "A: 26"},
        {"gold": "1,000", "text": "A: 1000"},
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_command(jaxgrpo, rollouts, tmp_path):
    told = jaxgrpo(
        *["verify", "--audit", str(rollouts), "--gold-field", "gold", "--completion-field", "text"],
        *["--marker", "A:", "--report", str(tmp_path / "report.md")],
        *["--quarantine", str(tmp_path / "bad.jsonl")],
    )
    assert told.code == 1
    assert told.out == (tmp_path / "report.md").read_text()
    assert "| right | 2 | 100.0% |" in told.out
    (bad,) = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(bad)["gold"] == r"\sqrt{"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file has no lines"),
        ("[1]\n", ":1: wanted a JSON object, got list"),
        ('{"answer": "1"}\n{\n', ":2: not a line of JSON"),
        ('{"gold": "1"}\n', ":1: no field 'answer'; see --gold-field"),
    ],
)
def test_a_bad_file_is_one_line(jaxgrpo, tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    told = jaxgrpo("verify", "--audit", str(path))
    assert told.code == 2
    assert message in told.err


def test_an_audit_takes_no_completion(jaxgrpo):
    assert "--audit takes no COMPLETION" in jaxgrpo("verify", "1", "--audit", "x").err
    assert "cannot read" in jaxgrpo("verify", "--audit", "/nowhere.jsonl").err
