import math
import os
import signal
import subprocess
import sys
import time

import pytest

from jaxgrpo.core.errors import HostError, UserError
from jaxgrpo.rewards import RewardConfig, RewardFunctionConfig, RewardItem, RewardPool

pytestmark = pytest.mark.usefixtures("user_functions")


def make_pool(*names, workers=1, start_seconds=60.0, options=None, **limits):
    functions = tuple(
        RewardFunctionConfig(
            name=name if name in ("answer", "format") else f"user_functions:{name}",
            options=options or {},
        )
        for name in names
    )
    config = RewardConfig(
        functions=functions, workers=workers, **{"timeout_seconds": 5.0, **limits}
    )
    return RewardPool(config, start_seconds=start_seconds)


def items(*completions, answer="7", **fields):
    return [RewardItem("question", completion, answer, fields) for completion in completions]


def pids(pool):
    return {slot.process.pid for slot in pool._slots}


def outcomes(scores):
    return [next(iter(score.outcomes.values())) for score in scores]


def values(scores):
    return [next(iter(score.values.values())) for score in scores]


def test_scores_come_in_the_order_of_the_items():
    completions = ["x" * (n % 17) for n in range(100)]
    with make_pool("length", workers=2) as pool:
        scores = pool.score(items(*completions))
    assert values(scores) == [len(completion) for completion in completions]
    assert all(0 < score.seconds < 5 for score in scores)


def test_total_is_the_weighted_sum():
    functions = (
        RewardFunctionConfig(name="answer", weight=2.0),
        RewardFunctionConfig(name="user_functions:length", weight=-0.5),
    )
    with RewardPool(RewardConfig(functions=functions, workers=1)) as pool:
        (score,) = pool.score(items("#### 7"))
    assert score.total == 2.0 * 1.0 - 0.5 * 6
    assert score.values == {"answer": 1.0, "user_functions:length": 6.0}
    assert score.outcomes == {"answer": "right", "user_functions:length": "ok"}


def test_nothing_to_score():
    with make_pool("answer") as pool:
        assert pool.score([]) == []


def test_a_function_that_sleeps_forever_is_cut_and_the_others_are_scored():
    with make_pool("sleep", workers=2, timeout_seconds=0.4) as pool:
        pool.check()
        before, start = pids(pool), time.monotonic()
        scores = pool.score(items("1", "sleep", "2", "sleep", "3", "sleep", "4"))
        assert time.monotonic() - start < 5
        assert outcomes(scores) == ["ok", "timeout"] * 3 + ["ok"]
        assert [math.isnan(score.total) for score in scores] == [False, True] * 3 + [False]
        assert scores[1].seconds >= 0.4
        # As many as before, new ones where the old were killed, all at work.
        pool.check()
        assert len(pids(pool)) == 2
        assert pids(pool) != before
        assert outcomes(pool.score(items(*["1"] * 8))) == ["ok"] * 8


@pytest.mark.parametrize("name", ["deaf", "locked"])
def test_a_function_that_cannot_be_asked_to_stop_is_killed(name):
    with make_pool(name, timeout_seconds=0.3) as pool:
        assert outcomes(pool.score(items("x"))) == ["timeout"]


def test_values_from_before_the_limit_are_kept():
    with make_pool("answer", "sleep", "length", timeout_seconds=0.4) as pool:
        (score,) = pool.score(items("sleep", answer="sleep"))
    assert score.outcomes == {
        "answer": "right",
        "user_functions:sleep": "timeout",
        "user_functions:length": "timeout",
    }
    assert score.values["answer"] == 1.0
    assert math.isnan(score.values["user_functions:length"])
    assert math.isnan(score.total)


def test_a_function_that_allocates_without_end_loses_its_worker_only():
    with make_pool("allocate", memory_mib=256, timeout_seconds=20.0) as pool:
        pool.check()
        before = pids(pool)
        scores = pool.score(items("allocate", "x", "x"))
        assert outcomes(scores) == ["error: MemoryError", "ok", "ok"]
        # What was held is gone with its process.
        assert values(scores)[1:] == [0.0, 0.0]
        assert not pids(pool) & before


def test_the_memory_limit_is_the_configured_one():
    with make_pool("allocate_mib", memory_mib=256) as pool:
        assert outcomes(pool.score(items("128", "300"))) == ["ok", "error: MemoryError"]


@pytest.mark.parametrize(("name", "completion"), [("leave", "leave"), ("segfault", "x")])
def test_a_worker_that_dies_is_a_crash_and_replaced(name, completion):
    with make_pool(name, "answer") as pool:
        scores = pool.score(items(completion, completion))
        assert [score.outcomes["answer"] for score in scores] == ["crash", "crash"]
        assert outcomes(scores) == ["crash", "crash"]
        pool.check()


