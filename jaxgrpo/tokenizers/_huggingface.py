"""A Hugging Face tokenizer folder, read with the `tokenizers` package alone."""

import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from jaxgrpo.core.errors import UserError

_JSON_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "config.json",
)
# What `save` writes again; the generation config because stop ids may stand nowhere else.
_OWN_FILES = (*_JSON_FILES[:4], "chat_template.jinja")


class HuggingFaceTokenizer:
    """The tokenizer.json of a folder, with pad and stop ids from the configs beside it.

    Stop ids are every end token that the folder names, in generation_config.json, config.json,
    tokenizer_config.json or special_tokens_map.json: chat models often list several. Without a
    pad token the first stop id pads.

    Raises:
      UserError: a file is missing or broken, or no end token is named anywhere.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        from tokenizers import Tokenizer

        folder = pathlib.Path(directory)
        if not (folder / "tokenizer.json").is_file():
            raise UserError(f"{folder}: no tokenizer.json there")
        self._files = {
            name: (folder / name).read_bytes() for name in _OWN_FILES if (folder / name).is_file()
        }
        configs = {name: _read_json(folder / name) for name in _JSON_FILES[1:]}
        try:
            self._tokenizer = Tokenizer.from_str(self._files["tokenizer.json"].decode("utf-8"))
        except Exception as error:  # the package raises plain Exception
            raise UserError(f"{folder / 'tokenizer.json'}: {error}") from None
        # A prompt must be neither cut nor padded behind our back.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        if configs["tokenizer_config.json"].get("split_special_tokens"):
            self._tokenizer.encode_special_tokens = True
        self.vocab_size: int = max(self._tokenizer.get_vocab().values()) + 1
        self.stop_ids: tuple[int, ...] = tuple(dict.fromkeys(self._ids(configs, "eos")))
        if not self.stop_ids:
            raise UserError(f"{folder}: no config there names an end (eos) token")
        self.pad_id: int = next(self._ids(configs, "pad"), self.stop_ids[0])

    def _ids(self, configs: dict[str, dict[str, Any]], role: str) -> Iterator[int]:
        """Ids that the configs give a role ("eos", "pad"), the most specific file first."""
        for name in ("generation_config.json", "config.json"):
            value = configs[name].get(f"{role}_token_id")
            for token_id in value if isinstance(value, list) else [value]:
                if isinstance(token_id, int) and 0 <= token_id < self.vocab_size:
                    yield token_id
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            token = configs[name].get(f"{role}_token")
            content = token.get("content") if isinstance(token, dict) else token
            token_id = self._tokenizer.token_to_id(content) if isinstance(content, str) else None
            if token_id is not None:
                yield token_id

    def encode(self, text: str) -> list[int]:
        """The ids of a text; special tokens are not added, but those spelt out are recognised."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, special tokens left out."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the tokenizer's own files, byte for byte as they were read."""
        folder = pathlib.Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._files.items():
            (folder / name).write_bytes(content)


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    """The object in a JSON file, empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: wanted a JSON object, got {type(value).__name__}")
    return value
