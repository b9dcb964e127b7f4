"""`jaxgrpo score RUN_OR_FOLDER --prompt P --completion C`."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from jaxgrpo.cli.arguments import Parser

EXAMPLES = """\
  jaxgrpo score runs/quickstart --prompt "1234+5678=" --completion "#### 6912"
  jaxgrpo score runs/quickstart --data pairs.jsonl --json > scores.jsonl

A line of pairs.jsonl: {"prompt": "1234+5678=", "completion": "#### 6912"}
"""


def main(words: Sequence[str]) -> int:
    """Print log-probs token by token, in nats, and perplexity."""
    parser = Parser(
        "score",
        "Log-probs of completions after their prompts, at temperature 1. A run's prompts go into "
        "its template.",
        EXAMPLES,
    )
    parser.add_policy()
    parser.add_argument("--prompt", help="what comes before")
    parser.add_argument("--completion", help="what is scored")
    parser.add_argument("--data", metavar="FILE.jsonl", help="many of both")
    parser.add_argument("--end", action="store_true", help="score the stop token after it too")
    parser.add_argument("--json", action="store_true", help="a JSON object a completion")
    arguments = parser.parse_args(words)
    both = arguments.prompt is not None and arguments.completion is not None
    neither = arguments.prompt is None and arguments.completion is None
    if not (both if arguments.data is None else neither):
        parser.error("give --prompt and --completion, or --data alone")

    from jaxgrpo.data import JsonlSource
    from jaxgrpo.run import load_policy
    from jaxgrpo.run.scoring import score_completions

    pairs: list[tuple[Any, Any]] = [(arguments.prompt, arguments.completion)]
    if arguments.data is not None:
        rows = JsonlSource(arguments.data, {"question": "prompt", "answer": "completion"})
        pairs = [(rows[index].question, rows[index].answer) for index in range(len(rows))]
    loaded = load_policy(arguments.policy, best=arguments.best)
    scored = score_completions(loaded, pairs, end=arguments.end, on_progress=_progress)
    total = count = 0
    for (prompt, completion), one in zip(pairs, scored, strict=True):
        total, count = total + one.total, count + len(one.tokens)
        facts: dict[str, Any] = {"total_nats": one.total, "perplexity": one.perplexity}
        if arguments.json:
            row = {"prompt": prompt, "completion": completion, "tokens": list(one.tokens)}
            row |= {"log_probs": one.log_probs.tolist(), **facts}
            print(json.dumps(row, ensure_ascii=False))
            continue
        if len(pairs) == 1:
            print(f"{'nats':>10}  {'token':>7}  text")
            for token, log_prob in zip(one.tokens, one.log_probs, strict=True):
                print(f"{log_prob:10.4f}  {token:>7}  {loaded.tokenizer.decode([token])!r}")
        print(
            f"{one.total:.4f} nats in {len(one.tokens)} tokens, perplexity {one.perplexity:.4f}"
            + (f"  {prompt!r} {completion!r}" if len(pairs) > 1 else "")
        )
    if len(pairs) > 1 and not arguments.json:
        print(f"all: {total:.4f} nats in {count} tokens, {total / count:.4f} a token")
    return 0


def _progress(done: int, total: int) -> None:
    if total > 1:
        print(f"scored {done} of {total}", file=sys.stderr)
