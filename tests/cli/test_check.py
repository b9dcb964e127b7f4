import json
import textwrap

import pytest

MINE = textwrap.dedent(
    """
    import jax.numpy as jnp

    def good(log_probs, reference_log_probs, *, where=None, scale: float = 1.0):
        k = jnp.where(where, log_probs - reference_log_probs, 0)
        return scale * k * k / 2

    def useless(log_probs, reference_log_probs, *, where=None):
        return jnp.where(where, log_probs - reference_log_probs, 0)
    """
)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "my_penalties.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


def test_a_penalty_that_regularises_nothing_fails(jaxgrpo, mine, tmp_path):
    got = jaxgrpo(
        "check", "my_penalties:useless", "--as", "penalty", "--json", "f.json", "--html", "f.html"
    )
    assert got.code == 1
    assert "the expected gradient is zero: k1 used as a loss" in got.out
    (report,) = json.loads((tmp_path / "f.json").read_text())
    assert not report["passed"] and report["claims"] == "reverse_kl"
    failed = [finding["name"] for finding in report["findings"] if not finding["passed"]]
    assert "expected gradient, one step" in failed
    page = (tmp_path / "f.html").read_text()
    assert "my_penalties:useless" in page and "regularises nothing" in page
    assert "http" not in page


def test_the_right_one_passes_and_a_wrong_claim_does_not(jaxgrpo, mine):
    got = jaxgrpo("check", "my_penalties:good", "--as", "penalty")
    assert got.code == 0, got.out
    assert "every property holds" in got.out
    got = jaxgrpo("check", "my_penalties:good", "--as", "penalty", "--claims", "forward_kl")
    assert got.code == 1
    assert "that of KL(policy || reference), and not that of KL(reference || policy)" in got.out
    got = jaxgrpo("check", "my_penalties:good", "--as", "penalty", "--option", "scale=3")
    assert got.code == 1
    assert "3 times that of KL(policy || reference)" in got.out


def test_the_list_names_everything_with_its_source(jaxgrpo):
    got = jaxgrpo("check", "--list")
    assert got.code == 0
    for words in ("atr: ", "arXiv:2602.05494", "claims policy_gradient", "options: delta=0.0231"):
        assert words in got.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["art"], "no operator 'art'; did you mean 'atr'?"),
        (["atr", "--as", "loses"], "no family 'loses'; did you mean 'loss'?"),
        (["atr", "--claims", "x"], "claims must be one of"),
        (["atr", "--option", "delta"], "--option wants NAME=VALUE, got 'delta'"),
        (["atr", "--option", "delta=-1"], "delta must be at least 0, got -1"),
        (["atr", "--option", "delta=x"], "delta must be float, got 'x'"),
        (["loss", "--claims", "none"], "go with one operator"),
        (["atr", "--json", "no/such/folder/f"], "wanted a file in a folder that exists"),
        (["nowhere:f"], "cannot be imported"),
    ],
)
def test_bad_command_lines_are_one_line(jaxgrpo, words, message):
    got = jaxgrpo("check", *words)
    assert got.code == 2
    assert message in got.err and got.err.count("\n") == 1
