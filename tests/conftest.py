"""What every test runs under: eight CPU devices, and no silent broadcasting between ranks."""

import atexit
import os
import shutil
import tempfile

# Most of the time goes into compiling: the programs are those of a run, their machine code is what
# the compiler has without trying hard. With JAXGRPO_TESTS_OPTIMISED=1 it tries.
if "JAXGRPO_TESTS_OPTIMISED" not in os.environ:
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=0".strip()

import hypothesis
import jax
import pytest

# JAX_PLATFORMS=cuda runs the same tests on an accelerator.
if "JAX_PLATFORMS" not in os.environ:
    jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Tests compile the same programs again and again, in this process, in its workers and in commands
# that it starts: they share what one of them compiled, for as long as the tests run.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.mkdtemp(prefix="jaxgrpo-tests-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    jax.config.update("jax_compilation_cache_dir", compiled)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# Compiling takes longer than a deadline allows, and a failure must be the same on every machine.
hypothesis.settings.register_profile("jaxgrpo", deadline=None, derandomize=True)
hypothesis.settings.load_profile("jaxgrpo")


@pytest.fixture(autouse=True, scope="module")
def nothing_compiled_is_kept():
    """What one file compiled is of no use to the next, and would fill the memory."""
    yield
    jax.clear_caches()
