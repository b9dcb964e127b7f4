"""`import jaxgrpo` is fast, and no import of ours starts a device."""

import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parents[1]


def run(script):
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_package_imports_in_under_two_seconds_without_jax():
    output = run(
        "import sys, time\n"
        "start = time.perf_counter()\n"
        "import jaxgrpo\n"
        "print(time.perf_counter() - start)\n"
        "assert 'jax' not in sys.modules\n"
    )
    assert float(output) < 2.0


def test_no_module_starts_a_device_when_imported():
    # The number of devices can be set only until the first one is started: JAX raises after that.
    output = run(
        "import importlib, pkgutil\n"
        "import jaxgrpo\n"
        "names = [m.name for m in pkgutil.walk_packages(jaxgrpo.__path__, 'jaxgrpo.')]\n"
        "for name in names:\n"
        "    if not name.endswith('__main__'):\n"
        "        importlib.import_module(name)\n"
        "import jax\n"
        "jax.config.update('jax_platforms', 'cpu')\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"
        "print(len(names), jax.device_count())\n"
    )
    modules, devices = map(int, output.split())
    assert modules > 10
    assert devices == 3


def test_rooms_load_when_touched():
    run(
        "import sys\n"
        "import jaxgrpo as jg\n"
        "assert 'jaxgrpo.metrics' not in sys.modules\n"
        "assert jg.metrics is sys.modules['jaxgrpo.metrics']\n"
        "assert 'metrics' in dir(jg)\n"
        "try:\n"
        "    jg.nonsense\n"
        "except AttributeError as error:\n"
        "    assert 'nonsense' in str(error)\n"
        "else:\n"
        "    raise SystemExit('an unknown room did not raise')\n"
    )
