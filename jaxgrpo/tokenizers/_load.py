"""A tokenizer by name or folder."""

import os
import pathlib

from jaxgrpo.core.errors import UserError
from jaxgrpo.tokenizers._characters import CharacterTokenizer
from jaxgrpo.tokenizers._huggingface import HuggingFaceTokenizer
from jaxgrpo.tokenizers._protocol import Tokenizer


def load(name_or_directory: str | os.PathLike[str]) -> Tokenizer:
    """The built-in tokenizer "characters", or the Hugging Face one in a folder.

    Raises:
      UserError: it is neither, or the folder's files are missing or broken.
    """
    if name_or_directory == "characters":
        return CharacterTokenizer()
    if not pathlib.Path(name_or_directory).is_dir():
        raise UserError(
            f"tokenizer: wanted 'characters' or a folder with a tokenizer.json, "
            f"got {os.fspath(name_or_directory)!r}"
        )
    return HuggingFaceTokenizer(name_or_directory)
