"""`jaxgrpo sample RUN_OR_FOLDER "PROMPT" ...`."""

import sys
from collections.abc import Sequence

from jaxgrpo.cli.arguments import Parser, changed, natural, positive

EXAMPLES = """\
  jaxgrpo sample runs/quickstart "1234+5678="
  jaxgrpo sample runs/quickstart "1234+5678=" "1000+2345=" -n 4 --temperature 0.7
  jaxgrpo sample path/to/Qwen3-0.6B "The capital of France is" --max-new-tokens 32 --temperature 0
"""


def main(words: Sequence[str]) -> int:
    """Print completions."""
    parser = Parser(
        "sample",
        "Complete prompts. A run's prompts go into its template, and its completions are drawn as "
        "in training unless options say otherwise.",
        EXAMPLES,
    )
    parser.add_policy()
    parser.add_argument("prompts", metavar="PROMPT", nargs="+", help="what is completed")
    parser.add_argument("-n", "--samples", type=positive, default=1, help="completions a prompt")
    parser.add_argument("--temperature", type=float, help="0 takes the most likely token")
    parser.add_argument("--top-k", type=int, help="draw from that many most likely tokens only")
    parser.add_argument("--top-p", type=float, help="from the smallest set this probable only")
    parser.add_argument("--min-p", type=float, help="from tokens this likely, relative to the top")
    parser.add_argument("--max-new-tokens", type=int, help="completions are cut there")
    parser.add_argument("--seed", type=natural, default=0, help="the same seed, the same text")
    arguments = parser.parse_args(words)

    import jax

    from jaxgrpo.data import Example, Prompt
    from jaxgrpo.rollouts import pad_prompts
    from jaxgrpo.run import load_policy
    from jaxgrpo.sampling import SamplingConfig, StopReason

    changed(SamplingConfig(), arguments)  # before a checkpoint is read for nothing
    loaded = load_policy(arguments.policy, best=arguments.best)
    run = loaded.experiment
    sampling = changed(run.rollout.sampling if run else SamplingConfig(), arguments)
    prompts = [
        Prompt(Example(index, f"prompt {index}", text, ""), loaded.encode(text))
        for index, text in enumerate(arguments.prompts)
    ]
    completions = loaded.sampler(sampling)(
        loaded.policy.params,
        pad_prompts(prompts, sampling, loaded.tokenizer.pad_id),
        key=jax.random.key(arguments.seed),
        group_size=arguments.samples,
    )
    rows = zip(completions.tokens, completions.lengths, completions.stop_reasons, strict=True)
    alone = len(completions.lengths) == 1
    for row, (tokens, length, reason) in enumerate(rows):
        prompt, sample = divmod(row, arguments.samples)
        if not alone:
            print(f"--- {arguments.prompts[prompt]!r}, {sample + 1} of {arguments.samples}")
        print(loaded.tokenizer.decode(tokens[:length].tolist()))
        if reason == StopReason.LENGTH:
            print(f"(cut after {length} tokens)", file=sys.stderr)
    return 0
