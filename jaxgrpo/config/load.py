"""YAML and `--room.field value` overrides into an `Experiment`, refusing whatever doesn't fit."""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from jaxgrpo.config.experiment import Experiment
from jaxgrpo.core.errors import UserError, closest


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 1e-4 is a number and a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


# What fits into the int32 and float32 that it will be; nan is in no range.
_LARGEST: dict[Any, float] = {int: 2**31 - 1, float: 3.4e38}

# YAML 1.1 wants a point in 1.0e-4; people and json.dumps write 1e-4 and mean the number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def load(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Experiment:
    """The experiment described by a YAML file, with `--room.field value` overrides.

    Raises:
      UserError: one line that says what is wrong where: a missing file, broken YAML, an unknown
        key (and the nearest known one), a value of the wrong type or out of range.
    """
    path = pathlib.Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: cannot be read: {reason}") from error
    return parse(text, overrides, source=str(path))


def parse(text: str, overrides: Sequence[str] = (), *, source: str = "config") -> Experiment:
    """As `load`, from the text itself; `source` names it in errors."""
    tree = _yaml(text, source)
    if not isinstance(tree, dict):
        raise UserError(f"{source}: a mapping is wanted, got {type(tree).__name__}")
    pairs = _pairs(overrides)
    given = {name for name, _ in pairs}
    for name, value in pairs:
        _override(tree, name, value, given)
    _refuse_misfits(tree, Experiment, "", source)
    try:
        # Through JSON, where strict means strict: no "1", true or null passes for a number.
        return _adapter().validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        raise UserError(f"{source}: {_first(error)}") from error
    except (TypeError, ValueError) as error:
        raise UserError(f"{source}: {error}") from error


def dump(experiment: Experiment) -> str:
    """The resolved experiment as YAML that `parse` reads back to an equal one."""
    return yaml.safe_dump(_plain(experiment), sort_keys=False, allow_unicode=True)


def digest(experiment: Experiment) -> str:
    """Twelve hex digits that stand for the resolved experiment."""
    return hashlib.sha256(dump(experiment).encode()).hexdigest()[:12]


@functools.cache
def _adapter() -> TypeAdapter[Experiment]:
    return TypeAdapter(Experiment)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _yaml(text: str, source: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # a SafeLoader: builds plain values only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{source}:{where} {problem}") from error


def _pairs(overrides: Sequence[str]) -> list[tuple[str, Any]]:
    """("room.field", value) of `--room.field value` and `--room.field=value`."""
    pairs, rest = [], list(overrides)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or len(word) == 2:
            raise UserError(f"overrides look like --room.field value, got {word!r}")
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not rest:
                raise UserError(f"--{name} needs a value")
            value = rest.pop(0)
        pairs.append((name, _yaml(value, f"--{name}")))
    return pairs


def _override(tree: dict[str, Any], name: str, value: Any, given: set[str]) -> None:
    *parents, last = name.split(".")
    for depth, parent in enumerate(parents):
        child = tree.setdefault(parent, {})
        if child is None:
            child = tree[parent] = {}
        if not isinstance(child, dict):
            inside = ".".join(parents[: depth + 1])
            raise UserError(f"--{name}: {inside} is a value, not a room")
        tree = child
    other = last == "name" and tree.get("name") not in (None, value)
    if other and ".".join([*parents, "options"]) not in given:
        # They are those of the operator that was named before.
        tree.pop("options", None)
    tree[last] = value


def _refuse_misfits(tree: Any, kind: Any, path: str, source: str) -> None:
    """Raise on a key that no dataclass has, with the nearest one, and on a number beyond any use.

    Options of operators are left alone: their own signatures say what they take, inf too.
    """
    if dataclasses.is_dataclass(kind) and isinstance(tree, dict):
        fields = typing.get_type_hints(kind)
        for key, value in tree.items():
            where = f"{path}.{key}" if path else str(key)
            if key not in fields:
                room = f"of {path}" if path else "there is"
                raise UserError(
                    f"{source}: unknown key {where}{closest(str(key), fields)} "
                    f"(keys {room}: {', '.join(fields)})"
                )
            _refuse_misfits(value, fields[key], where, source)
    elif isinstance(kind, types.UnionType):
        for option in typing.get_args(kind):
            _refuse_misfits(tree, option, path, source)
    elif typing.get_origin(kind) is tuple and isinstance(tree, list):
        for index, item in enumerate(tree):
            _refuse_misfits(item, typing.get_args(kind)[0], f"{path}[{index}]", source)
    elif (limit := _LARGEST.get(kind)) and type(tree) in _LARGEST and not abs(tree) <= limit:
        raise UserError(f"{source}: {path} must be a number of at most {limit:g}, got {tree}")


def _first(error: ValidationError) -> str:
    """The first complaint of pydantic in our words: where, what was wanted, what came."""
    detail = error.errors()[0]
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "missing":
        return f"{where} is missing"
    if raised := detail.get("ctx", {}).get("error"):  # by a __post_init__ of ours
        return f"{where}: {raised}" if where else str(raised)
    message = detail["msg"][0].lower() + detail["msg"][1:]
    return f"{where or 'config'}: {message}, got {detail['input']!r}"