def test_a_worker_killed_from_outside_changes_no_reward(tmp_path):
    path = tmp_path / "left"
    with make_pool("leave_once", options={"path": str(path)}) as pool:
        assert outcomes(pool.score(items("1", "2", "3"))) == ["ok"] * 3
    assert path.exists()


def test_prints_and_reads_do_not_touch_the_protocol():
    with make_pool("chatter", "length") as pool:
        scores = pool.score(items("one", "three"))
    assert values(scores) == [1.0, 1.0]
    assert [score.values["user_functions:length"] for score in scores] == [3.0, 5.0]


def test_an_exception_is_named_on_one_line():
    with make_pool("fail", "length") as pool:
        (score,) = pool.score(items("x"))
    assert score.outcomes["user_functions:fail"] == "error: ValueError: no way"
    assert score.values["user_functions:length"] == 1.0
    assert math.isnan(score.total)


def test_odd_exceptions_do_not_end_the_worker():
    with make_pool("fail_oddly") as pool:
        pool.check()
        before = pids(pool)
        scores = pool.score(items("exit", "interrupt", "odd", "deep"))
        assert outcomes(scores) == [
            "error: SystemExit: 3",
            "error: KeyboardInterrupt",
            "error: Unprintable",
            "error: RecursionError: deep",
        ]
        assert pids(pool) == before


def test_what_a_function_may_return():
    with make_pool("value") as pool:
        scores = pool.score(items("bool", "int", "pair", "nan", "inf", "nothing"))
        bad = pool.score(items("none", "text", "complex", "huge", "large", "list", "bad pair"))
    assert values(scores)[:3] == [1.0, 3.0, 0.5]
    assert outcomes(scores) == ["ok", "ok", "half", "not_finite", "not_finite", "void"]
    assert all(math.isnan(score.total) for score in scores[3:] + bad)
    assert [outcome.split(":")[:2] for outcome in outcomes(bad)] == [
        ["error", " TypeError"],
        ["error", " TypeError"],
        ["error", " TypeError"],
        ["error", " OverflowError"],
        ["error", " OverflowError"],
        ["error", " TypeError"],
        ["error", " ValueError"],
    ]


def test_words_that_no_file_could_hold_are_made_plain_and_short():
    with make_pool("value") as pool:
        assert outcomes(pool.score(items("odd word", "long word"))) == ["??", "x" * 300]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:f", "'no_such_module:f': ModuleNotFoundError"),
        ("user_functions:nothing", "'user_functions:nothing': AttributeError"),
        ("user_functions:not_a_function", "not callable, but int"),
        ("user_functions:no_argument", "does not take a completion"),
        ("broken_syntax:f", "'broken_syntax:f': SyntaxError"),
        ("leaves:f", "'leaves:f': SystemExit: 4"),
        ("anwser", r"'anwser': .*did you mean 'answer'\? Known: answer, countdown, format"),
    ],
)
def test_a_function_that_cannot_be_imported_is_a_user_error(name, message):
    config = RewardConfig(functions=(RewardFunctionConfig(name=name),), workers=1)
    with RewardPool(config) as pool, pytest.raises(UserError, match=message):
        pool.check()
    with RewardPool(config) as pool, pytest.raises(UserError, match=message):
        pool.score(items("x"))


def test_an_option_that_a_function_does_not_take_is_a_user_error():
    with (
        make_pool("scaled", options={"faktor": 2}) as pool,
        pytest.raises(UserError, match="no option 'faktor'; did you mean 'factor'"),
    ):
        pool.check()


@pytest.mark.parametrize(("module", "reason"), [("dies", "crash"), ("hangs", "timeout")])
def test_workers_that_never_start_end_the_wait(module, reason):
    config = RewardConfig(functions=(RewardFunctionConfig(name=f"{module}:f"),), workers=1)
    start_seconds = 60.0 if module == "dies" else 0.5
    with (
        RewardPool(config, start_seconds=start_seconds) as pool,
        pytest.raises(HostError, match=rf"do not start: 3 in a row came to a {reason}"),
    ):
        pool.score(items("x"))


def test_fields_and_options_reach_a_function_that_declares_them():
    with make_pool("scaled", options={"factor": 10}) as pool:
        (score,) = pool.score(items("four", target="1", numbers="[1]"))
    assert score.total == 10 * (4 - 1)


