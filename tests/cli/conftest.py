"""A run trained through the command line, and a model whose every answer is known."""

import dataclasses
import os
import pathlib

import jax
import numpy as np
import pytest

from jaxgrpo.cli.main import main
from jaxgrpo.models import DecoderConfig, Policy, abstract_params, save_pretrained
from jaxgrpo.tokenizers import CharacterTokenizer

TINY = """\
seed: 3
model:
  decoder: {layers: 2, hidden_size: 16, heads: 2, kv_heads: 1, head_size: 8, mlp_size: 24}
data:
  train: {task: arithmetic, size: 32, options: {digits: 2, working_fraction: 0.0}}
  eval: {task: arithmetic, size: 6, options: {digits: 2, working_fraction: 0.0}}
  template: "Q:{question}"
  max_prompt_tokens: 8
rollout:
  prompts_per_step: 4
  group_size: 2
  sampling: {max_new_tokens: 8, decode_chunk: 8, length_buckets: [8]}
rewards: {functions: [{name: answer}], workers: 1}
training: {steps: 2}
optimizer: {learning_rate: 1e-2}
evaluation: {sampling: {temperature: 0.0, max_new_tokens: 8, decode_chunk: 8, length_buckets: [8]}}
checkpoints: {every_steps: 1, best_metric: reward/mean}
run: {directory: unset, record_every: 0}
"""


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command line gave back."""

    code: int
    out: str
    err: str


@pytest.fixture
def jaxgrpo(capsys):
    """Runs a command line in this process."""

    def call(*words):
        capsys.readouterr()
        code = main([os.fspath(word) for word in words])
        return Command(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.yaml").write_text(TINY)
    return folder


@pytest.fixture(scope="session")
def run(workplace):
    """A finished run; read only."""
    folder = workplace / "run"
    words = ["train", workplace / "tiny.yaml", "--plain", "--run.directory", folder]
    assert main(list(map(os.fspath, words))) == 0
    return folder


@pytest.fixture(scope="session")
def exported(run, workplace):
    """The same policy as a Hugging Face folder; read only."""
    assert main(["export", os.fspath(run), os.fspath(workplace / "exported")]) == 0
    return workplace / "exported"


@pytest.fixture(scope="session")
def five(workplace):
    """A model that says "5" and ends, whatever the prompt; log-odds of 8 against the rest.

    Its blocks add nothing. Every token's embedding is the first axis, that of "5" is the second:
    after the norm a state is 4 along its axis, from which the unembedding makes 8 for the token
    that comes next, and 0 for all others.
    """
    tokenizer = CharacterTokenizer()
    config = DecoderConfig(
        vocabulary_size=tokenizer.vocab_size,
        layers=1,
        hidden_size=16,
        heads=2,
        kv_heads=1,
        head_size=8,
        mlp_size=8,
        norm_epsilon=1e-12,
        tied_embeddings=False,
    )
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), abstract_params(config))
    (digit,) = tokenizer.encode("5")
    params["final_norm"][:] = 1
    params["embedding"][:, 0] = 1
    params["embedding"][digit, :2] = 0, 1
    params["unembedding"][0, digit] = 2
    params["unembedding"][1, tokenizer.stop_ids[0]] = 2
    save_pretrained(Policy(config, params), workplace / "five", stop_ids=tokenizer.stop_ids)
    tokenizer.save(workplace / "five")
    return workplace / "five"
