"""The last stage: sympy, asked by messages, in a process that is killed where it takes long.

It decides what values at points cannot: whether a gold that is a finite sum, a product, an
integral or a limit has the value of the answer, and identities that have no value at any point
tried. One process serves a Python process; it starts when first needed, holds no text but trees,
and ends with its parent.
"""

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from fractions import Fraction
from typing import Any

from jaxgrpo.answers import tree
from jaxgrpo.answers.tree import Node, children

OPAQUE = frozenset((r"\sum", r"\prod", r"\int", r"\lim"))
START_SECONDS = 30.0
LIMIT_SECONDS = 0.5
_LOCK_SECONDS = 3 * LIMIT_SECONDS
_MAX_REPLY = 1 << 16


def is_opaque(node: Node) -> bool:
    """Whether a node holds a sum, product, integral or limit that is not worked out."""
    if isinstance(node, tree.Call) and node.name in OPAQUE:
        return True
    return any(map(is_opaque, children(node)))


def same(answer: Node, gold: Node) -> bool:
    """Whether sympy finds two expressions equal in half a second; False where it gives up."""
    return _SOLVER.ask([dump(answer), dump(gold)])


def dump(node: Node) -> list[Any]:
    """A tree as nested lists for JSON."""
    return [type(node).__name__, *(_plain(getattr(node, name)) for name in node.__slots__)]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Fraction):
        return [str(value.numerator), str(value.denominator)]
    return value if value is None or isinstance(value, str | bool | int) else dump(value)


class _Solver:
    """The parent's side of the one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.stop)

    def ask(self, message: Any) -> bool:
        """The verdict of the process on a message; False where it has none in time."""
        if not self._lock.acquire(timeout=_LOCK_SECONDS):
            return False
        try:
            process = self._running()
            if process is None:
                return False
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                reply = self._line(process, LIMIT_SECONDS)
                if reply is not None:
                    return reply == b"equal"
            self.stop()
            return False
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Kill the process, if it is this process's own."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)

    def _running(self) -> "subprocess.Popen[bytes] | None":
        if self._process is not None and self._owner == os.getpid():
            if self._process.poll() is None:
                return self._process
            self.stop()
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jaxgrpo.answers.solver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )
        if self._line(self._process, START_SECONDS) != b"ready":
            self.stop()
        return self._process

    @staticmethod
    def _line(process: "subprocess.Popen[bytes]", seconds: float) -> bytes | None:
        """The next line within a time; None where none comes."""
        assert process.stdout is not None
        end, received = time.monotonic() + seconds, b""
        while not received.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return None
            chunk = os.read(process.stdout.fileno(), 4096)
            received += chunk
            if not chunk or len(received) > _MAX_REPLY:
                return None
        return received.strip()


_SOLVER = _Solver()