def test_a_field_cannot_take_the_place_of_an_argument():
    fields = {"completion": "x", "text": "x", "answer": "no", "question": "no"}
    item = RewardItem("question", "12345", "7", fields)
    with make_pool("length", "answer", "any_field") as pool:
        (score,) = pool.score([item])
    # any_field calls its completion "text", and is given the other three.
    assert list(score.values.values()) == [5.0, 0.0, 3.0]


@pytest.mark.parametrize(
    "text", ['\n{"ready": true}\n', "\x00", "\ud800", "\u2028", "a" * 3_000_000], ids=range(5)
)
def test_any_text_goes_through(text):
    with make_pool("length") as pool:
        assert values(pool.score(items(text, "x"))) == [len(text), 1.0]


def test_a_worker_that_stopped_reading_cannot_block_the_pool():
    with make_pool("length", timeout_seconds=0.4) as pool:
        pool.check()
        (pid,) = pids(pool)
        os.kill(pid, signal.SIGSTOP)
        # More than a pipe holds.
        assert outcomes(pool.score(items("a" * 1_000_000, "x"))) == ["timeout", "ok"]


def test_workers_import_neither_jax_nor_numpy():
    with make_pool("modules") as pool:
        assert values(pool.score(items("x"))) == [0.0]


def test_a_worker_that_died_while_idle_costs_no_item():
    with make_pool("where", workers=2) as pool:
        pool.check()
        victim = next(iter(pids(pool)))
        os.kill(victim, signal.SIGKILL)
        time.sleep(0.1)
        scores = pool.score(items(*["x"] * 20))
        assert outcomes(scores) == ["ok"] * 20
        assert victim not in values(scores)
        assert len(pids(pool)) == 2


def test_on_wait_is_called_while_waiting():
    gaps, last = [], time.monotonic()

    def on_wait():
        nonlocal last
        gaps.append(time.monotonic() - last)
        last = time.monotonic()

    with make_pool("sleep", timeout_seconds=1.0) as pool:
        pool.score(items("sleep"), on_wait=on_wait)
    assert len(gaps) >= 5


def test_a_call_that_is_broken_off_leaves_a_working_pool():
    class Stop(Exception):
        pass

    def on_wait():
        raise Stop

    with make_pool("sleep", workers=2, timeout_seconds=30.0) as pool:
        with pytest.raises(Stop):
            pool.score(items("sleep", "sleep", "sleep"), on_wait=on_wait)
        assert outcomes(pool.score(items("1", "2", "3"))) == ["ok"] * 3
        assert len(pids(pool)) == 2


def test_a_slow_on_wait_does_not_make_replies_late():
    with make_pool("length", timeout_seconds=0.3) as pool:
        scores = pool.score(items(*["x"] * 3), on_wait=lambda: time.sleep(0.5))
    assert outcomes(scores) == ["ok"] * 3


@pytest.mark.parametrize(("completion", "outcome"), [("hang", "timeout"), ("go", "crash")])
def test_children_of_a_function_end_with_it(tmp_path, wait_until_gone, completion, outcome):
    path = tmp_path / "pid"
    with make_pool("spawn", timeout_seconds=1.0, options={"path": str(path)}) as pool:
        assert outcomes(pool.score(items(completion))) == [outcome]
        wait_until_gone([int(path.read_text())])


def test_close_leaves_no_process():
    with make_pool("sleep", workers=2, timeout_seconds=0.3) as pool:
        pool.score(items("sleep", "1"))
        running = pids(pool)
    for pid in running:
        # Not even a zombie: it has been waited for.
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(RuntimeError, match="closed"):
        pool.score(items("1"))


PARENT = """
import sys, time
from jaxgrpo.rewards import RewardConfig, RewardFunctionConfig, RewardItem, RewardPool
functions = (RewardFunctionConfig(name="user_functions:" + sys.argv[1]),)
pool = RewardPool(RewardConfig(functions=functions, timeout_seconds=1.0)).__enter__()
pool.check()
print(*[slot.process.pid for slot in pool._slots], flush=True)
if sys.argv[1] == "length":
    time.sleep(3600)
once = iter([None])
# Killed while both workers are busy.
items = [RewardItem("", "x", "")] * 2
pool.score(items, on_wait=lambda: next(once, 0) or print("busy", flush=True))
"""


@pytest.mark.parametrize("name", ["length", "deaf", "locked"])
def test_a_killed_parent_leaves_no_worker(name, wait_until_gone):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, name], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        if name != "length":
            assert parent.stdout.readline() == "busy\n"
        parent.kill()
    wait_until_gone(workers)
