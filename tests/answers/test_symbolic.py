"""The last stage: golds that are sums, products, integrals and limits; and what it survives."""

import asyncio
import concurrent.futures
import multiprocessing
import subprocess
import sys
import time

import pytest

from jaxgrpo.answers import grade, is_correct, symbolic

GOLDS = [
    (r"\sum_{k=1}^{30} 2^{k-1}", "2^{30}-1", "2^{30}"),
    (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}", r"\frac{n(n-1)}{2}"),
    (r"\prod_{k=1}^{5} k", "120", "24"),
    (r"\int_0^1 x^2\,dx", r"\frac13", r"\frac12"),
    (r"\lim_{x\to 0} \frac{\sin x}{x}", "1", "0"),
]


@pytest.mark.parametrize(("gold", "right", "wrong"), GOLDS)
def test_a_gold_that_is_not_worked_out(gold, right, wrong):
    assert is_correct(rf"\boxed{{{gold}}}", gold)
    assert is_correct(rf"\boxed{{{right}}}", gold)
    assert not is_correct(rf"\boxed{{{wrong}}}", gold)
    # An answer that only says the question again.
    assert not is_correct(rf"\boxed{{{gold}}}", right)


def test_what_takes_long_is_given_up_and_the_next_one_is_decided():
    started = time.perf_counter()
    assert not grade(r"\boxed{5}", r"\sum_{k=1}^{10^{12}} k^k").correct
    assert time.perf_counter() - started < symbolic.START_SECONDS + 2 * symbolic.LIMIT_SECONDS
    assert is_correct(r"\boxed{120}", r"\prod_{k=1}^{5} k")


def test_a_killed_process_is_replaced():
    assert is_correct(r"\boxed{120}", r"\prod_{k=1}^{5} k")
    process = symbolic._SOLVER._process
    process.kill()
    process.wait()
    assert is_correct(r"\boxed{720}", r"\prod_{k=1}^{6} k")
    assert symbolic._SOLVER._process.pid != process.pid


def test_many_threads_at_once():
    golds = [rf"\prod_{{k=1}}^{{{n}}} k" for n in range(3, 9)]
    answers = [rf"\boxed{{{n}!}}" for n in range(3, 9)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_correct, answers, golds))


FORK = r"""
import os
from jaxgrpo.answers import is_correct, symbolic
assert is_correct(r"\boxed{120}", r"\prod_{k=1}^{5} k")
parents = symbolic._SOLVER._process.pid
child = os.fork()
if child == 0:
    right = is_correct(r"\boxed{720}", r"\prod_{k=1}^{6} k")
    own = symbolic._SOLVER._process.pid != parents
    symbolic._SOLVER.stop()
    os._exit(0 if right and own else 1)
assert os.waitpid(child, 0)[1] == 0
assert symbolic._SOLVER._process.poll() is None
assert is_correct(r"\boxed{5040}", r"\prod_{k=1}^{7} k")
"""


def test_a_fork_has_a_process_of_its_own():
    # In a process without JAX, which does not like to be forked.
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_in_an_event_loop_and_in_spawned_processes():
    gold, answer = r"\prod_{k=1}^{5} k", r"\boxed{120}"

    async def several() -> list[bool]:
        return await asyncio.gather(*(asyncio.to_thread(is_correct, answer, gold) for _ in "ab"))

    assert all(asyncio.run(several()))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(is_correct, answer, gold).result(timeout=120)
