"""What a person sees of a run: one steady line a step, or a live view in a terminal."""

import math
import os
import shlex
import time
import types
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from jaxgrpo.evaluation import EvaluatedItem, Evaluation
from jaxgrpo.run import Observer

_COLUMNS = (
    ("reward", "reward/mean", "{:.3f}"),
    ("kl3", "divergence/anchor_kl3", "{:.4f}"),
    ("clip low", "clip/fraction_low", "{:.2%}"),
    ("clip high", "clip/fraction_high", "{:.2%}"),
    ("entropy", "entropy/mean", "{:.3f}"),
    ("grad", "grad/norm", "{:.3f}"),
    ("length", "length/mean", "{:.1f}"),
    ("tok/s", "tokens/second", "{:.0f}"),
)


def print_plan(facts: Mapping[str, Any]) -> None:
    """The facts of a plan, one a line."""
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")


class _Console(Observer):
    """What both views share: the clock, and the report at the end."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._began: dict[str, tuple[int, float]] = {}
        self._prompt = "PROMPT"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        pass

    def start(self, facts: Mapping[str, Any]) -> None:
        for name, value in facts.items():
            self._say(f"{name:>18}  {value}")

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def evaluated(self, label: str, evaluation: Evaluation) -> None:
        total, seconds = len(evaluation.items), evaluation.seconds
        self._say(
            f"held-out accuracy {label}: {evaluation.accuracy:.1%} ({evaluation.correct} of "
            f"{total} right by {evaluation.measure}), mean reward {evaluation.reward_mean:.3f}, "
            f"{seconds:.1f} s"
        )

    def finish(
        self,
        summary: Mapping[str, Any],
        before: Sequence[EvaluatedItem],
        after: Sequence[EvaluatedItem],
    ) -> None:
        self._say("")
        self._prompt = after[0].question if after else self._prompt
        for old, new in zip(before, after, strict=False):
            self._say(f"prompt {new.question!r}, answer {new.answer!r}")
            self._say(f"  before  {old.completion!r}  {_mark(old.correct)}")
            self._say(f"  after   {new.completion!r}  {_mark(new.correct)}")
        start, end = summary["eval_start"], summary["eval_end"]
        if start and end:
            rise = 100 * (end["accuracy"] - start["accuracy"])
            self._say(
                f"held-out accuracy  {start['accuracy']:.1%} -> {end['accuracy']:.1%}  "
                f"({rise:+.1f} points, {end['completions']} held-out completions)"
            )
            self._say(f"held-out reward    {start['reward_mean']:.3f} -> {end['reward_mean']:.3f}")
        first, last = summary["reward_start"], summary["reward_end"]
        if first is not None and last is not None:
            self._say(f"training reward    {first:.3f} -> {last:.3f}")
        self._say(
            f"{summary['steps']} steps, {summary['tokens']} tokens sampled, "
            f"{summary['seconds']:.0f} s"
        )

    def where(self, directory: str) -> None:
        """Where everything is, and what to try next."""
        # The launcher says how it is called where its environment isn't the caller's.
        command = os.environ.get("JAXGRPO_COMMAND", "jaxgrpo")
        self._say(f"run folder         {directory}")
        self._say(
            f"next               {command} sample {shlex.quote(directory)} "
            f"{shlex.quote(self._prompt)}"
        )

    def _remaining(self, stage: str, step: int, steps: int) -> float:
        """Seconds left in a stage, by the pace so far; the first step, which compiles, left out."""
        now = time.perf_counter()
        first, began = self._began.setdefault(stage, (step, now))
        if step == first:
            return math.nan
        return (now - began) / (step - first) * (steps - step)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


class PlainConsole(_Console):
    """One line a step: for logs, pipes and schedulers."""

    def warmup_step(self, step: int, steps: int, values: Mapping[str, float]) -> None:
        remaining = self._remaining("warm-up", step, steps)
        if step == 1 or step % 20 == 0 or step == steps:
            self._say(
                f"warm-up {step}/{steps}  loss {values['loss/total']:.3f}  "
                f"grad {values['grad/norm']:.2f}  tok/s {values['tokens/second']:.0f}  "
                f"ETA {_clock(remaining)}"
            )

    def step(self, step: int, steps: int, values: Mapping[str, float]) -> None:
        remaining = self._remaining("grpo", step, steps)
        shown = "  ".join(f"{name} {_shown(values, key, form)}" for name, key, form in _COLUMNS)
        self._say(f"step {step}/{steps}  {shown}  ETA {_clock(remaining)}")


class LiveConsole(_Console):
    """Bars and the latest steps, redrawn in place."""

    _ROWS = 12

    def __init__(self) -> None:
        super().__init__()
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks: dict[str, Any] = {}
        self._lines: list[tuple[int, Mapping[str, float]]] = []
        self._live = Live(console=self._console, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._live.stop()

    def warmup_step(self, step: int, steps: int, values: Mapping[str, float]) -> None:
        self._bar("warm-up", step, steps)

    def step(self, step: int, steps: int, values: Mapping[str, float]) -> None:
        self._lines = [*self._lines, (step, values)][-self._ROWS :]
        self._bar("GRPO", step, steps)

    def evaluating(self, label: str, done: int, total: int) -> None:
        self._bar("evaluation", done, total)

    def finish(
        self,
        summary: Mapping[str, Any],
        before: Sequence[EvaluatedItem],
        after: Sequence[EvaluatedItem],
    ) -> None:
        # The summary is what stays at the end of the screen, not the bars.
        self._live.stop()
        super().finish(summary, before, after)

    def _bar(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total)
        self._progress.update(self._tasks[name], completed=done, total=total)
        self._live.update(Group(self._table(), self._progress))

    def _table(self) -> Table:
        table = Table("step", *(name for name, _, _ in _COLUMNS), box=None)
        for step, values in self._lines:
            table.add_row(str(step), *(_shown(values, key, form) for _, key, form in _COLUMNS))
        return table


def _shown(values: Mapping[str, float], key: str, form: str) -> str:
    value = values.get(key, math.nan)
    return form.format(value) if math.isfinite(value) else "-"


def _mark(correct: bool) -> str:
    return "right" if correct else "wrong"


def _clock(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "--:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
