"""The record: what is written is read back, old versions too, and nothing else is taken for one."""

import dataclasses
import json
import pathlib
import pickle
import zipfile

import numpy as np
import pytest

from jaxgrpo.advantages import group_centred
from jaxgrpo.core.errors import UserError
from jaxgrpo.losses.objective import Reason
from jaxgrpo.rollouts import read_record, whole_batch, write_record
from jaxgrpo.rollouts.records import ARRAYS, SCHEMA_VERSION
from jaxgrpo.training import TokenTrace

TOPS = {"top_ids", "behaviour_top_log_probs", "top_log_probs"}
OPTIONAL = {"reference_log_probs", "token_advantages", "token_weights", "demonstrations", *TOPS}
# Made once with NumPy alone, when version 1 was new; never made again.
VERSION_1 = pathlib.Path(__file__).parent / "fixtures" / "record_v1.npz"


@pytest.fixture
def written(rollout, sampling, tmp_path):
    """Path, batch and trace of a record; everything past a completion's end is nan."""
    advantages = np.asarray(group_centred(rollout.rewards, rollout.group_ids))
    batch = dataclasses.replace(whole_batch(rollout, sampling), advantages=advantages)
    random, outside = np.random.default_rng(1), ~batch.trainable
    floats = random.normal(size=(3, 12, 6)).astype(np.float32)
    floats[:, outside] = np.nan
    reasons = np.where(outside, 99, Reason.CLIPPED_LOW).astype(np.int8)
    trace = TokenTrace(*floats, reasons)
    path = tmp_path / "deep" / "step-3.npz"
    write(path, rollout, batch, trace)
    return path, batch, trace


def write(path, rollout, batch, trace, **changes):
    said = dict(run_id="run-9", step=3, weight_version=6, config_digest="d1g3st")
    write_record(path, rollout, batch, trace, **{**said, **changes})


def test_a_record_is_read_back_as_it_was(written, rollout):
    path, batch, trace = written
    record = read_record(path)
    inside = batch.trainable
    # Without an anchor of its own, the trainer's policy is the anchor.
    anchor = trace.log_probs if batch.anchor_log_probs is None else batch.anchor_log_probs
    wanted = {
        "prompt_ids": np.repeat([100, 101, 102, 103], 3),
        "sample_numbers": np.tile([0, 1, 2], 4),
        "rewards": rollout.rewards,
        "advantages": batch.advantages,
        "stop_reasons": rollout.completions.stop_reasons,
        "prompt_lengths": batch.prompt_lengths,
        "completion_lengths": batch.completion_lengths,
        "prompt_tokens": batch.prompt_tokens,
        "tokens": np.where(inside, batch.completion_tokens, 0),
        "behaviour_log_probs": np.where(inside, batch.behaviour_log_probs, 0),
        "anchor_log_probs": np.where(inside, anchor, 0),
        "log_probs": np.where(inside, trace.log_probs, 0),
        "entropies": np.where(inside, trace.entropies, 0),
        "gradient_weights": np.where(inside, trace.gradient_weights, 0),
        "reasons": np.where(inside, trace.reasons, 0),
    }
    assert record.arrays.keys() == wanted.keys() == ARRAYS.keys() - OPTIONAL
    for name, values in wanted.items():
        assert np.array_equal(record.arrays[name], values, equal_nan=name == "rewards"), name


def test_arrays_have_the_shapes_and_dtypes_that_are_promised(written):
    sizes = {"B": 12, "P": 8, "T": 6}
    for name, array in read_record(written[0]).arrays.items():
        shape, dtype = ARRAYS[name].split("]")
        assert array.shape == tuple(sizes[axis] for axis in shape[1:].split(", ")), name
        assert str(array.dtype) == dtype.split()[0].strip(":,"), name


