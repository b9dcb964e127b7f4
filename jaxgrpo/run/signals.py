"""SIGTERM and Ctrl-C as a question that the loop asks at its safe points."""

import signal
import threading
import types
from collections.abc import Callable
from typing import Any, Self

from jaxgrpo.core.errors import Terminated


class StopRequest:
    """A context manager; inside it, the first SIGTERM or SIGINT only sets a flag.

    A second Ctrl-C interrupts at once.
    """

    def __init__(self) -> None:
        self._name: str | None = None
        self._before: dict[int, Callable[..., Any] | int | None] = {}

    def check(self) -> None:
        """Raise `Terminated` if the process was told to stop."""
        if self._name is not None:
            raise Terminated(f"stopped by {self._name}")

    def __enter__(self) -> Self:
        # Python takes signals in the main thread only; elsewhere the caller's handlers stay.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: types.FrameType | None) -> None:
        if number == signal.SIGINT and self._name is not None:
            raise KeyboardInterrupt
        self._name = signal.Signals(number).name
