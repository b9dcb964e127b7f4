"""`python -m jaxgrpo.bench answers`."""

import json

from jaxgrpo.answers import is_correct
from jaxgrpo.bench import answers

CASES = [
    {"gold": "0.5", "prediction": r"\boxed{\frac12}", "expected": True},
    {"gold": "7", "prediction": r"\boxed{8}", "expected": False},
    {"gold": "7", "prediction_parts": [["so ", 3], [r"\boxed{7}", 1]], "expected": True},
    {"gold": "7", "prediction": r"\boxed{7}", "expected": False},
    {"gold": "1", "prediction": r"\boxed{2}", "expected": True, "disputed": True},
]


def test_what_it_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(answers, "_has_math_verify", lambda: False)
    cases, figures = tmp_path / "cases.jsonl", tmp_path / "figures.json"
    cases.write_text("".join(json.dumps(case) + "\n" for case in CASES))
    assert answers.main(["--cases", str(cases), "--json", str(figures)]) == 0
    assert "pip install math-verify" in capsys.readouterr().out
    found = json.loads(figures.read_text())["checkers"]["jaxgrpo"]
    assert found["accuracy_undisputed"] == 0.75
    assert (found["false_negatives"], found["false_positives"]) == (1, 1)
    assert (found["hangs"], found["crashes"], found["cases"]) == (0, 0, 5)
    assert found["numbers_s"] > 0
    assert found["latex_s"] > 0


def test_half_of_the_ordinary_pairs_are_right():
    for pairs in answers.ordinary().values():
        share = sum(is_correct(*pair) for pair in pairs) / len(pairs)
        assert 0.4 < share < 0.7