def test_top_rows_are_kept_of_the_sampler_and_of_the_trainer(written, rollout, tmp_path):
    _, batch, trace = written
    random = np.random.default_rng(2)
    shape = (12, 6, 3)
    ids = random.integers(0, 90, shape).astype(np.int32)
    theirs, ours = random.normal(size=(2, *shape)).astype(np.float32)
    outside = ~batch.trainable
    for array in (theirs, ours):
        array[outside] = np.nan
    batch = dataclasses.replace(batch, top_ids=ids, behaviour_top_log_probs=theirs)
    path = tmp_path / "tops.npz"
    # A sampler may record them for a loss that doesn't read them.
    write(path, rollout, batch, trace)
    assert read_record(path).arrays.keys() == ARRAYS.keys() - OPTIONAL | TOPS - {"top_log_probs"}
    write(path, rollout, batch, dataclasses.replace(trace, top_log_probs=ours))
    arrays = read_record(path).arrays
    for name, values in {
        "top_ids": ids,
        "behaviour_top_log_probs": theirs,
        "top_log_probs": ours,
    }.items():
        assert np.array_equal(arrays[name], np.where(outside[..., None], 0, values)), name
        assert arrays[name].dtype == values.dtype
        assert ARRAYS[name].startswith(f"[B, T, K] {values.dtype}")


def test_the_header_says_what_the_arrays_do_not(written, rollout):
    header = read_record(written[0]).header
    assert header["schema_version"] == SCHEMA_VERSION
    assert (header["run_id"], header["step"], header["weight_version"]) == ("run-9", 3, 6)
    assert header["config_digest"] == "d1g3st"
    assert header["reasons"] == [reason.name.lower() for reason in Reason]
    assert header["stop_reasons"] == ["length", "stop"]
    assert header["prompts"][1] == {
        "id": 101,
        "name": "sums-1",
        "question": "20+3=",
        "answer": "1",
    }
    assert header["completions"] == list(rollout.texts)
    assert header["rewards"][0] == {"answer": 1.0, "format": 1.0}
    # JSON has no nan.
    assert header["rewards"][6] == {"answer": None, "format": 1.0}
    assert header["outcomes"][6] == {"answer": "timeout", "format": "ok"}


def test_a_reference_is_recorded_where_there_is_one(written, rollout, tmp_path):
    _, batch, trace = written
    reference = np.where(batch.trainable, np.float32(-0.5), np.float32(np.nan))
    batch = dataclasses.replace(batch, reference_log_probs=reference)
    write(tmp_path / "r.npz", rollout, batch, trace)
    got = read_record(tmp_path / "r.npz").arrays["reference_log_probs"]
    assert np.array_equal(got, np.where(batch.trainable, np.float32(-0.5), 0))


def test_what_is_by_token_is_recorded_so(written, rollout, tmp_path):
    _, batch, trace = written
    advantages = np.arange(72, dtype=np.float32).reshape(12, 6)
    weights = np.where(batch.trainable, np.float32(0.5), np.float32(np.nan))
    batch = dataclasses.replace(batch, advantages=advantages, token_weights=weights)
    write(tmp_path / "t.npz", rollout, batch, trace)
    arrays = read_record(tmp_path / "t.npz").arrays
    assert np.array_equal(arrays["token_advantages"], np.where(batch.trainable, advantages, 0))
    assert np.array_equal(arrays["token_weights"], np.where(batch.trainable, 0.5, 0))
    # Of two tokens, of five, and of none.
    assert arrays["advantages"][[0, 1, 4]].tolist() == [0.5, 8.0, 0.0]


def test_it_is_written_at_once_or_not_at_all(written, rollout):
    path, batch, trace = written
    assert [file.name for file in path.parent.iterdir()] == ["step-3.npz"]
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write(path, rollout, batch, trace, run_id=object())
    assert path.read_bytes() == before
    write(path, rollout, batch, trace, run_id="again")
    assert read_record(path).header["run_id"] == "again"
    assert [file.name for file in path.parent.iterdir()] == ["step-3.npz"]


def test_numpy_alone_reads_it(written):
    with np.load(written[0]) as archive:
        header = json.loads(archive["header"].tobytes())
        assert header["reasons"][archive["reasons"][0, 0]] == "clipped_low"


