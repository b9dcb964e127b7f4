"""The parent's side of one worker: pipes that never block, and a kill that leaves nothing."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from typing import Any

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 16
# Far above any reply; a worker that sends more without a line end is broken.
_MAX_LINE_BYTES = 1 << 20


class WorkerProcess:
    """A running `jaxgrpo.rewards.worker` in a session of its own."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jaxgrpo.rewards.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            # Ctrl-C is for the parent; and killing the group takes a function's children along.
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._unsent = b""
        self._received = b""
        self._status: int | None = None
        self.pid = self._process.pid
        self.send(setup)

    @property
    def reader(self) -> int:
        """File descriptor that turns readable with a reply or the worker's end."""
        return self._stdout.fileno()

    @property
    def writer(self) -> int | None:
        """File descriptor to wait for where part of a message is unsent."""
        return self._stdin.fileno() if self._unsent else None

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message and send what fits into the pipe."""
        self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send more of what is queued. A broken pipe shows as the end of replies."""
        with contextlib.suppress(BrokenPipeError):
            while self._unsent:
                try:
                    sent = os.write(self._stdin.fileno(), self._unsent[:_READ_BYTES])
                except BlockingIOError:
                    return
                self._unsent = self._unsent[sent:]
            return
        self._unsent = b""

    def receive(self) -> tuple[list[Any], bool]:
        """Replies that have arrived whole, and whether the worker is still there.

        Anything that is not a JSON object on a line counts as the worker's end.
        """
        alive = True
        while True:
            try:
                chunk = os.read(self._stdout.fileno(), _READ_BYTES)
            except BlockingIOError:
                # A child of the worker may hold the pipe open after its death.
                alive = alive and self._process.poll() is None
                break
            self._received += chunk
            if not chunk or len(self._received) > _MAX_LINE_BYTES:
                alive = False
                break
        *lines, self._received = self._received.split(b"\n")
        replies = []
        for line in lines:
            try:
                reply = json.loads(line)
            except (ValueError, RecursionError):
                reply = None
            if not isinstance(reply, dict):
                return replies, False
            replies.append(reply)
        return replies, alive

    def kill(self) -> int:
        """End the worker and its children, if they have not ended; the exit status."""
        if self._status is not None:
            return self._status
        # Before waiting: until then the number cannot belong to another process.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._status = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            logger.error("reward worker %d does not end after SIGKILL; left behind", self.pid)
            self._status = -signal.SIGKILL
        return self._status


def _environment() -> dict[str, str]:
    """The parent's environment, its import path, and no threads or accelerators."""
    path = [os.path.abspath(entry) for entry in sys.path]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        # The accelerator belongs to the trainer, also where a function imports jax.
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
