import os
import pathlib
import time

import pytest

# What users do to workers. Imported by workers only.
FUNCTIONS = """
import os, re, subprocess, sys, time

HELD = []

def length(completion, *, answer, question, **fields):
    return len(completion)

def number(completion):
    return float(completion)

def sleep(completion):
    if completion == "sleep":
        time.sleep(3600)
    return 1

def deaf(completion):
    import signal
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    while True:
        pass

def locked(completion):
    # Holds the interpreter lock for ages: no signal handler or thread of Python gets a turn.
    return re.match(r"(a+)+$", "a" * 60 + "b") is None

def allocate(completion):
    while completion == "allocate":
        HELD.append(bytearray(1 << 24))
    return len(HELD)

def allocate_mib(completion):
    return len(bytearray(int(completion) << 20)) >> 20

def leave(completion):
    if completion == "leave":
        os._exit(3)
    return 1

def leave_once(completion, *, path):
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(3)
    return 1

def segfault(completion):
    import ctypes
    ctypes.string_at(0)

def chatter(completion):
    print("x" * 100_000)
    print(\'{"value": 99.0, "outcome": "ok"}\', flush=True)
    os.write(1, b\'{"value": 99.0, "outcome": "ok"}\\n\')
    subprocess.run(["echo", "y"], check=True)
    return float(sys.stdin.read() == "" and os.read(0, 10) == b"")

def fail(completion):
    raise ValueError("no\\nway")

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError

def fail_oddly(completion):
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "odd": Unprintable(),
           "deep": RecursionError("deep")}[completion]

def value(completion):
    return {"nan": float("nan"), "inf": float("inf"), "none": None, "text": "1.0", "complex": 1j,
            "huge": 10**400, "bool": True, "int": 3, "pair": (0.5, "half"),
            "nothing": (float("nan"), "void"), "large": 1e31, "odd word": (1.0, "\\ud800\\x1b"),
            "long word": (1.0, "x" * 3_000_000),
            "list": [1.0], "bad pair": (1.0, "a", "b")}[completion]

def modules(completion):
    return float(bool({"jax", "numpy", "grain", "transformers"} & set(sys.modules)))

def scaled(completion, *, factor, target="0"):
    return factor * (len(completion) - int(target))

def spawn(completion, *, path):
    child = subprocess.Popen(["sleep", "3600"])
    with open(path, "w") as file:
        file.write(str(child.pid))
    time.sleep(3600 if completion == "hang" else 0)
    os._exit(0)

def any_field(text, **fields):
    return len(fields)

def no_argument():
    return 1

def where(completion):
    return os.getpid()

not_a_function = 3
"""


@pytest.fixture
def user_functions(tmp_path, monkeypatch):
    (tmp_path / "user_functions.py").write_text(FUNCTIONS)
    (tmp_path / "broken_syntax.py").write_text("def f(:")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(4)")
    (tmp_path / "dies.py").write_text("import os; os._exit(4)")
    (tmp_path / "hangs.py").write_text("import time; time.sleep(3600)")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def is_gone(pid: int) -> bool:
    """Whether a process has ended (a zombie that nobody has waited for yet included)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        # No /proc here, or the process ended just now: ask again.
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"


@pytest.fixture
def wait_until_gone():
    def wait(pids, seconds=8.0):
        limit = time.monotonic() + seconds
        left = set(pids)
        while left and time.monotonic() < limit:
            left = {pid for pid in left if not is_gone(pid)}
            time.sleep(0.02)
        assert not left, f"still running: {sorted(left)}"

    return wait
