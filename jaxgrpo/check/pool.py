"""Several operators checked at once, one process a core."""

import concurrent.futures
import multiprocessing
import os
from collections.abc import Iterator, Sequence

import jax

from jaxgrpo.check.findings import Report
from jaxgrpo.check.runner import check
from jaxgrpo.check.subject import Subject, subject

_DEVICES = 8
# A check takes seconds; a function that never comes back is not waited for for ever.
_LIMIT_SECONDS = 600


def on_cpu() -> None:
    """Eight CPU devices, before JAX has any: float64 is wanted, which not every accelerator has.

    Where JAX has devices already, those are used.
    """
    # Hundreds of programs run once or twice each: compiling them well would be most of the time.
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_optimization_level" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=0".strip()
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", _DEVICES)
    except RuntimeError:
        return


def check_all(subjects: Sequence[Subject], jobs: int | None = None) -> Iterator[Report]:
    """Reports of operators as they come, in no order of their own.

    Args:
      subjects: registered operators or importable functions.
      jobs: processes; None is one a core. With one, everything happens in this process.

    Raises:
      TimeoutError: no report within ten minutes.
    """
    jobs = min(jobs or os.cpu_count() or 1, len(subjects))
    if jobs <= 1:
        yield from map(check, subjects)
        return
    # Spawned, as a process with JAX's threads must not be forked.
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=on_cpu
    )
    with pool:
        waiting = {pool.submit(_check_named, *_named(each)) for each in subjects}
        try:
            while waiting:
                done, waiting = concurrent.futures.wait(
                    waiting,
                    timeout=_LIMIT_SECONDS,
                    return_when=concurrent.futures.FIRST_COMPLETED,
                )
                if not done:
                    raise TimeoutError(f"no report within {_LIMIT_SECONDS} s")
                for future in done:
                    yield future.result()
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _named(each: Subject) -> tuple[str, str, str, dict]:
    return each.name, each.family.name, each.claims, dict(each.options)


def _check_named(name: str, family: str, claims: str, options: dict) -> Report:
    return check(subject(name, family, claims=claims, options=options))
