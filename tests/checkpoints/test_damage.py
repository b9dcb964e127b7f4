"""Checkpoints that a crash, a full disk or a bad disk has hurt."""

import concurrent.futures
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.checkpoints import manifest
from jaxgrpo.checkpoints.config import CheckpointConfig
from jaxgrpo.checkpoints.store import Checkpoints
from jaxgrpo.core.errors import HostError
from tests.checkpoints.conftest import abstract_like

REPOSITORY = pathlib.Path(__file__).parents[2]


def arrays(value):
    return {"w": jnp.full((64, 64), value, jnp.float32), "step": jnp.int32(value)}


def restore(checkpoints, **options):
    return checkpoints.restore(lambda meta: abstract_like(arrays(0)), **options)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def delete(path):
    path.unlink()


DAMAGES = [truncate, flip_a_bit, delete]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with checkpoints 10 and 20, to be copied before it is damaged."""
    directory = tmp_path_factory.mktemp("saved")
    with Checkpoints(directory) as checkpoints:
        for step in (10, 20):
            checkpoints.save(step, arrays(step), {"step": step})
    return directory


@pytest.fixture
def copy(saved, tmp_path):
    return pathlib.Path(shutil.copytree(saved, tmp_path / "checkpoints"))


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_one_file_is_found_and_the_older_checkpoint_taken(
    saved, tmp_path, damage, caplog
):
    names = files_of(saved / "00000020")
    assert len(names) > 5 and pathlib.Path("manifest.json") in names
    for number, name in enumerate(names):
        directory = tmp_path / str(number)
        shutil.copytree(saved, directory)
        path = directory / "00000020" / name
        if damage is not delete and path.stat().st_size == 0:
            continue
        damage(path)
        caplog.clear()
        with Checkpoints(directory) as checkpoints, caplog.at_level(logging.WARNING):
            restored = restore(checkpoints)
            assert (restored.step, restored.meta) == (10, {"step": 10}), name
            assert (restored.arrays["w"] == 10).all()
            assert checkpoints.steps() == (10,)
        warning = next(r.getMessage() for r in caplog.records if r.name.startswith("jaxgrpo"))
        assert str(directory / "00000020") in warning
        assert str(name) in warning or "manifest" in warning


def test_a_changed_metric_in_the_manifest_is_damage(copy):
    path = copy / "00000020" / "manifest.json"
    path.write_text(path.read_text().replace('"step": 20', '"step": 21'))
    with pytest.raises(manifest.Damaged, match="changed after it was written"):
        manifest.read(copy / "00000020")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"crc32": 0}', "nonsense", "\x00" * 64])
def test_a_manifest_of_any_content_is_no_crash(copy, text):
    (copy / "00000020" / "manifest.json").write_text(text)
    with Checkpoints(copy) as checkpoints:
        assert restore(checkpoints).step == 10


def test_a_damaged_checkpoint_is_saved_anew_and_others_are_pruned(copy):
    flip_a_bit(copy / "00000020" / "meta.json")
    with Checkpoints(copy, CheckpointConfig(max_to_keep=1)) as checkpoints:
        assert restore(checkpoints).step == 10
        # The run goes on from 10; the damaged 20 must not outlive the good 15.
        checkpoints.save(15, arrays(15), {"step": 15})
        assert checkpoints.steps() == (15,)
        assert not (copy / "00000020").exists()
        checkpoints.save(20, arrays(200), {"step": 20})
        assert (restore(checkpoints).arrays["w"] == 200).all()


def test_a_run_is_not_started_afresh_over_its_damaged_checkpoints(copy):
    for step in ("00000010", "00000020"):
        flip_a_bit(copy / step / "meta.json")
    with Checkpoints(copy) as checkpoints, pytest.raises(HostError) as caught:
        restore(checkpoints)
    assert "00000010: meta.json was changed" in str(caught.value)
    assert "to start afresh, move it" in str(caught.value)


def test_a_damaged_checkpoint_asked_for_by_step_is_an_error(copy):
    truncate(copy / "00000010" / "meta.json")
    with Checkpoints(copy) as checkpoints:
        with pytest.raises(HostError, match=r"meta\.json has 6 bytes, not 12"):
            restore(checkpoints, step=10)
        assert restore(checkpoints, step=20).step == 20


def test_a_failed_background_save_surfaces_at_the_next_call(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    def fails_later(checkpoints):
        with monkeypatch.context() as patched:
            patched.setattr(manifest, "write", full)
            checkpoints.save(10, arrays(10), {})
            concurrent.futures.wait([checkpoints._pending])

    calls = [
        lambda c: c.save(20, arrays(20), {}),
        restore,
        Checkpoints.steps,
        Checkpoints.latest,
        Checkpoints.best,
        Checkpoints.wait,
        Checkpoints.close,
    ]
    for call in calls:
        checkpoints = Checkpoints(tmp_path)
        fails_later(checkpoints)
        with pytest.raises(HostError, match=r"checkpoint .*00000010 failed: .*No space left"):
            call(checkpoints)
        # It is said once, and what was half written is no checkpoint.
        assert checkpoints.steps() == ()
        checkpoints.close()


def test_leaving_the_context_raises_the_failure_but_hides_no_other_error(
    tmp_path, monkeypatch, caplog
):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manifest, "write", full)
    with pytest.raises(HostError, match="No space left"), Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(10, arrays(10), {})
    with pytest.raises(KeyError, match="the first"), Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(10, arrays(10), {})
        raise KeyError("the first")
    assert "No space left" in caplog.text


def run(tmp_path, body, *arguments):
    """Run a script of this package in its own process."""
    script = tmp_path / "script.py"
    prelude = """
        import os, resource, sys, time
        import jax, jax.numpy as jnp, numpy as np
        jax.config.update("jax_platforms", "cpu")
        from jaxgrpo.checkpoints.store import Checkpoints
        from jaxgrpo.core.errors import HostError
        big = {"w": np.random.default_rng(0).random(1 << 22)}
    """
    script.write_text(textwrap.dedent(prelude) + textwrap.dedent(body))
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "checkpoints"), *arguments],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_disk_that_refuses_the_write_is_said_at_the_next_call(tmp_path):
    process = run(
        tmp_path,
        """
        checkpoints = Checkpoints(sys.argv[1])
        checkpoints.save(1, {"w": jnp.arange(4.0)}, {})
        checkpoints.wait()
        # No file may grow past 1 MiB: the 32 MiB of the arrays fail in the background.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        checkpoints.save(2, big, {})
        try:
            checkpoints.save(3, big, {})
        except HostError as error:
            print("SAID", error)
        print("LEFT", checkpoints.steps())
        checkpoints.close()
        """,
    )
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "SAID saving checkpoint" in output and "00000002 failed" in output
    assert "LEFT (1,)" in output


KILLED = """
    from jaxgrpo.checkpoints import manifest
    checkpoints = Checkpoints(sys.argv[1])
    checkpoints.save(1, {"w": big["w"][:10]}, {})
    checkpoints.wait()
    if "all but committed" in sys.argv:
        manifest.write = lambda *_, **__: (print("NOW", flush=True), time.sleep(600))
    else:
        print("NOW", flush=True)
    for step in range(2, 1000):
        checkpoints.save(step, {"w": big["w"][: 1 << 19]}, {})
