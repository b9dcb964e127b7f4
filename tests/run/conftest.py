import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, os.fspath(pathlib.Path(__file__).parent))
import experiments

REPOSITORY = pathlib.Path(__file__).parents[2]


class Runs:
    """A folder with the tiny config in it, and the processes that run it."""

    def __init__(self, folder, config=experiments.TINY, cache=None):
        self.folder = folder
        self.cache = cache or folder / "cache"
        self.config = folder / "tiny.yaml"
        self.config.write_text(config)
        (folder / "jaxgrpo_test_rewards.py").write_text(experiments.REWARDS)
        (folder / "runner.py").write_text(experiments.RUNNER)

    def environment(self, devices=1):
        paths = os.pathsep.join(map(os.fspath, (REPOSITORY, self.folder)))
        return {
            **os.environ,
            "PYTHONPATH": paths,
            "JAX_NUM_CPU_DEVICES": str(devices),
            # The same programs are compiled by every process here: share them.
            "JAX_COMPILATION_CACHE_DIR": os.fspath(self.cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }

    def start(self, directory, event="never", signal="SIGKILL", devices=1):
        words = [self.folder / "runner.py", self.config, self.folder / directory, event, signal]
        return subprocess.Popen(
            [sys.executable, *map(os.fspath, words)],
            env=self.environment(devices),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, directory, event="never", signal="SIGKILL", devices=1):
        process = self.start(directory, event, signal, devices)
        try:
            output, errors = process.communicate(timeout=150)
        finally:
            process.kill()
        return process.returncode, output, errors


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def everything(runs, tmp_path):
    """Runs of a config in which every part of a step that has an option has it on."""
    return Runs(tmp_path, experiments.EVERYTHING, runs.cache)


@pytest.fixture(scope="session")
def whole(runs):
    """The run folder of a run that nothing interrupted."""
    code, _, errors = runs.run("whole")
    assert code == 0, errors
    return runs.folder / "whole"
