"""Worker processes that score completions: as many at the end as at the start, whatever happens."""

import collections
import dataclasses
import math
import selectors
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from jaxgrpo.core.errors import HostError, UserError
from jaxgrpo.rewards.config import RewardConfig
from jaxgrpo.rewards.process import WorkerProcess

_TICK_SECONDS = 0.1
# A module that a function needs may be slow to import (sympy, transformers) on a busy host.
_START_SECONDS = 60.0
_MAX_FAILED_STARTS = 3


@dataclasses.dataclass(frozen=True)
class RewardItem:
    """A completion to be scored."""

    question: str
    completion: str
    answer: str
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Score:
    """What the reward functions said about one completion."""

    total: float
    """The weighted sum of the values; nan where any function gave none."""

    values: dict[str, float]
    """Each function's value by its name; nan where it gave none."""

    outcomes: dict[str, str]
    """What happened by function: its own word ("right", "ok"), "timeout", "crash", "not_finite"
    or "error: ..."."""

    seconds: float
    """Wall time from handing the completion to a worker to the last value."""

    @property
    def failure(self) -> str:
        """The functions that gave no value and why, or nothing."""
        failed = [name for name, value in self.values.items() if math.isnan(value)]
        return "; ".join(f"{name}: {self.outcomes[name]}" for name in failed)


@dataclasses.dataclass(eq=False)
class _Slot:
    """A place in the pool: a process, and what it is doing."""

    process: WorkerProcess
    deadline: float
    state: Literal["starting", "idle", "busy"] = "starting"
    item: int = -1
    began: float = 0.0
    replies: list[tuple[float, str]] = dataclasses.field(default_factory=list)


