"""The operators' bench: what it compares with, what it writes, and the memory that none exceeds."""

import json

import jax
import numpy as np
import pytest

from jaxgrpo.bench import operators
from jaxgrpo.bench.__main__ import main
from jaxgrpo.losses import PENALTIES

KEYS = {"family", "name", "ms", "plain_ms", "ratio", "arrays", "over", "reason"}
SMALL = ["--sequences", "8", "--tokens", "32", "--top", "4", "--repeats", "2"]


def test_the_plain_clip_is_ppo():
    log_probs = np.log(np.float32([[0.5, 1.1, 2.0], [0.5, 1.1, 2.0]]))
    advantages = np.float32([[2.0], [-1.0]])
    where = np.array([[True, True, True], [True, True, False]])
    value, gradient = jax.value_and_grad(operators.plain_clip)(
        log_probs, np.zeros_like(log_probs), advantages, where
    )
    # min(w A, clip(w, 0.8, 1.2) A): 1, 2.2, 2.4 and -0.8, -1.1.
    assert float(value) == pytest.approx(-(1 + 2.2 + 2.4 - 0.8 - 1.1), rel=1e-6)
    np.testing.assert_allclose(gradient, [[-1, -2.2, 0], [0, 1.1, 0]], rtol=1e-6)


def test_what_it_writes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(operators, "FAMILIES", (PENALTIES,))
    file = tmp_path / "figures.json"
    assert main(["operators", *SMALL, "--json", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written["shape"] == [8, 32, 4]
    assert [found["name"] for found in written["operators"]] == list(PENALTIES.names())
    table = capsys.readouterr().out
    for found in written["operators"]:
        assert found.keys() == KEYS
        assert found["ms"] > 0
        assert ("time" in found["over"]) == (found["ratio"] > 3)
        assert found["name"] in table


def test_reasons_are_of_operators_that_there_are():
    names = {name for registry in operators.FAMILIES for name in registry.names()}
    assert operators.REASONS.keys() <= names


@pytest.mark.slow
def test_no_operator_needs_more_than_six_arrays():
    found = list(operators.measure(64, 1024, 20, repeats=1))
    assert len(found) > 50
    assert {f["name"]: f["arrays"] for f in found if f["arrays"] > 6} == {}
