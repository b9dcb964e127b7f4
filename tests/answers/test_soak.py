"""200,000 broken answers: none takes long, nothing is left behind, memory stays where it was.

`launch/test -m long -s tests/answers/test_soak.py` runs it and prints what it saw.
"""

import collections
import pathlib
import random
import resource
import time

import pytest
from pairs import RIGHT, WRONG

from jaxgrpo.answers import Mode, grading

PAIRS = 200_000
LIMIT_SECONDS = 1.0
PIECES = [
    *["\\frac", "\\sqrt", "\\boxed{", "\\text{", "\\left(", "\\right)", "\\sum", "\\int"],
    *["\\begin{pmatrix}", "\\end{pmatrix}", "\\cup", "\\infty", "\\pm", "\\le", "\\in", "\\\\"],
    *[
        "^{",
        "_{",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "|",
        ",",
        ";",
        ":",
        "!",
        "%",
        "^",
        "_",
        "+",
        "-",
        "*",
        "/",
        "=",
        "<",
        ">",
        ".",
        "'",
        "&",
    ],
    *["10^{10^{10}}", "9!!!", "((((", "2^{2^{", "1e9999", " ", "\n", "x", "\N{MINUS SIGN}"],
]


def broken(text: str, draws: random.Random) -> str:
    """A text with a few pieces put in, left out, doubled or swapped."""
    for _ in range(draws.randint(1, 4)):
        place = draws.randrange(len(text) + 1)
        end = min(len(text), place + draws.randint(1, 6))
        match draws.randrange(4):
            case 0:
                text = text[:place] + draws.choice(PIECES) + text[place:]
            case 1:
                text = text[:place] + text[end:]
            case 2:
                text = text[:end] + text[place:]
            case _:
                text = text[:place] + text[place:end][::-1] + text[end:]
    return text


def children() -> set[int]:
    me = pathlib.Path("/proc/self/task")
    return {int(pid) for task in me.iterdir() for pid in (task / "children").read_text().split()}


def resident_mib() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_soak():
    draws = random.Random(0)
    known = [(gold, answer) for gold, answer in (*RIGHT, *WRONG)]
    before = children()
    # Starts the process of the last stage, which is waited for once.
    assert grading._grade(r"\boxed{6}", r"\prod_{k=1}^{3} k", Mode.NORMAL, ())[1] == "right"
    slowest, memory = collections.Counter(), []
    outcomes = collections.Counter()
    started = time.perf_counter()
    for number in range(PAIRS):
        gold, answer = draws.choice(known)
        answer = broken(answer, draws)
        if number % 3 == 0:
            gold = broken(gold, draws)
        text = answer if number % 4 == 0 else f"so $\\boxed{{{answer}}}$."
        began = time.perf_counter()
        _, outcome, _ = grading._grade(text, gold, Mode.NORMAL, ())
        slowest[text, gold] = time.perf_counter() - began
        outcomes[outcome] += 1
        if number % 20_000 == 19_999:
            slowest = collections.Counter(dict(slowest.most_common(5)))
            memory.append(resident_mib())
            print(
                f"{number + 1} pairs, {memory[-1]:.0f} MiB, {time.perf_counter() - started:.0f} s"
            )
    print(dict(outcomes))
    for (text, gold), seconds in slowest.most_common(5):
        print(f"{seconds * 1000:.1f} ms  {text!r}  {gold!r}")
    assert max(slowest.values()) < LIMIT_SECONDS
    # The one process of the last stage, if it was needed.
    assert len(children() - before) <= 1
    assert memory[-1] - memory[1] < 64
