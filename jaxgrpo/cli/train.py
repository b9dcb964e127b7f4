"""`jaxgrpo train CONFIG [--room.field value ...]`."""

import sys
from collections.abc import Sequence

from jaxgrpo.cli.arguments import Parser

EXAMPLES = """\
  jaxgrpo train configs/quickstart.yaml
  jaxgrpo train configs/quickstart.yaml --seed 1 --run.directory runs/seed1
  jaxgrpo train configs/quickstart.yaml --loss.name ppo_clip --loss.options '{clip_high: 0.28}'
  jaxgrpo train configs/quickstart.yaml --dry-run

The same command goes on where an interrupted run stopped.
"""


def main(words: Sequence[str]) -> int:
    """Train, or say what would be trained."""
    parser = Parser("train", "Train a policy with GRPO.", EXAMPLES)
    parser.usage = "jaxgrpo train CONFIG [--dry-run] [--plain] [--room.field value ...]"
    parser.add_argument("config", help="a YAML file")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the resolved config and the plan, and stop"
    )
    parser.add_argument(
        "--plain", action="store_true", help="a line a step even where there is a terminal"
    )
    arguments, overrides = parser.parse_known_args(words)

    from jaxgrpo.cli.console import LiveConsole, PlainConsole, print_plan
    from jaxgrpo.config import dump, load
    from jaxgrpo.run import build_program, make_plan, train

    experiment = load(arguments.config, overrides)
    if arguments.dry_run:
        print(dump(experiment))
        print_plan(make_plan(build_program(experiment)).facts)
        return 0
    live = sys.stdout.isatty() and not arguments.plain
    with LiveConsole() if live else PlainConsole() as console:
        train(experiment, console)
        console.where(experiment.run.directory)
    return 0
