"""Whatever is wrong with a command line: exit code 2, one line on stderr, nothing else."""

import json
import pathlib
import shutil
import subprocess
import sys

import jax
import pytest

from jaxgrpo.cli.main import VERBS, main
from jaxgrpo.run import load_policy

REPOSITORY = pathlib.Path(__file__).parents[2]
OURS = ["eval", "sample", "score", "verify", "export", "atlas"]


def refused(told, *fragments):
    assert told.code == 2, told.err
    assert told.out == ""
    assert told.err.startswith("jaxgrpo: ")
    assert told.err.count("\n") == 1
    for fragment in fragments:
        assert fragment in told.err


@pytest.mark.parametrize("verb", OURS)
def test_help_shows_an_example(verb, capsys):
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "examples:\n" in out
    assert out.count(f"  jaxgrpo {verb} ") >= 1


def test_every_verb_is_listed(jaxgrpo):
    assert set(OURS) < VERBS.keys()
    told = jaxgrpo("sampel", "x")
    refused(told, "no verb 'sampel'; did you mean 'sample'?")


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["train"], "required: config"),
        (["--nope"], "unknown option --nope"),
        (["sample", "RUN", "x", "--max-new-tokens", "99999999999"], "must be below 2**31"),
        (["sample"], "required: RUN_OR_FOLDER, PROMPT"),
        (["sample", "RUN"], "required: PROMPT"),
        (["sample", "RUN", "x", "--tempreature", "1"], "unrecognized arguments: --tempreature"),
        (["sample", "RUN", "x", "--temperature", "hot"], "invalid float value: 'hot'"),
        (["sample", "RUN", "x", "--temperature", "-1"], "temperature must not be negative"),
        (["sample", "RUN", "x", "--top-p", "0"], "top_p must be in (0, 1], got 0"),
        (
            ["sample", "RUN", "x", "-n", "9999999999"],
            "wanted a whole number from 1 on, below 2**31",
        ),
        (["sample", "RUN", "x", "-n", "0"], "from 1 on, below 2**31, got '0'"),
        (["sample", "RUN", "x", "--max-new-tokens", "0"], "max_new_tokens must be at least 1"),
        (["sample", "FIVE", ""], "the prompt '' has no tokens"),
        (["sample", "FIVE", "x", "--best"], "is no run: it has no best checkpoint"),
        (["eval"], "required: RUN_OR_FOLDER"),
        (["eval", "FIVE"], "has no held-out prompts of its own: give --data"),
        (["eval", "FIVE", "--data", "nowhere.jsonl"], "nowhere.jsonl: cannot read"),
        (["eval", "RUN", "--data", "BROKEN"], "broken.jsonl:2: not a line of JSON"),
        (["eval", "RUN", "--data", "PAIRS"], "pairs.jsonl:1: no field 'question'"),
        (["eval", "RUN", "--samples", "2"], "2 samples at temperature 0 are all the same"),
        (["eval", "RUN", "--limit", "0"], "wanted a whole number from 1 on"),
        (["eval", "RUN", "--template", "Q"], "--template must contain {question}"),
        (["eval", "RUN", "--json", "nowhere/x.json"], "wanted a file in a folder that exists"),
        (["eval", "RUN", "--items", "."], "wanted a file in a folder that exists"),
        (["score"], "required: RUN_OR_FOLDER"),
        (["score", "RUN"], "give --prompt and --completion, or --data alone"),
        (["score", "RUN", "--prompt", "x"], "give --prompt and --completion"),
        (["score", "RUN", "--prompt", "x", "--data", "PAIRS"], "or --data alone"),
        (["score", "RUN", "--prompt", "x", "--completion", ""], "the completion '' has no tokens"),
        (["score", "RUN", "--data", "QUESTIONS"], "questions.jsonl:1: no field 'prompt'"),
        (["verify"], "required: COMPLETION, GOLD"),
        (["verify", "5"], "required: GOLD"),
        (["verify", "5", "5", "5"], "unrecognized arguments: 5"),
        (["export", "RUN"], "required: DIR"),
        (["export", "RUN", "FIVE"], "there is something already"),
    ],
)
def test_a_mistake_is_one_line(words, fragment, jaxgrpo, run, five, tmp_path):
    (tmp_path / "broken.jsonl").write_text('{"question": "1", "answer": "1"}\n{\n')
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "1", "completion": "1"}\n')
    (tmp_path / "questions.jsonl").write_text('{"question": "1", "answer": "1"}\n')
    paths = {"RUN": run, "FIVE": five, "BROKEN": tmp_path / "broken.jsonl"}
    paths |= {"PAIRS": tmp_path / "pairs.jsonl", "QUESTIONS": tmp_path / "questions.jsonl"}
    refused(jaxgrpo(*[paths.get(word, word) for word in words]), fragment)


