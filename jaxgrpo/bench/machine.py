"""What this machine can do at best, measured beside every benchmark."""

import pathlib
import resource
import statistics
import time

import jax
import jax.numpy as jnp


def sgemm_gflops(size: int = 1536, repeats: int = 3) -> float:
    """The float32 matrix-product rate, in 1e9 operations a second; the median of a few."""
    product = jax.jit(jnp.matmul)
    matrix = jax.random.normal(jax.random.key(0), (size, size), jnp.float32)
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        jax.block_until_ready(product(matrix, matrix))
        taken.append(time.perf_counter() - start)
    # The first one compiled.
    return 2 * size**3 / statistics.median(taken[1:]) / 1e9


def peak_rss_gib() -> float:
    """The largest resident set of this process so far, in GiB."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