def test_version_1_is_still_read():
    record = read_record(VERSION_1)
    header, arrays = record.header, record.arrays
    assert (header["schema_version"], header["run_id"], header["step"]) == (1, "run-1", 7)
    assert header["prompts"] == [
        {"id": 41, "name": "arithmetic-41", "question": "12+30=", "answer": "42"}
    ]
    assert header["completions"] == ["#### 42", "é?"]
    assert header["rewards"] == [{"answer": 1.0}, {"answer": None}]
    # Reasons of the file are names of today, at the same numbers.
    assert [Reason[name.upper()] for name in header["reasons"]] == list(range(9))
    assert arrays.keys() == ARRAYS.keys() - OPTIONAL - {"anchor_log_probs"}
    assert arrays["tokens"].tolist() == [[8, 1, 0], [9, 9, 4]]
    assert arrays["reasons"].tolist() == [[1, 2, 0], [8, 8, 8]]
    assert arrays["log_probs"].tolist() == [[-0.5, -0.125, 0], [-1, -2, -3]]
    assert arrays["rewards"][0] == 1
    assert np.isnan(arrays["rewards"][1])


def altered(tmp_path, header=None, without=(), **arrays):
    """The version-1 file with another header, or with arrays changed or left out."""
    with np.load(VERSION_1) as archive:
        held = {name: archive[name] for name in archive.files if name not in without}
    said = json.loads(held["header"].tobytes()) if "header" in held else {}
    if header is not None:
        text = json.dumps({**said, **header} if isinstance(header, dict) else header)
        held["header"] = np.frombuffer(text.encode(), np.uint8)
    path = tmp_path / "altered.npz"
    np.savez(path, **{**held, **arrays})
    return path


@pytest.mark.parametrize("version", [2, 0, -1, "1", None, 1.5])
def test_a_version_that_is_not_known_is_refused(version, tmp_path):
    path = altered(tmp_path, {"schema_version": version})
    with pytest.raises(UserError, match=rf"schema version {version!r} is not one of 1 to 1"):
        read_record(path)


def test_what_later_writers_add_is_kept(tmp_path):
    path = altered(tmp_path, {"note": "hello"}, ranks=np.arange(2))
    record = read_record(path)
    assert record.header["note"] == "hello"
    assert record.arrays["ranks"].tolist() == [0, 1]


def test_missing_arrays_are_named(tmp_path):
    path = altered(tmp_path, without=("tokens", "entropies"))
    with pytest.raises(UserError, match="not a whole record: entropies, tokens missing"):
        read_record(path)


@pytest.mark.parametrize("keep", [0, 1, 10, 100, 1000, -200, -22, -1])
def test_a_truncated_file_is_refused(keep, tmp_path):
    path = tmp_path / "truncated.npz"
    path.write_bytes(VERSION_1.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"truncated.npz is not a record"):
        read_record(path)


def test_a_flipped_bit_is_found(tmp_path):
    whole, path = VERSION_1.read_bytes(), tmp_path / "flipped.npz"
    with zipfile.ZipFile(VERSION_1) as archive:
        entry = archive.getinfo("log_probs.npy")
    # Past the entry's own header, and the array's: in the numbers.
    place = entry.header_offset + 30 + len("log_probs.npy") + 140
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(UserError, match=r"flipped.npz is not a record: Bad CRC-32"):
        read_record(path)


class Bomb:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("exploded"),)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = tmp_path / "bomb.npz"
    bomb.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UserError, match="not a record"):
        read_record(bomb)
    inside = altered(tmp_path, tokens=np.array([Bomb()], dtype=object))
    with pytest.raises(UserError, match="not a record"):
        read_record(inside)
    assert not (tmp_path / "exploded").exists()


def test_other_files_are_refused(tmp_path):
    bare = tmp_path / "array.npy"
    np.save(bare, np.arange(3))
    text = tmp_path / "text.npz"
    text.write_text("schema_version: 1")
    headless = altered(tmp_path, without=("header",))
    for path in (bare, text, headless, tmp_path / "nowhere.npz", tmp_path):
        with pytest.raises(UserError, match="is not a record"):
            read_record(path)
    for header in ([1], 5, "words"):
        with pytest.raises(UserError, match="is not a record"):
            read_record(altered(tmp_path, header))
