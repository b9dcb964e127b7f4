"""Examples, and the files they are read from."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

from jaxgrpo.core.errors import UserError, closest

# Arguments of a reward function; a column of the same name must not collide with them.
_RESERVED = ("completion", "question", "answer", "worked")


@dataclasses.dataclass(frozen=True)
class Example:
    """A question with its reference answer."""

    id: int
    """Index in the source, in [0, 2**31); sampling keys are folded from it."""

    name: str
    """Where it came from, for people: "arithmetic-17", "gsm8k_train.jsonl:12"."""

    question: str
    """The problem, before the template."""

    answer: str
    """The reference answer that a reward compares with."""

    worked: str | None = None
    """A completion to imitate in supervised warm-up, if there is one."""

    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Anything else a reward function may want, as text; lists and numbers are JSON."""


class Source(Protocol):
    """Examples by index; the same index always gives the same example."""

    def __len__(self) -> int:
        """The number of examples."""
        ...

    def __getitem__(self, index: int, /) -> Example:
        """Example `index`, in [0, len)."""
        ...


class JsonlSource:
    """A JSON lines file with a `question` and an `answer` in each object.

    Every other column that is not null becomes a text in `Example.fields`; `worked` becomes
    `Example.worked`. Values that are no strings are written as JSON. Empty lines are passed over.

    Args:
      path: the file, UTF-8.
      fields: our name to the column's name, where they differ.
      size: only the first so many examples; 0 for all.

    Raises:
      UserError: the file cannot be read or is empty, or a line (named) is not such an object.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: Mapping[str, str] | None = None,
        *,
        size: int = 0,
    ) -> None:
        self._path = pathlib.Path(path)
        self._column_of = {"question": "question", "answer": "answer", **(fields or {})}
        if "completion" in self._column_of:
            raise UserError("fields: 'completion' is what the policy writes, no column of a file")
        self._examples: list[Example] = []
        try:
            with open(self._path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        self._examples.append(self._example(number, line))
                    if size and len(self._examples) == size:
                        break
        except OSError as error:
            raise UserError(f"{self._path}: cannot read: {error.strerror}") from None
        except ValueError as error:  # a path with a nul byte
            raise UserError(f"{self._path}: cannot read: {error}") from None
        if not self._examples:
            raise UserError(f"{self._path}: the file has no examples")
        if size > len(self._examples):
            raise UserError(f"{self._path}: size is {size}, the file has {len(self._examples)}")

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int, /) -> Example:
        return self._examples[index]

    def _example(self, number: int, line: bytes) -> Example:
        where = f"{self._path}:{number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            row = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_refuse)
            if "\\u" in text:
                json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair fails here
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not a line of JSON: {error}") from None
        if not isinstance(row, dict):
            raise UserError(f"{where}: wanted a JSON object, got {type(row).__name__}")
        for name, column in self._column_of.items():
            if row.get(column) is None:
                near = closest(column, row)
                raise UserError(f"{where}: no field {column!r} (for {name}){near}")
        renamed = set(self._column_of.values())
        ours = {column: value for column, value in row.items() if column not in renamed}
        ours |= {name: row[column] for name, column in self._column_of.items()}
        texts = {name: _as_text(value) for name, value in ours.items() if value is not None}
        for name in ("question", "answer"):
            if not texts[name].strip():
                raise UserError(f"{where}: field {self._column_of[name]!r} (for {name}) is empty")
        return Example(
            id=len(self._examples),
            name=f"{self._path.name}:{number}",
            question=texts["question"],
            answer=texts["answer"],
            worked=texts.get("worked"),
            fields={name: text for name, text in texts.items() if name not in _RESERVED},
        )


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, no key of it given twice."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twin!r} is given twice")
    return row


def _refuse(constant: str) -> None:
    """NaN and Infinity, which Python writes and JSON doesn't have: an answer that was lost."""
    raise ValueError(f"{constant} is no value of JSON")


def _as_text(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
