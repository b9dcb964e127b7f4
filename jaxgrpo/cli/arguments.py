"""What the verbs' command lines share: one line for a mistake, and the options of sampling."""

import argparse
import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any, NoReturn

from jaxgrpo.core.errors import UserError

if TYPE_CHECKING:
    from jaxgrpo.sampling import SamplingConfig

POLICY = "a run folder, or a Hugging Face folder with model and tokenizer"


class Parser(argparse.ArgumentParser):
    """A verb's parser; a mistake is one line that says where help is."""

    def __init__(self, verb: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"jaxgrpo {verb}",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise what the command line prints with exit code 2."""
        raise UserError(f"{message}; see `{self.prog} --help`")

    def add_policy(self) -> None:
        """The policy to use, and which checkpoint of a run."""
        self.add_argument("policy", metavar="RUN_OR_FOLDER", help=POLICY)
        self.add_argument(
            "--best", action="store_true", help="the run's best checkpoint instead of its newest"
        )


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0)


def changed(sampling: "SamplingConfig", arguments: argparse.Namespace) -> "SamplingConfig":
    """The sampling config with the options that were given, which are named like its fields.

    Raises:
      UserError: a value is out of range.
    """
    names = [field.name for field in dataclasses.fields(sampling)]
    given: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in names
        if getattr(arguments, name, None) is not None
    }
    try:
        return dataclasses.replace(sampling, **given)
    except ValueError as error:
        raise UserError(str(error)) from error


def writable(path: str | None) -> pathlib.Path | None:
    """The path of a file to be written later.

    Raises:
      UserError: its folder doesn't exist, or it is a folder itself.
    """
    if path is None:
        return None
    file = pathlib.Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise UserError(f"{file}: wanted a file in a folder that exists")
    return file


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value < 2**31:
        raise argparse.ArgumentTypeError(
            f"wanted a whole number from {least} on, below 2**31, got {text!r}"
        )
    return value
