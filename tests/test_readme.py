"""The README's commands and its Python are run, and its table is made from the operators."""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from jaxgrpo.bench.__main__ import main as bench
from jaxgrpo.cli import operators
from jaxgrpo.cli.main import main

REPOSITORY = pathlib.Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()

BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    if line.strip()
]
LAUNCHERS = [["./launch/quickstart"], ["./launch/test"]]

# What launch/environment makes, for the shell that types the rest.
ACTIVATE = ["source", ".venv/bin/activate"]

# What makes the documented training commands small enough for a test.
SMALL = [
    *["--warmup.steps", "2", "--warmup.batch_size", "8", "--training.steps", "1"],
    *["--rollout.prompts_per_step", "4", "--rollout.group_size", "2", "--run.record_every", "1"],
    *["--data.train.size", "32", "--data.eval.size", "8", "--mesh.model", "8"],
    *["--model.decoder.layers", "1", "--model.decoder.hidden_size", "16"],
    *["--model.decoder.heads", "2", "--model.decoder.kv_heads", "1"],
    *["--model.decoder.head_size", "8", "--model.decoder.mlp_size", "32"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with the configs and a run where the README says that it is."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "configs").symlink_to(REPOSITORY / "configs")
    (own_code,) = [text for _, text in BLOCKS if text.startswith("# mine.py")]
    (folder / "mine.py").write_text(own_code)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "configs/quickstart.yaml", *SMALL]) == 0
    return folder


def commands(program):
    return [words for words in COMMANDS if words[: len(program)] == program]


def test_every_command_is_one_that_is_tested_here():
    bench_commands = commands(["python", "-m", "jaxgrpo.bench"])
    tested = [*commands(["jaxgrpo"]), *bench_commands, *LAUNCHERS, ACTIVATE]
    assert sorted(tested) == sorted(COMMANDS)


@pytest.mark.parametrize("words", commands(["jaxgrpo"]), ids=lambda words: words[1])
def test_verbs(words, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    extra = SMALL if words[1] == "train" else []
    assert main([*words[1:], *extra]) == 0
    assert capsys.readouterr().out.strip()


def test_the_benchmark(monkeypatch, tmp_path, capsys):
    (words,) = commands(["python", "-m", "jaxgrpo.bench"])
    written = tmp_path / "figures.json"
    assert bench([*words[3:], "--repeats", "1", "--json", str(written)]) == 0
    assert "update_share" in capsys.readouterr().out
    assert json.loads(written.read_text())["step_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "arguments"),
    [(LAUNCHERS[0], ["--dry-run"]), (LAUNCHERS[1], ["tests/test_import.py"])],
    ids=["quickstart", "test"],
)
def test_launchers(words, arguments):
    # In the environment that runs this test, which launch/test has made.
    environment = {**os.environ, "JAXGRPO_VENV": sys.prefix}
    done = subprocess.run(
        [*words, *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"run folder +runs/quickstart|passed", done.stdout)


def test_the_python_block():
    text = next(text for language, text in BLOCKS if language == "python")
    code = [line for line in text.splitlines() if line.strip()]
    assert len(code) <= 10
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, "README.md", "exec"), {})
    interval, gradient = output.getvalue().splitlines()
    assert interval == "ratios kept in [0.800, 1.231]"
    # -w A inside, 0 where the move leads out: the first token rose too far for its advantage.
    assert re.match(r"\[\[ *-?0\. ", gradient)


def test_the_operator_table_is_the_cards():
    (table,) = re.findall(r"<!-- operators -->\n(.*?)\n<!-- /operators -->", README, re.DOTALL)
    assert table == "\n".join(operators.rows())


def test_no_placeholder_is_left():
    assert not re.findall(r"^[A-Z]+(?:_[A-Z]+)+$", README, re.MULTILINE)


def test_links_into_the_repository_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (REPOSITORY / target).exists(), target
