"""`jaxgrpo VERB ...`: finds the verb's module, and turns errors into one line and an exit code."""

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from jaxgrpo import __version__
from jaxgrpo.core.errors import ExitCode, JaxgrpoError, closest

VERBS = {
    "train": "train a policy with GRPO from a config, or go on where that run stopped",
    "eval": "held-out accuracy of a run or a Hugging Face model, with an interval",
    "sample": "complete prompts",
    "score": "log-probs of a completion, token by token",
    "check": "what gradient an operator has, and whether it is the one it claims",
    "verify": "whether a completion's final answer is right, and what was made of it",
    "export": "write a run's policy as a Hugging Face folder",
    "atlas": "pictures of what the operators do with a token's ratio",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code.

    0 done, 2 bad config or command line, 75 stopped after a good save, 77 a host problem, 78
    stopped on numbers, 79 nothing to do.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # A verb's module is imported only when it is the one asked for: `verify` needs no JAX.
    if words and not words[0].startswith("-"):
        return _run(words[0], words[1:])
    parser = argparse.ArgumentParser(
        prog="jaxgrpo",
        description="GRPO training in JAX, with provable divergence and clipping operators.",
        epilog="\n".join(f"  {verb:<8} {what}" for verb, what in VERBS.items())
        + "\n\n`jaxgrpo VERB --help` shows a verb's options and an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="jaxgrpo VERB ...",
    )
    parser.add_argument("--version", action="version", version=f"jaxgrpo {__version__}")
    _, unknown = parser.parse_known_args(words)
    if unknown:
        return _fail(f"unknown option {unknown[0]}; see `jaxgrpo --help`", ExitCode.USER)
    parser.print_help()
    return ExitCode.USER if not words else ExitCode.DONE


def _run(verb: str, words: Sequence[str]) -> int:
    if verb not in VERBS:
        known = ", ".join(VERBS)
        return _fail(f"no verb {verb!r}{closest(verb, VERBS)} (verbs: {known})", ExitCode.USER)
    # Where `module:function` in a config is looked for, as `python -m jaxgrpo` does by itself.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = importlib.import_module(f"jaxgrpo.cli.{verb}")
    try:
        return module.main(words)
    except JaxgrpoError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        return ExitCode.DONE
    except OSError as error:
        # A full disk, a read-only folder, a folder where a file should be: the host's to put right.
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", ExitCode.HOST)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        return _fail(
            f"out of memory ({str(error)[:300] or 'on the host'}); train with more "
            "training.micro_batches or fewer training.chunk_tokens, complete fewer at once",
            ExitCode.HOST,
        )


def _out_of_memory(error: Exception) -> bool:
    """JAX has no exception of its own for it, and isn't imported here."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError")
        and ("resource_exhausted" in words or "out of memory" in words)
    )


def _fail(message: str, code: int) -> int:
    # One line, whatever a user's module or a library put into its message.
    print(f"jaxgrpo: {' '.join(message.split())}", file=sys.stderr)
    return code
