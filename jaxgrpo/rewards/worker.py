"""The child's side: `python -m jaxgrpo.rewards.worker` reads items and writes values, JSON lines.

The pipes are moved away from stdin and stdout first, so whatever a reward function prints or reads
goes nowhere. Nothing is pickled. The worker ends when its parent does: at the end of the request
pipe when idle, by an alarm of the kernel when a function never comes back.
"""

import json
import math
import os
import resource
import signal
from typing import Any

from jaxgrpo.rewards import functions

# How much longer than its parent would wait a worker lives when the parent is gone.
_GRACE_SECONDS = 1.0
# Rewards are summed in float32 later, weighted, over a whole step.
_LARGEST = 1e30


def main() -> None:
    """Serve until the request pipe ends."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message).encode() + b"\n")

    setup = json.loads(requests.readline() or b"null")
    if setup is None:
        return
    _limit_memory(setup["memory_mib"])
    _alarm(setup["start_seconds"])
    loaded = []
    for function in setup["functions"]:
        try:
            loaded.append(functions.load(function["name"], function["options"]))
        except BaseException as error:
            reply({"failed": f"reward function {function['name']!r}: {_describe(error)}"})
            return
    _alarm(None)
    required = {
        function["name"]: it.required
        for function, it in zip(setup["functions"], loaded, strict=True)
    }
    reply({"ready": True, "required": required})

    for line in requests:
        item = json.loads(line)
        given = {"answer": item["answer"], "question": item["question"]}
        fields = {**item["fields"], **given}
        _alarm(setup["timeout_seconds"])
        for function in loaded:
            value, outcome, retire = _call(function, item["completion"], fields)
            reply({"value": value, "outcome": outcome, "retire": retire})
            if retire:
                return
        _alarm(None)


def _call(
    function: functions.Loaded, completion: str, fields: dict[str, str]
) -> tuple[float | None, str, bool]:
    """The value (None where there is none), what happened, and whether this process is spent."""
    try:
        returned = function.call(completion, fields)
        value, outcome = returned if isinstance(returned, tuple) else (returned, "ok")
        if isinstance(value, str | bytes):
            raise TypeError(f"wanted a float, got {type(value).__name__}")
        value, outcome = float(value), _one_line(str(outcome))
        if math.isfinite(value) and abs(value) > _LARGEST:
            raise OverflowError(f"a reward is at most {_LARGEST:g}, got {value:g}")
    except MemoryError as error:
        # What filled the memory may still be held somewhere.
        return None, f"error: {_describe(error)}", True
    except BaseException as error:
        return None, f"error: {_describe(error)}", False
    if math.isfinite(value):
        return value, outcome, False
    return None, "not_finite" if outcome == "ok" else outcome, False


def _describe(error: BaseException) -> str:
    """An exception on one short line, even one that cannot be printed."""
    try:
        text = _one_line(str(error))
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _one_line(text: str) -> str:
    """What a terminal and a file of UTF-8 can hold: short, no control characters or surrogates."""
    words = " ".join(text[:1000].split())[:300]
    return "".join(character if character.isprintable() else "?" for character in words)


def _limit_memory(mib: int) -> None:
    limits = [
        # Heap and private mappings are what a function allocates; the address space also holds
        # libraries and reservations, so its cap is only a second fence.
        (resource.RLIMIT_DATA, mib << 20),
        (resource.RLIMIT_AS, mib << 22),
        (resource.RLIMIT_CORE, 0),
    ]
    for kind, wanted in limits:
        _, hard = resource.getrlimit(kind)
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(kind, (limit, limit))
        except (OSError, ValueError):
            # Some systems refuse some limits; the time limit still holds.
            continue


def _alarm(seconds: float | None) -> None:
    """End this process after a while, by the kernel: no handler runs, no lock can delay it."""
    if seconds is None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)


if __name__ == "__main__":
    main()
