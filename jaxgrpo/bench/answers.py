"""`python -m jaxgrpo.bench answers`: our answer checker beside math-verify, if that is installed.

Speed on generated pairs of ordinary kinds, and, with --cases, verdicts on a file of cases: JSON
lines with `gold`, `prediction` (or `prediction_parts`, a list of [text, times]), `expected`, and
perhaps `kind` and `disputed`. Each checker runs in a process of its own, one case at a time; one
that takes longer than --limit is killed and counts as a hang. Each of the JSON's `checkers` has

  numbers_s, latex_s       checks a second on plain numbers and on short LaTeX
  cases                    how many cases there were
  accuracy_undisputed      share of right verdicts on cases that nobody disputes
  false_negatives, false_positives, hangs, crashes
  median_ms, p99_ms        of the cases
"""

import argparse
import importlib.util
import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

PEERS = ("jaxgrpo", "math-verify")
_START_SECONDS = 120.0
_ORDINARY = 200


def main(words: Sequence[str]) -> int:
    """Measure, print a table, and write the figures where that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxgrpo.bench answers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", help="a JSON lines file of cases")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for a case (10)")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--serve", choices=PEERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.serve:
        _serve(arguments.serve)
        return 0
    cases = _read(arguments.cases) if arguments.cases else []
    names = [name for name in PEERS if name != "math-verify" or _has_math_verify()]
    found = {name: _measure(name, cases, arguments.limit) for name in names}
    print(_table(found))
    if len(names) == 1:
        print("math-verify is not installed: pip install math-verify to compare with it")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"checkers": found}, indent=1))
    return 0


def _has_math_verify() -> bool:
    return importlib.util.find_spec("math_verify") is not None


def ordinary() -> dict[str, list[tuple[str, str]]]:
    """Pairs of completion and gold as most data sets have them, half of them right."""
    numbers = [
        (f"First we add, then we halve.\n#### {7 * k + k % 2}", str(7 * k))
        for k in range(_ORDINARY)
    ]
    latex = []
    for k in range(2, _ORDINARY // 4 + 2):
        off = k % 2
        latex += [
            (
                rf"Thus $\boxed{{\frac{{{2 * k}}}{{{2 * k + 6 + off}}}}}$.",
                rf"\frac{{{k}}}{{{k + 3}}}",
            ),
            (rf"Thus $\boxed{{{k}\sqrt{{{k + 1 + off}}}}}$.", rf"\sqrt{{{k * k * (k + 1)}}}"),
            (rf"Thus $\boxed{{(x+{k})^2}}$.", f"x^2+{2 * k + off}x+{k * k}"),
            (rf"Thus $\boxed{{({k}, \frac{{\pi}}{{{k}}})}}$.", rf"({k + off}, \pi/{k})"),
        ]
    return {"numbers": numbers, "latex": latex}


def _read(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        cases = [json.loads(line) for line in file if line.strip()]
    for case in cases:
        if case.get("prediction_parts"):
            case["prediction"] = "".join(text * times for text, times in case["prediction_parts"])
    return cases


def _measure(name: str, cases: list[dict[str, Any]], limit: float) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    checker = _Checker(name, limit)
    try:
        for kind, pairs in ordinary().items():
            for _ in checker.run(pairs[:20]):
                pass
            seconds = [spent for _, spent in checker.run(pairs)]
            figures[f"{kind}_s"] = round(1 / statistics.median(seconds), 1)
        if cases:
            figures |= _verdicts(checker, cases)
    finally:
        checker.stop()
    return figures


def _verdicts(checker: "_Checker", cases: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {"false_negatives": 0, "false_positives": 0, "hangs": 0, "crashes": 0}
    undisputed = right = 0
    spent: list[float] = []
    pairs = [(case["prediction"], case["gold"]) for case in cases]
    for case, (verdict, seconds) in zip(cases, checker.run(pairs), strict=True):
        spent.append(seconds)
        if isinstance(verdict, str):
            counts[verdict] += 1
        elif verdict != case["expected"]:
            counts["false_negatives" if case["expected"] else "false_positives"] += 1
        if not case.get("disputed"):
            undisputed += 1
            right += verdict is case["expected"]
    spent.sort()
    return {
        "cases": len(cases),
        "accuracy_undisputed": round(right / max(undisputed, 1), 5),
        **counts,
        "median_ms": round(1e3 * statistics.median(spent), 4),
        "p99_ms": round(1e3 * spent[int(0.99 * (len(spent) - 1))], 3),
    }


class _Checker:
    """A checker in a process that is killed where it does not answer."""

    def __init__(self, name: str, limit: float) -> None:
        self._words = [sys.executable, "-m", "jaxgrpo.bench", "answers", "--serve", name]
        self._limit = limit
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[bool | str, float]]:
        """Verdict and seconds of each pair; "hangs" or "crashes" for a verdict that failed."""
        for pair in pairs:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(pair).encode() + b"\n")
            process.stdin.flush()
            line = self._line(self._limit)
            if line is None:
                crashed = process.poll() is not None
                self.stop()
                yield ("crashes", 0.0) if crashed else ("hangs", self._limit)
                continue
            reply = json.loads(line)
            yield reply["verdict"], reply["seconds"]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> "subprocess.Popen[bytes]":
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if self._line(_START_SECONDS) is None:
            raise RuntimeError(f"the checker did not start: {' '.join(self._words)}")
        return self._process

    def _line(self, seconds: float) -> bytes | None:
        assert self._process is not None
        assert self._process.stdout is not None
        end, received = time.monotonic() + seconds, b""
        while not received.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                return None
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                self._process.wait()
                return None
            received += chunk
        return received


def _serve(name: str) -> None:
    """The child's side: pairs in, verdicts out, as JSON lines."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    check = _ours() if name == "jaxgrpo" else _math_verify()
    check(r"so $\boxed{\frac{1}{2}}$", "0.5")
    replies.write(b"ready\n")
    for line in requests:
        completion, gold = json.loads(line)
        started = time.perf_counter()
        verdict: bool | str
        try:
            verdict = bool(check(completion, gold))
        except BaseException:
            verdict = "crashes"
        seconds = time.perf_counter() - started
        replies.write(json.dumps({"verdict": verdict, "seconds": seconds}).encode() + b"\n")


def _ours() -> Callable[[str, str], bool]:
    from jaxgrpo.answers import is_correct

    return is_correct


def _math_verify() -> Callable[[str, str], bool]:
    import math_verify  # pyright: ignore[reportMissingImports]

    def check(completion: str, gold: str) -> bool:
        # As its users do who know that a bare gold is not found.
        wanted = math_verify.parse(f"$\\boxed{{{gold}}}$")
        return math_verify.verify(wanted, math_verify.parse(completion))

    return check


def _table(found: dict[str, dict[str, Any]]) -> str:
    keys = list(dict.fromkeys(key for figures in found.values() for key in figures))
    lines = ["| | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
    lines += [
        f"| {key} | " + " | ".join(str(figures.get(key, "")) for figures in found.values()) + " |"
        for key in keys
    ]
    return "\n".join(lines)
