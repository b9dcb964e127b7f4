"""`python -m jaxgrpo.bench NAME [options]`."""

import importlib
import sys
from collections.abc import Sequence

from jaxgrpo.core.errors import ExitCode, closest

BENCHMARKS = {
    "answers": "the answer checker beside math-verify: verdicts and speed",
    "grpo": "one GRPO step: decoding, update, their shares of the matmul rate",
    "operators": "every operator beside a plain PPO clip: time and temporaries",
}


def main(words: Sequence[str]) -> int:
    """Run one benchmark; its own `--help` says more."""
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m jaxgrpo.bench NAME [--json FILE]\n")
        for name, what in BENCHMARKS.items():
            print(f"  {name:<10} {what}")
        return ExitCode.DONE if words else ExitCode.USER
    if words[0] not in BENCHMARKS:
        print(f"no benchmark {words[0]!r}{closest(words[0], BENCHMARKS)}", file=sys.stderr)
        return ExitCode.USER
    return importlib.import_module(f"jaxgrpo.bench.{words[0]}").main(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