"""


@pytest.mark.parametrize("moment", ["all but committed", "0.0", "0.02", "0.1"])
def test_a_process_killed_during_a_save_leaves_a_whole_checkpoint(tmp_path, moment):
    process = run(tmp_path, KILLED, moment)
    assert process.stdout.readline() == "NOW\n"
    if moment != "all but committed":
        time.sleep(float(moment))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)

    directory = tmp_path / "checkpoints"
    unfinished = [p for p in directory.iterdir() if not (p / "manifest.json").exists()]
    if moment == "all but committed":
        assert [path.name for path in unfinished] == ["00000002"]
        assert (unfinished[0] / "arrays").exists()
    with Checkpoints(directory) as checkpoints:
        newest = checkpoints.latest()
        expected = np.random.default_rng(0).random(1 << 22)[: 10 if newest == 1 else 1 << 19]
        restored = checkpoints.restore(lambda meta: {"w": np.zeros_like(expected)})
        assert restored.step == newest
        assert restored.arrays["w"].tobytes() == expected.tobytes()
        # The next save clears away what the kill left behind.
        checkpoints.save(1000, arrays(1), {})
        checkpoints.wait()
        assert not any(path.exists() for path in unfinished)


def test_a_first_save_that_was_killed_is_no_reason_not_to_start(tmp_path):
    (tmp_path / "00000020" / "arrays.orbax-checkpoint-tmp").mkdir(parents=True)
    with Checkpoints(tmp_path) as checkpoints:
        assert restore(checkpoints) is None


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise SystemExit(3)"])
def test_a_program_that_ends_during_a_save_finishes_it(tmp_path, ending):
    process = run(
        tmp_path,
        f"""
        with Checkpoints(sys.argv[1]) as checkpoints:
            checkpoints.save(1, big, {{}})
            {ending}
        """,
    )
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 3, output
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        assert checkpoints.steps() == (1,)


def test_a_program_that_never_closes_ends_all_the_same_and_has_saved(tmp_path):
    process = run(tmp_path, "Checkpoints(sys.argv[1]).save(1, big, {})")
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, output
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        assert checkpoints.steps() == (1,)