class RewardPool:
    """Scores completions in worker processes under a time and memory limit each.

    A worker that runs past the limit, dies or garbles its pipe is killed and replaced, the
    completion it had is scored nan with the reason, and the others go on. A completion whose worker
    died is tried once more, so that a worker killed from outside changes no reward. To be used as a
    context manager; not by several threads at once.

    Args:
      config: functions and limits.
      start_seconds: how long a worker may take to import the functions.
    """

    def __init__(self, config: RewardConfig, *, start_seconds: float = _START_SECONDS) -> None:
        self._config = config
        self._names = [function.name for function in config.functions]
        self._start_seconds = start_seconds
        self._slots: list[_Slot] = []
        self._required: dict[str, list[str]] = {}
        self._failed_starts = 0
        # Items of the call in progress: not handed out yet, and lost to a crash once.
        self._waiting: collections.deque[int] = collections.deque()
        self._crashed: set[int] = set()

    def __enter__(self) -> Self:
        for _ in range(self._config.workers):
            self._slots.append(self._new_slot())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every worker; nothing of them is left."""
        while self._slots:
            self._slots.pop().process.kill()

    def check(self, columns: Collection[str] | None = None) -> None:
        """Wait until every worker has imported every function.

        Args:
          columns: what every example has besides question and answer; None leaves it unchecked.

        Raises:
          UserError: a function cannot be imported, does not take its options, or takes an argument
            that the examples don't have.
          HostError: workers do not start.
        """
        self._require_open()
        while any(slot.state == "starting" for slot in self._slots):
            self._wait_and_receive({})
        if columns is None:
            return
        known = {"question", "answer", *columns}
        for name, required in self._required.items():
            if missing := [column for column in required if column not in known]:
                raise UserError(
                    f"reward function {name!r} takes {missing[0]!r}, which not every example has; "
                    f"they have {', '.join(sorted(known))}"
                )

    def score(
        self, items: Sequence[RewardItem], *, on_wait: Callable[[], object] | None = None
    ) -> list[Score]:
        """The score of each item, in order.

        Args:
          items: the completions.
          on_wait: called every 0.1 s or so while waiting; what it raises ends the call, and the
            pool stays usable.

        Raises:
          UserError: a function cannot be imported.
          HostError: workers do not start.
        """
        self._require_open()
        scores: dict[int, Score] = {}
        self._waiting, self._crashed = collections.deque(range(len(items))), set()
        called = time.monotonic()
        self._replace_dead()
        try:
            while len(scores) < len(items):
                for slot in self._slots:
                    if slot.state == "idle" and self._waiting:
                        self._hand(slot, self._waiting.popleft(), items)
                self._wait_and_receive(scores)
                if on_wait is not None and time.monotonic() - called >= _TICK_SECONDS:
                    on_wait()
                    called = time.monotonic()
        finally:
            # Replies to a call that was broken off must not answer the next one.
            for slot in list(self._slots):
                if slot.state == "busy":
                    self._replace(slot)
        return [scores[index] for index in range(len(items))]

    def _require_open(self) -> None:
        if not self._slots:
            raise RuntimeError("the reward pool is closed: use it inside its with statement")

    def _new_slot(self) -> _Slot:
        config = self._config
        setup = {
            "functions": [{"name": f.name, "options": f.options} for f in config.functions],
            "memory_mib": config.memory_mib,
            "timeout_seconds": config.timeout_seconds,
            "start_seconds": self._start_seconds,
        }
        return _Slot(WorkerProcess(setup), time.monotonic() + self._start_seconds)

    def _replace(self, slot: _Slot) -> None:
        """Kill a slot's process and start another in its place."""
        slot.process.kill()
        self._slots[self._slots.index(slot)] = self._new_slot()

    def _replace_dead(self) -> None:
        """Workers that ended while nothing was asked of them."""
        for slot in list(self._slots):
            if slot.state == "idle" and not slot.process.receive()[1]:
                self._replace(slot)

    def _hand(self, slot: _Slot, index: int, items: Sequence[RewardItem]) -> None:
        slot.state, slot.item, slot.replies = "busy", index, []
        slot.began = time.monotonic()
        slot.deadline = slot.began + self._config.timeout_seconds
        item = items[index]
        slot.process.send(
            {
                "question": item.question,
                "completion": item.completion,
                "answer": item.answer,
                "fields": dict(item.fields),
            }
        )

    def _wait_and_receive(self, scores: dict[int, Score]) -> None:
        """Wait for news up to one tick, take what arrived, and deal with the late and the dead."""
        active = [slot for slot in self._slots if slot.state != "idle"]
        now = time.monotonic()
        until = min((slot.deadline for slot in active), default=now) - now
        with selectors.DefaultSelector() as selector:
            for slot in active:
                selector.register(slot.process.reader, selectors.EVENT_READ)
                if (writer := slot.process.writer) is not None:
                    selector.register(writer, selectors.EVENT_WRITE)
            selector.select(max(0.0, min(until, _TICK_SECONDS)))
        for slot in active:
            slot.process.flush()
            replies, alive = slot.process.receive()
            for reply in replies:
                alive = self._take(slot, reply, scores) and alive
            # Replies come first: one that lay in the pipe while we were away is not late.
            if slot.state != "idle" and (not alive or time.monotonic() >= slot.deadline):
                self._give_up(slot, scores, "crash" if not alive else "timeout")
            elif not alive:
                self._replace(slot)

    def _take(self, slot: _Slot, reply: dict[str, Any], scores: dict[int, Score]) -> bool:
        """Note a reply; False where the worker is not to be used any more."""
        if slot.state == "starting":
            if "failed" in reply:
                raise UserError(str(reply["failed"]))
            slot.state, self._failed_starts = "idle", 0
            self._required = reply.get("required", {})
            return reply.get("ready") is True
        value, outcome = reply.get("value"), reply.get("outcome")
        if slot.state != "busy" or not isinstance(outcome, str):
            return False
        if not isinstance(value, int | float | None):
            return False
        slot.replies.append((math.nan if value is None else float(value), outcome))
        if reply.get("retire") or len(slot.replies) == len(self._names):
            scores[slot.item] = self._score(slot, missing=outcome)
            slot.state = "idle"
        return not reply.get("retire")

    def _score(self, slot: _Slot, missing: str) -> Score:
        """The score of a slot's item; functions without a reply get the outcome `missing`."""
        rest = len(self._names) - len(slot.replies)
        replies = [*slot.replies, *[(math.nan, missing)] * rest]
        values = {name: value for name, (value, _) in zip(self._names, replies, strict=True)}
        outcomes = {name: word for name, (_, word) in zip(self._names, replies, strict=True)}
        total = sum(f.weight * values[f.name] for f in self._config.functions)
        return Score(total, values, outcomes, time.monotonic() - slot.began)

    def _give_up(self, slot: _Slot, scores: dict[int, Score], reason: str) -> None:
        """Replace a worker that is late or gone, in the middle of an item or of starting."""
        status = slot.process.kill()
        if status == -signal.SIGALRM:
            # The worker's own alarm goes off where we were kept from looking in time.
            reason = "timeout"
        if slot.state == "busy" and reason == "crash" and slot.item not in self._crashed:
            # The kernel, short of memory, may have ended it for another's sake: once more.
            self._crashed.add(slot.item)
            self._waiting.appendleft(slot.item)
        elif slot.state == "busy":
            scores[slot.item] = self._score(slot, missing=reason)
        else:
            self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            raise HostError(
                f"reward workers do not start: {self._failed_starts} in a row came to a {reason} "
                f"while importing {', '.join(self._names)} (exit status {status})"
            )
        self._replace(slot)