@pytest.mark.parametrize("verb", ["eval", "sample", "score", "export"])
def test_a_folder_that_is_no_policy(verb, jaxgrpo, tmp_path):
    rest = {
        "eval": [],
        "sample": ["x"],
        "score": ["--prompt", "x", "--completion", "y"],
        "export": [tmp_path / "out"],
    }[verb]
    refused(jaxgrpo(verb, tmp_path / "nowhere", *rest), "neither a run (config.yaml) nor a Hug")
    refused(jaxgrpo(verb, tmp_path, *rest), "neither a run (config.yaml) nor a Hugging Face model")


def test_a_run_that_is_not_whole(jaxgrpo, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    newest = copy / "checkpoints" / "00000002"
    (newest / "manifest.json").unlink()
    # The older one is there still.
    assert load_policy(copy).step == 1
    shutil.rmtree(copy / "checkpoints")
    refused(jaxgrpo("sample", copy, "x"), "has no checkpoint yet")
    refused(jaxgrpo("sample", copy, "x", "--best"), "has no best checkpoint")
    (copy / "config.yaml").write_text("seed: [")
    refused(jaxgrpo("sample", copy, "x"), "config.yaml: line 1")


def test_a_run_whose_checkpoints_are_damaged_is_not_taken_for_a_new_one(jaxgrpo, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    for folder in (copy / "checkpoints").iterdir():
        (folder / "meta.json").write_text((folder / "meta.json").read_text().replace("16", "32"))
    told = jaxgrpo("sample", copy, "x")
    assert (told.code, told.out) == (77, "")
    assert told.err.splitlines()[-1].startswith("jaxgrpo: no checkpoint is whole")


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line(jaxgrpo, run):
    told = jaxgrpo("eval", run, "--limit", "1", "--json", "/dev/full")
    assert (told.code, told.err.splitlines()[-1]) == (77, "jaxgrpo: No space left on device")


@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nallocating 64 bytes."),
        MemoryError(),
    ],
)
def test_too_much_for_the_memory_is_one_line(jaxgrpo, monkeypatch, error):
    def fail(words):
        raise error

    monkeypatch.setattr("jaxgrpo.cli.verify.main", fail)
    told = jaxgrpo("verify", "1", "1")
    assert told.code == 77
    assert told.err.startswith("jaxgrpo: out of memory (")
    assert told.err.count("\n") == 1


def test_other_errors_of_jax_keep_their_traceback(jaxgrpo, monkeypatch):
    def fail(words):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr("jaxgrpo.cli.verify.main", fail)
    with pytest.raises(jax.errors.JaxRuntimeError):
        jaxgrpo("verify", "1", "1")


def test_characters_that_the_tokenizer_does_not_know_are_said(jaxgrpo, run, caplog):
    assert jaxgrpo("sample", run, "1+é=").code == 0
    assert "'1+é=' holds characters that the tokenizer does not know" in caplog.text


def test_a_folder_without_its_parts(jaxgrpo, five, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(five, copy)
    (copy / "tokenizer.json").unlink()
    refused(jaxgrpo("sample", copy, "x"), "no tokenizer.json there")
    shutil.copy(five / "tokenizer.json", copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"vocab_size": 50}))
    refused(jaxgrpo("sample", copy, "x"), "has shape [99, 16], config.json wants [50, 16]")


def test_mistakes_are_found_before_anything_heavy_is_imported():
    script = (
        "import sys\n"
        "from jaxgrpo.cli.main import main\n"
        f"for verb in {OURS}:\n"
        "    assert main([verb]) == 2\n"
        "    assert not {'jax', 'numpy', 'orbax'} & sys.modules.keys(), verb\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
