"""What an operator's signature says: which keyword arguments are options, and what they accept.

An option is a keyword-only argument whose type is plain: bool, int, float, str, dict, a Literal, a
callable, None, or a union of these; without an annotation, its default decides. Every other
keyword-only argument is an array that the caller passes with the batch.
"""

import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any

_PLAIN = (bool, int, float, str, dict, type(None))
_UNIONS = (typing.Union, types.UnionType)


def option_arguments(function: Callable) -> dict[str, inspect.Parameter]:
    """The keyword-only arguments a config may set, by name.

    Example:
      >>> def loss(log_probs, *, where=None, group_ids, delta: float = 0.1): ...
      >>> list(option_arguments(loss)), array_arguments(loss)
      (['delta'], {'group_ids': False})
    """
    return {p.name: p for p in _keywords(function) if _is_option(p)}


def array_arguments(function: Callable) -> dict[str, bool]:
    """The keyword-only arguments that are arrays, `where` aside, and whether each has a default."""
    return {p.name: p.default is not p.empty for p in _keywords(function) if not _is_option(p)}


def accepts(parameter: inspect.Parameter, value: object) -> bool:
    """Whether a value has an option's type; an int will do for a float, a bool for no number."""
    return _accepts(_kind(parameter), value)


def wanted(parameter: inspect.Parameter) -> str:
    """The type of an option in words, for an error message."""
    return inspect.formatannotation(_kind(parameter)).replace("collections.abc.", "")


def _keywords(function: Callable) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except NameError:  # a string annotation under `if TYPE_CHECKING`: defaults will have to do
        parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "where"]


def _kind(parameter: inspect.Parameter) -> object:
    """The annotation; without one, the type of the default, where an int stands for any number."""
    if parameter.annotation is not parameter.empty and not isinstance(parameter.annotation, str):
        return parameter.annotation
    return float if type(parameter.default) is int else type(parameter.default)


def _is_option(parameter: inspect.Parameter) -> bool:
    # Of an unannotated None nothing can be said, and an array left out is the likelier meaning.
    return _kind(parameter) is not type(None) and _is_plain(_kind(parameter))


def _is_plain(kind: object) -> bool:
    origin = typing.get_origin(kind)
    if origin in _UNIONS:
        return all(_is_plain(member) for member in typing.get_args(kind))
    return kind in _PLAIN or kind is Callable or origin in (Callable, typing.Literal)


def _accepts(kind: Any, value: object) -> bool:
    origin = typing.get_origin(kind)
    if origin in _UNIONS:
        return any(_accepts(member, value) for member in typing.get_args(kind))
    if origin is typing.Literal:
        return (type(value), value) in [(type(choice), choice) for choice in typing.get_args(kind)]
    if kind is Callable or origin is Callable:
        return callable(value)
    if kind in (int, float):
        number = numbers.Integral if kind is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)
