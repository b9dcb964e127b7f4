"""`jaxgrpo export`, and training from what it wrote."""

import json
import os
import shutil

import jax
import numpy as np
import pytest
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from jaxgrpo.checkpoints import Checkpoints
from jaxgrpo.cli.main import main
from jaxgrpo.config import load
from jaxgrpo.models import from_pretrained
from jaxgrpo.run import build_program, load_policy, position


def assert_same(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_transformers_reads_all_of_it(exported):
    config = AutoConfig.from_pretrained(exported)
    assert config.architectures == ["LlamaForCausalLM"]
    assert (config.hidden_size, config.num_hidden_layers, config.head_dim) == (16, 2, 8)
    assert (config.eos_token_id, config.pad_token_id, config.bos_token_id) == (1, 0, None)
    tokenizer = AutoTokenizer.from_pretrained(exported)
    assert tokenizer("1+2=", add_special_tokens=False).input_ids == [21, 15, 22, 33]
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 0)
    generation = GenerationConfig.from_pretrained(exported)
    assert (generation.eos_token_id, generation.pad_token_id) == ([1], 0)
    assert generation.do_sample is True


def test_it_holds_the_run_s_newest_parameters(run, exported):
    loaded = load_policy(run)
    assert loaded.step == 2
    # Read with the optimizer and all else that a resumed run needs, they are the same.
    program = build_program(load(run / "config.yaml"))
    with Checkpoints(run / "checkpoints") as checkpoints:
        whole = position.restore(checkpoints, program)
    assert_same(loaded.policy.params, whole.state.params)
    assert_same(loaded.policy.params, from_pretrained(exported).params)
    # And an exported folder, exported again, is the same folder.
    again = exported.parent / "again"
    assert main(["export", os.fspath(exported), os.fspath(again)]) == 0
    for path in exported.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_the_best_checkpoint_is_the_one_with_the_best_metric(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    # The newest of equals.
    best = max(lines, key=lambda line: (line["reward/mean"], line["step"]))
    assert load_policy(run, best=True).step == best["step"]


def test_what_is_there_already_stays(jaxgrpo, run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    told = jaxgrpo("export", run, tmp_path)
    assert told.code == 2
    assert "there is something already" in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert jaxgrpo("export", run, empty).code == 0
    assert (empty / "config.json").is_file()
    assert not list(tmp_path.glob("*.partial"))


@pytest.fixture(scope="module")
def from_folder(workplace, exported):
    """Words that train from a copy of the exported folder, and the copy."""
    start = workplace / "start"
    shutil.copytree(exported, start)
    text = (workplace / "tiny.yaml").read_text().splitlines()
    decoder = next(i for i, line in enumerate(text) if line.startswith("  decoder:"))
    text[decoder] = f"  path: {start}"
    text[0] = f"tokenizer: {exported}"
    (workplace / "start.yaml").write_text("\n".join(text))
    config, directory = workplace / "start.yaml", workplace / "from_folder"
    words = ["train", os.fspath(config), "--plain", "--run.directory", os.fspath(directory)]
    return words, directory, start


def test_a_run_starts_from_a_folder_and_goes_on_without_it(jaxgrpo, from_folder):
    words, directory, start = from_folder
    assert jaxgrpo(*words, "--training.steps", "0").code == 0
    assert_same(load_policy(directory).policy.params, from_pretrained(start).params)
    # From here on the checkpoint is the model, and the folder says only what shape it has.
    (start / "model.safetensors").unlink()
    told = jaxgrpo(*words, "--training.steps", "1")
    assert told.code == 0, told.err
    assert json.loads((directory / "summary.json").read_text())["steps"] == 1
    shutil.rmtree(start)
    after = load_policy(directory)
    assert after.step == 1
    assert after.policy.config.parameter_dtype == "float32"
    # A fresh run needs the weights, and says so before anything is written.
    fresh = directory.parent / "fresh"
    told = jaxgrpo(*words[:-1], fresh)
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "start/config.json: cannot be read" in told.err
    assert not fresh.exists()
