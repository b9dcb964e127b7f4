"""What the other rooms need of a tokenizer."""

import os
from collections.abc import Sequence
from typing import Protocol


class Tokenizer(Protocol):
    """Text to ids and back. Ids lie in [0, vocab_size)."""

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        ...

    @property
    def pad_id(self) -> int:
        """Fills rows up; may equal a stop id, so lengths never come from looking for it."""
        ...

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a completion, at least one."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any special token added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out."""
        ...

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the files that `load` and transformers' AutoTokenizer read."""
        ...
