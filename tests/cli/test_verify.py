"""`jaxgrpo verify`."""

import io
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("completion", "gold", "code", "shown"),
    [
        (r"so \boxed{\frac{1}{2}}", "0.5", 0, "right  extracted '\\\\frac{1}{2}'  outcome right"),
        (r"so \boxed{3}", "4", 1, "wrong  extracted '3'  outcome wrong"),
        ("no idea", "4", 1, "wrong  extracted None  outcome no_answer"),
        ("-5", "-5", 0, "right  extracted '-5'"),
    ],
)
def test_verdicts(jaxgrpo, completion, gold, code, shown):
    told = jaxgrpo("verify", completion, gold)
    assert told.code == code
    assert told.out.startswith(shown)
    assert told.out.endswith(" ms\n")
    assert told.err == ""


def test_an_explanation_says_what_was_found_where(jaxgrpo):
    told = jaxgrpo("verify", "--explain", r"either 4 or \boxed{42}", "41")
    assert told.code == 1
    lines = dict(line.split(maxsplit=1) for line in told.out.splitlines())
    assert lines["verdict"] == "wrong"
    assert lines["found"] == "'42', marked as the answer"
    assert lines["gold"] == "'41'"
    assert lines["outcome"] == "wrong: the final answer is another one"


def test_a_completion_may_come_from_a_pipe(jaxgrpo, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("many lines\n#### 42\n"))
    assert jaxgrpo("verify", "-", "42").code == 0


def test_no_jax_and_no_waiting():
    script = (
        "import sys, time\n"
        "start = time.perf_counter()\n"
        "from jaxgrpo.cli.main import main\n"
        "assert main(['verify', '#### 42', '42']) == 0\n"
        "print(time.perf_counter() - start)\n"
        "assert not {'jax', 'numpy', 'transformers'} & sys.modules.keys()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    assert float(process.stdout.splitlines()[-1]) < 1.0
