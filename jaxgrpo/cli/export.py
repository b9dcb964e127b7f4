"""`jaxgrpo export RUN DIR`."""

import pathlib
import shutil
import tempfile
from collections.abc import Sequence

from jaxgrpo.cli.arguments import Parser
from jaxgrpo.core.errors import UserError

EXAMPLES = """\
  jaxgrpo export runs/quickstart exported
  jaxgrpo sample exported '1234+5678='
"""


def main(words: Sequence[str]) -> int:
    """Write a policy as a Hugging Face folder."""
    parser = Parser(
        "export",
        "Write a run's policy as a Hugging Face folder: config, generation config, safetensors "
        "and tokenizer.",
        EXAMPLES,
    )
    parser.add_policy()
    parser.add_argument("directory", metavar="DIR", help="to write; must be empty or not exist")
    arguments = parser.parse_args(words)
    target = pathlib.Path(arguments.directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target}: there is something already; give an empty folder or a new one")

    from jaxgrpo.models import parameter_count, save_pretrained, write_generation_config
    from jaxgrpo.run import load_policy

    loaded = load_policy(arguments.policy, best=arguments.best)
    tokenizer = loaded.tokenizer
    # Beside it and renamed when it is whole: half of an export never lies there.
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    tokens = {"stop_ids": tokenizer.stop_ids, "pad_id": tokenizer.pad_id}
    try:
        save_pretrained(loaded.policy, partial, **tokens)
        tokenizer.save(partial)
        write_generation_config(partial, **tokens)
        # Some writers make files that only their owner can read: a server runs as someone else.
        partial.chmod(0o755)
        for path in partial.iterdir():
            path.chmod(0o644)
        partial.replace(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    step = "" if loaded.step is None else f" after step {loaded.step}"
    print(f"{parameter_count(loaded.policy.config)} parameters{step} in {target}")
    return 0
