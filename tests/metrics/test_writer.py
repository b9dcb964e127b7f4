import json
import logging
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.metrics.writer import JsonLines, TensorBoard, open_writers


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_one_line_a_step_with_flat_keys(path):
    lines = JsonLines(path)
    lines.write(1, {"loss/policy": 0.25, "stop/reason": "eos", "clip/any": True})
    lines.write(2, {"loss/policy": jnp.float32(0.5), "tokens": np.int64(7), "none": None})
    # Read before closing: a line is on disk when `write` returns.
    assert rows(path) == [
        {"step": 1, "loss/policy": 0.25, "stop/reason": "eos", "clip/any": True},
        {"step": 2, "loss/policy": 0.5, "tokens": 7, "none": None},
    ]
    lines.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -np.inf, jnp.float32(jnp.nan)])
def test_what_is_not_finite_is_null(path, value):
    lines = JsonLines(path)
    lines.write(1, {"grad/norm": value})
    lines.close()
    assert path.read_text() == '{"step": 1, "grad/norm": null}\n'


@pytest.mark.parametrize("value", [jnp.ones(3), [1.0], {"a": 1}, object()])
def test_what_is_not_a_scalar_is_refused_by_name_and_leaves_no_half_line(path, value):
    lines = JsonLines(path)
    with pytest.raises(TypeError, match="metric 'entropy/mean' must be a number"):
        lines.write(1, {"entropy/mean": value})
    lines.write(1, {"entropy/mean": 2.0})
    lines.close()
    assert rows(path) == [{"step": 1, "entropy/mean": 2.0}]


def test_a_resumed_run_goes_on_from_the_offset_of_its_checkpoint(path):
    lines = JsonLines(path)
    lines.write(1, {"a": 1.0})
    offset = lines.offset
    assert offset == path.stat().st_size
    lines.write(2, {"a": 2.0})
    lines.close()

    resumed = JsonLines(path)
    resumed.truncate(offset)
    resumed.write(2, {"a": 20.0})
    assert resumed.offset == path.stat().st_size
    resumed.close()
    assert rows(path) == [{"step": 1, "a": 1.0}, {"step": 2, "a": 20.0}]


def test_a_line_cut_short_by_a_crash_is_removed(path, caplog):
    path.write_text('{"step": 1}\n{"step": 2, "a"')
    with caplog.at_level(logging.WARNING):
        lines = JsonLines(path)
    assert "cut short" in caplog.text and str(path) in caplog.text
    lines.write(2, {})
    lines.close()
    assert rows(path) == [{"step": 1}, {"step": 2}]


def test_a_file_that_someone_changed_is_cut_at_the_line_before(path, caplog):
    lines = JsonLines(path)
    lines.write(1, {"a": 1.0})
    offset = lines.offset
    lines.write(2, {"a": 1.0})
    # Line ends of another system: what was the end of a line is in the middle of one.
    path.write_bytes(path.read_bytes().replace(b"{", b"  {"))
    with caplog.at_level(logging.WARNING):
        lines.truncate(offset + 5)
    assert f"do not end at {offset + 5} bytes" in caplog.text
    assert rows(path) == [{"step": 1, "a": 1.0}]
    lines.truncate(0)
    assert path.read_text() == ""
    lines.close()


def test_a_run_whose_metrics_were_deleted_still_resumes(path, caplog):
    lines = JsonLines(path)
    with caplog.at_level(logging.WARNING):
        lines.truncate(500)
    assert "0 bytes, not 500" in caplog.text
    lines.write(9, {})
    lines.close()
    assert rows(path) == [{"step": 9}]


def tensorboard_scalars(directory):
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(directory.glob("events*")):
        data = path.read_bytes()
        while data:
            # A record: length (8 bytes), its checksum (4), the event, its checksum (4).
            length = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            for value in event.summary.value:
                found[event.step, value.tag] = value.simple_value
    return found


def test_tensorboard_gets_the_same_scalars(tmp_path):
    with open_writers(tmp_path) as writers:
        writers.write(3, {"reward/mean": 0.5, "grad/norm": float("nan"), "note": "text"})
        writers.write(4, {"reward/mean": 0.75})
        assert writers.offset == (tmp_path / "metrics.jsonl").stat().st_size
    assert tensorboard_scalars(tmp_path / "tensorboard") == {
        (3, "reward/mean"): 0.5,
        (4, "reward/mean"): 0.75,
    }
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [3, 4]


def test_json_lines_need_no_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with open_writers(tmp_path) as writers:
        writers.write(1, {"a": 1.0})
        writers.truncate(0)
        writers.write(1, {"a": 2.0})
    assert rows(tmp_path / "metrics.jsonl") == [{"step": 1, "a": 2.0}]
    assert not (tmp_path / "tensorboard").exists()
    with pytest.raises(ImportError, match=r'pip install "jaxgrpo\[tensorboard\]"'):
        TensorBoard(tmp_path)


def test_only_process_zero_writes(tmp_path):
    with open_writers(tmp_path, process_index=1) as writers:
        writers.write(1, {"a": 1.0})
        writers.truncate(0)
        assert writers.offset == 0
    assert list(tmp_path.iterdir()) == []
