import json
import warnings

import jax
import numpy as np
import pytest
from orbax.checkpoint import v1 as ocp

from jaxgrpo.rollouts import read_record

TIMES = ("time/", "tokens/second")


def lines(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(TIMES)} for row in rows]


def newest(folder):
    return max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))


def arrays(folder):
    with warnings.catch_warnings():
        # Orbax warns that shardings come from the file; here they should.
        warnings.simplefilter("ignore")
        return ocp.load(str(newest(folder) / "arrays"))


def progress(folder):
    saved = json.loads((newest(folder) / "meta.json").read_text())["progress"]
    saved.pop("seconds")
    saved.pop("offsets")  # lines hold times, whose digits differ in number
    return saved


def leaves(tree, path=()):
    if isinstance(tree, dict):
        return {
            k: v for name, child in tree.items() for k, v in leaves(child, (*path, name)).items()
        }
    if isinstance(tree, (list, tuple)):
        return leaves(dict(enumerate(tree)), path)
    return {path: tree}


def raw(leaf):
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def assert_same_run(one, other):
    ours, theirs = leaves(arrays(one)), leaves(arrays(other))
    assert ours.keys() == theirs.keys()
    assert len(ours) > 30
    for path, leaf in ours.items():
        assert raw(leaf).tobytes() == raw(theirs[path]).tobytes(), path
    assert progress(one) == progress(other)
    for name in ("metrics.jsonl", "warmup.jsonl", "evaluations.jsonl"):
        assert lines(one / name) == lines(other / name), name
    for path in sorted((one / "rollouts").iterdir()):
        first, second = read_record(path), read_record(other / "rollouts" / path.name)
        for name, array in first.arrays.items():
            assert array.tobytes() == second.arrays[name].tobytes(), (path, name)


def test_killed_three_times_it_ends_as_if_nothing_had_happened(runs, whole):
    assert len(lines(whole / "metrics.jsonl")) == 6
    # In the warm-up, between two saves; in an evaluation; after a step that was not saved.
    for event in ("warmup 3", "evaluating after step 2", "step 5"):
        code, _, errors = runs.run("killed", event)
        assert code == -9, errors
    code, output, errors = runs.run("killed")
    assert code == 0, errors
    assert "going on after step" in output
    assert_same_run(whole, runs.folder / "killed")


def test_terminated_it_saves_exits_75_and_goes_on(runs, whole):
    code, _, errors = runs.run("terminated", "step 3", "SIGTERM")
    assert code == 75
    assert "saved after step 3 of stage grpo" in errors
    # Nothing that was done is done again.
    assert len(lines(runs.folder / "terminated" / "metrics.jsonl")) == 3
    code, output, errors = runs.run("terminated")
    assert code == 0, errors
    assert "going on after step 3" in output
    assert_same_run(whole, runs.folder / "terminated")


@pytest.mark.slow
def test_several_batches_of_prompts_a_step_are_resumed_too(everything):
    """The place in the data is after the last batch that a finished step drew."""
    code, _, errors = everything.run("whole")
    assert code == 0, errors
    whole = everything.folder / "whole"
    drawn = [row["sampling/batches"] for row in lines(whole / "metrics.jsonl")]
    assert max(drawn[:3]) > 1
    code, _, errors = everything.run("killed", "step 3")
    assert code == -9, errors
    code, _, errors = everything.run("killed")
    assert code == 0, errors
    assert_same_run(whole, everything.folder / "killed")
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["compiled_programs"]["weigh"] == 1
    assert summary["tokens"] == sum(row["tokens/step"] for row in lines(whole / "metrics.jsonl"))


@pytest.mark.parametrize("damage", ["truncated", "half-written"])
def test_a_damaged_newest_checkpoint_is_passed_over_by_name(runs, whole, damage):
    directory = damage
    code, _, errors = runs.run(directory, "step 5")
    assert code == -9, errors
    bad = newest(runs.folder / directory)
    if damage == "truncated":
        # The kill may have left the newest one half-written already; damage one that is whole.
        whole_ones = (runs.folder / directory / "checkpoints").glob("*/manifest.json")
        bad = max(path.parent for path in whole_ones)
        largest = max((p for p in bad.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        largest.write_bytes(largest.read_bytes()[:-7])
    else:
        (bad / "manifest.json").unlink(missing_ok=True)
    code, _, errors = runs.run(directory)
    assert code == 0, errors
    assert f"passing over checkpoint {bad}" in errors
    assert_same_run(whole, runs.folder / directory)


def test_it_goes_on_on_other_devices(runs, whole):
    code, _, errors = runs.run("moved", "step 3")
    assert code == -9, errors
    code, output, errors = runs.run("moved", devices=2)
    assert code == 0, errors
    assert "mesh  data 1, fsdp 2, model 1" in output
    ours, theirs = leaves(arrays(whole)), leaves(arrays(runs.folder / "moved"))
    for path, leaf in ours.items():
        if leaf is not None and jax.dtypes.issubdtype(leaf.dtype, np.floating):
            # Rounding of other shards, through a few optimiser steps.
            np.testing.assert_allclose(leaf, theirs[path], rtol=0, atol=2e-4, err_msg=str(path))


def test_a_finished_run_has_nothing_to_do(runs, whole):
    code, _, errors = runs.run("whole")
    assert code == 79
    assert "complete: 6 steps" in errors


def test_a_second_run_in_the_same_folder_is_refused(runs):
    first = runs.start("shared", "step 1", "SIGSTOP")
    try:
        # It stops itself after its first step, so it is surely inside.
        for line in first.stdout:
            if line.startswith("step 1/"):
                break
        code, _, errors = runs.run("shared")
        assert code == 2
        assert "in use by another process" in errors
    finally:
        first.kill()
        first.communicate()


def test_reward_is_summed_up_against_kl(whole):
    """At the start the policy is the reference; an evaluation is matched with its own policy."""
    gained = json.loads((whole / "summary.json").read_text())["frontier"]
    steps = lines(whole / "metrics.jsonl")
    assert steps[0]["frontier/kl"] == pytest.approx(0, abs=1e-5)
    assert steps[-1]["frontier/kl"] > 1e-4
    found = [(point["kl"], point["reward"]) for point in gained["steps"]]
    assert found == sorted(found)
    assert {point["step"] for point in gained["steps"]} <= set(range(6))
    evaluations = lines(whole / "evaluations.jsonl")
    assert [point["step"] for point in gained["evaluations"]] == [0, 2, 4]
    for point, row in zip(gained["evaluations"], evaluations, strict=False):
        assert point["accuracy"] == row["accuracy"]
        assert point["kl"] == steps[point["step"]]["frontier/kl"]


def test_nothing_is_compiled_after_warm_up(whole):
    """Six steps, three evaluations, three records: one program each, the sampler's two."""
    compiled = json.loads((whole / "summary.json").read_text())["compiled_programs"]
    one, two = {"update", "warmup_update", "score", "trace"}, {"sampler", "eval_sampler"}
    assert compiled == {name: 1 for name in one} | {name: 2 for name in two}
