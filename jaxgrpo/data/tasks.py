"""A source from its config: the built-in tasks by name, a user's by "module:name", or a file."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from jaxgrpo.core.errors import UserError, closest
from jaxgrpo.data.arithmetic import Arithmetic
from jaxgrpo.data.config import SourceConfig
from jaxgrpo.data.countdown import Countdown
from jaxgrpo.data.procedural import Split
from jaxgrpo.data.sources import JsonlSource, Source

TASKS: dict[str, Callable[..., Source]] = {"arithmetic": Arithmetic, "countdown": Countdown}

_GIVEN = ("seed", "split", "size")


def open_source(config: SourceConfig, *, seed: int, split: Split) -> Source:
    """The examples that a config describes.

    A task is called with `seed`, `split`, `size` and the config's options by keyword; a user's own
    is any such callable that returns a `Source`. A file is the same for every seed and split.

    Raises:
      UserError: no such task, an option it does not take or refuses, or a bad file.
    """
    if config.path is not None:
        return JsonlSource(config.path, config.fields, size=config.size)
    name = config.task or ""
    task = _user_task(name) if ":" in name else TASKS.get(name)
    if task is None:
        near = closest(name, TASKS) or "."
        raise UserError(f"no task named {name!r}{near} Known: {', '.join(TASKS)}")
    _check_options(name, task, config.options)
    try:
        return task(seed=seed, split=split, size=config.size, **config.options)
    except (TypeError, ValueError) as error:
        raise UserError(f"task {name!r}: {error}") from error


def _user_task(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        task = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a user's module may end in any way while it loads
        raise UserError(f"task {name!r}: {type(error).__name__}: {error}") from error
    if not callable(task):
        raise UserError(f"task {name!r} is not callable, but {type(task).__name__}")
    return task


def _check_options(name: str, task: Callable[..., Source], options: dict[str, Any]) -> None:
    try:
        parameters = inspect.signature(task).parameters
    except ValueError as error:  # some builtins have none
        raise UserError(f"task {name!r}: {error}") from error
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = [parameter for parameter in parameters if parameter not in _GIVEN]
    for option in options:
        if option not in known:
            near, takes = closest(option, known) or ".", ", ".join(known) or "none"
            raise UserError(f"task {name!r} has no option {option!r}{near} It takes: {takes}")
