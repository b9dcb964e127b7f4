"""A run so small that it takes seconds, and a process that runs it and may be killed."""

TINY = """\
seed: 3
model:
  decoder: {layers: 1, hidden_size: 16, heads: 2, kv_heads: 1, head_size: 8, mlp_size: 32}
data:
  train: {task: arithmetic, size: 64, options: {digits: 2, working_fraction: 0.0}}
  eval: {task: arithmetic, size: 6, options: {digits: 2, working_fraction: 0.0}}
  max_prompt_tokens: 8
warmup: {steps: 4, batch_size: 8, optimizer: {learning_rate: 1e-2}}
rollout:
  prompts_per_step: 4
  group_size: 2
  sampling: {max_new_tokens: 10, decode_chunk: 4, length_buckets: [10]}
rewards: {functions: [{name: "jaxgrpo_test_rewards:digits"}], workers: 1}
training: {steps: 6, minibatches: 2}
optimizer: {learning_rate: 1e-2}
loss: {penalty: {coefficient: 0.01}}
evaluation:
  every_steps: 2
  sampling: {temperature: 0.0, max_new_tokens: 10, decode_chunk: 4, length_buckets: [10]}
checkpoints: {every_steps: 2}
run: {directory: unset, record_every: 2}
"""

# Several batches of prompts a step, weights and masks over the anchor pass, shaped rewards.
EVERYTHING = (
    TINY.replace("  group_size: 2\n", "  group_size: 2\n  dynamic_sampling: {enabled: true}\n")
    .replace("workers: 1}", "workers: 1, transforms: [{name: unlikeliness}]}")
    .replace(
        "loss: {penalty",
        "loss: {weights: [{name: truncated_weights}, {name: geometric_mask, denominator: counted, "
        "options: {low: 0.9, high: 1.1}}], top_entropy_fraction: 0.5, entropy_bonus: 0.01, penalty",
    )
    .replace("training: {steps: 6", "training: {steps: 4")
    .replace("checkpoints: {every_steps: 2}", "checkpoints: {every_steps: 1, max_to_keep: 1}")
    + "advantage_transforms: [{name: clipped, options: {low: -2.0}}]\n"
)

REWARDS = '''\
"""Reward functions that the tests name in their configs."""


def digits(completion, *, answer):
    """The share of digits: something that an untrained model gets some of."""
    return sum(character.isdigit() for character in completion) / 8


def column(completion, *, level):
    return 1.0


def broken(completion, *, answer):
    raise RuntimeError("planted")
'''

RUNNER = '''\
"""Train argv[1] in folder argv[2]; at event argv[3], SIGKILL or SIGTERM the process (argv[4])."""
import os, signal, sys

import jax

jax.config.update("jax_platforms", "cpu")
from jaxgrpo.cli.console import PlainConsole
from jaxgrpo.config import load
from jaxgrpo.core.errors import JaxgrpoError
from jaxgrpo.run import train

config, folder, event, name = sys.argv[1:5]


class Killer(PlainConsole):
    def happen(self, what):
        if what == event:
            os.kill(os.getpid(), getattr(signal, name))

    def warmup_step(self, step, steps, values):
        super().warmup_step(step, steps, values)
        self.happen(f"warmup {step}")

    def step(self, step, steps, values):
        super().step(step, steps, values)
        self.happen(f"step {step}")

    def evaluating(self, label, done, total):
        self.happen(f"evaluating {label}")


try:
    train(load(config, ["--run.directory", folder]), Killer())
except JaxgrpoError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
'''
