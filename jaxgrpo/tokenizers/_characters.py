"""One id a printable ASCII character: needs no file, for procedural tasks and tests."""

import json
import os
import pathlib
from collections.abc import Sequence

_PAD, _EOS, _UNKNOWN = "<pad>", "<eos>", "\N{REPLACEMENT CHARACTER}"
_CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))


class CharacterTokenizer:
    r"""Newline and the printable ASCII characters; any other character becomes the unknown id.

    Ids: 0 pad, 1 end, 2 unknown, then newline and ASCII 32 to 126 in order. The unknown id decodes
    to U+FFFD instead of nothing, so that "6?32" with an unknown in it never reads as "632".

    Example:
      >>> tokenizer = CharacterTokenizer()
      >>> tokenizer.vocab_size, tokenizer.encode("a\n"), tokenizer.decode([69, 3, 0, 1])
      (99, [69, 3], 'a\n')
    """

    pad_id = 0
    stop_ids = (1,)
    unknown_id = 2
    vocab_size = 3 + len(_CHARACTERS)

    def __init__(self) -> None:
        self._id_of = {character: 3 + i for i, character in enumerate(_CHARACTERS)}
        self._text_of = ["", "", _UNKNOWN, *_CHARACTERS]

    def encode(self, text: str) -> list[int]:
        """The id of each character."""
        return [self._id_of.get(character, self.unknown_id) for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        """The characters of the ids; pad and end are left out.

        An id past the last one, which a model with a wider vocabulary may choose, is unknown.
        """
        known = len(self._text_of)
        return "".join([self._text_of[i] if i < known else _UNKNOWN for i in ids])

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write a tokenizer.json and tokenizer_config.json with identical ids."""
        from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

        vocabulary = {_PAD: self.pad_id, _EOS: self.stop_ids[0], _UNKNOWN: self.unknown_id}
        vocabulary.update(self._id_of)
        fast = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
        fast.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        fast.decoder = decoders.Fuse()
        fast.add_special_tokens([AddedToken(_PAD, special=True), AddedToken(_EOS, special=True)])
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": _PAD,
            "eos_token": _EOS,
            # A prompt that spells "<eos>" is five characters, not the end token.
            "split_special_tokens": True,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 10**9,
        }
        folder = pathlib.Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(fast.to_str(pretty=True), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
