"""`jaxgrpo eval RUN_OR_FOLDER [--data FILE.jsonl]`."""

import argparse
import dataclasses
import json
import math
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxgrpo.cli.arguments import Parser, changed, natural, positive, writable
from jaxgrpo.core.errors import UserError

if TYPE_CHECKING:
    from jaxgrpo.data import EncodedSource
    from jaxgrpo.evaluation import Evaluation
    from jaxgrpo.run import LoadedPolicy

EXAMPLES = """\
  jaxgrpo eval runs/quickstart
  jaxgrpo eval runs/quickstart --samples 4 --temperature 1.0 --limit 64
  jaxgrpo eval path/to/Qwen3-0.6B --data gsm8k.jsonl --json result.json --items items.jsonl

A line of gsm8k.jsonl: {"question": "...", "answer": "18"}
"""
_MAX_PROMPT_TOKENS = 8192


def main(words: Sequence[str]) -> int:
    """Print held-out accuracy with its interval."""
    arguments = _parse(words)
    json_file, items_file = writable(arguments.json), writable(arguments.items)

    import jax
    import numpy as np

    from jaxgrpo.evaluation import EvaluationConfig, accuracy_interval, evaluate
    from jaxgrpo.rewards import RewardConfig, RewardPool
    from jaxgrpo.run import load_policy

    changed(EvaluationConfig().sampling, arguments)  # before a checkpoint is read for nothing
    loaded = load_policy(arguments.policy, best=arguments.best)
    run = loaded.experiment
    config = run.evaluation if run else EvaluationConfig()
    samples = arguments.samples or config.samples
    sampling = changed(config.sampling, arguments)
    if samples > 1 and sampling.temperature == 0:
        raise UserError(
            f"{samples} samples at temperature 0 are all the same: give a --temperature above 0"
        )
    name, prompts = _prompts(arguments, loaded)
    rewards = run.rewards if run else RewardConfig()
    with RewardPool(rewards) as pool:
        pool.check()
        evaluation = evaluate(
            loaded.sampler(sampling),
            loaded.policy.params,
            prompts,
            loaded.tokenizer,
            pool,
            measure=rewards.functions[0].name,
            key=jax.random.key(arguments.seed),
            samples=samples,
            batch_size=arguments.batch_size or config.batch_size,
            on_progress=_progress,
        )
    correct = np.array([item.correct for item in evaluation.items]).reshape(-1, samples)
    facts = {
        "policy": arguments.policy,
        "step": loaded.step,
        "data": name,
        "prompts": len(prompts),
        "samples": samples,
        "temperature": sampling.temperature,
        "seed": arguments.seed,
        "measure": rewards.functions[0].name,
        **evaluation.facts(),
        "interval": accuracy_interval(correct),
        "unscored": sum(math.isnan(item.reward) for item in evaluation.items),
        "tokens": evaluation.tokens,
        "seconds": evaluation.seconds,
    }
    _show(facts)
    if json_file is not None:
        json_file.write_text(json.dumps(_plain(facts), indent=2) + "\n")
    if items_file is not None:
        _write_items(items_file, evaluation)
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        "eval",
        "Complete held-out prompts and say how many are right: avg@N with a 95 % interval. A run "
        "is judged by its own rewards, a folder by its final answers.",
        EXAMPLES,
    )
    parser.add_policy()
    parser.add_argument(
        "--data", metavar="FILE.jsonl", help="questions and answers; else the run's held-out ones"
    )
    parser.add_argument("--template", help="the prompt's text around {question}; else the run's")
    parser.add_argument("--samples", type=positive, help="completions a prompt, N")
    parser.add_argument("--temperature", type=float, help="0 takes the most likely token")
    parser.add_argument("--max-new-tokens", type=int, help="completions are cut there")
    parser.add_argument("--limit", type=positive, help="only the first so many prompts")
    parser.add_argument("--batch-size", type=positive, help="prompts at once")
    parser.add_argument("--seed", type=natural, default=0, help="of the sampling")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--items", metavar="FILE.jsonl", help="write every completion there")
    arguments = parser.parse_args(words)
    if arguments.template is not None and "{question}" not in arguments.template:
        parser.error(f"--template must contain {{question}}, got {arguments.template!r}")
    return arguments


def _prompts(arguments: argparse.Namespace, loaded: "LoadedPolicy") -> "tuple[str, EncodedSource]":
    """What the prompts are called, and they themselves."""
    from jaxgrpo.data import EncodedSource, SourceConfig, encode, open_source

    run = loaded.experiment
    source = run.data.eval if run else None
    if arguments.data is not None:
        source = SourceConfig(path=arguments.data)
    if source is None:
        raise UserError(f"{arguments.policy} has no held-out prompts of its own: give --data")
    prompts = encode(
        open_source(source, seed=run.seed if run else 0, split="eval"),
        loaded.tokenizer,
        template=arguments.template or (run.data.template if run else "{question}"),
        max_prompt_tokens=run.data.max_prompt_tokens if run else _MAX_PROMPT_TOKENS,
        on_long=run.data.on_long_prompt if run else "skip",
    )
    if arguments.limit is not None:
        count = min(arguments.limit, len(prompts))
        prompts = EncodedSource([prompts[index] for index in range(count)], prompts.skipped)
    return source.path or source.task or "", prompts


def _show(facts: dict[str, Any]) -> None:
    low, high = facts["interval"]
    step = "" if facts["step"] is None else f" after step {facts['step']}"
    seconds = facts["seconds"]
    lines = {
        "policy": f"{facts['policy']}{step}",
        "data": f"{facts['data']}, {facts['prompts']} prompts, {facts['samples']} samples each, "
        f"temperature {facts['temperature']:g}",
        "accuracy": f"{facts['accuracy']:.1%}, 95 % interval {low:.1%} to {high:.1%} "
        f"({facts['correct']} of {facts['completions']} completions right by {facts['measure']})",
        "mean reward": f"{facts['reward_mean']:.4f}",
        "truncated": f"{facts['truncated_fraction']:.1%} of completions",
        "tokens": f"{facts['tokens']} in {seconds:.1f} s, {facts['tokens'] / seconds:.0f} a second",
    }
    if facts["unscored"]:
        lines["unscored"] = f"{facts['unscored']} completions: their reward functions failed"
    for name, text in lines.items():
        print(f"{name:<11}  {text}")


def _write_items(path: pathlib.Path, evaluation: "Evaluation") -> None:
    with path.open("w", encoding="utf-8") as file:
        for item in evaluation.items:
            row = _plain(dataclasses.asdict(item))
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """With null for nan, which JSON has no word for."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }


def _progress(done: int, total: int) -> None:
    print(f"evaluated {done} of {total} prompts", file=sys.stderr)
