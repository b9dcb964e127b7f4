"""Saves in flight are finished before the interpreter ends, also where nobody closed the store."""

import logging
import threading
import weakref
from typing import Protocol

from jaxgrpo.core.errors import HostError

logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """What may have work in flight."""

    def wait(self) -> None:
        """Return when nothing is in flight; raise HostError if it failed."""
        ...


_stores: weakref.WeakSet[Waiting] = weakref.WeakSet()


def finish_at_exit(store: Waiting) -> None:
    """Wait for the store when the interpreter ends; it is not kept alive for that."""
    _stores.add(store)


def _finish() -> None:
    for store in list(_stores):
        try:
            store.wait()
        except HostError as failure:
            logger.error("%s", failure)


# An atexit hook comes too late: thread pools have ended by then, and Orbax waits ten minutes for
# work that no pool takes any more. This hook runs before the pools end.
getattr(threading, "_register_atexit", lambda hook: None)(_finish)
