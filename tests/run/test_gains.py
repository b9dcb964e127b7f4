import json

from jaxgrpo.run.gains import read_gains


def write(folder, name, rows):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_kl_and_reward_are_of_the_same_policy(tmp_path):
    """A step samples with the policy of one step less; an evaluation is of its own step."""
    write(
        tmp_path,
        "metrics.jsonl",
        [
            {"step": 1, "frontier/kl": 0.0, "reward/mean": 0.2},
            {"step": 2, "frontier/kl": 0.5, "reward/mean": 0.1},
            {"step": 3, "frontier/kl": 0.4, "reward/mean": 0.6},
            {"step": 4, "frontier/kl": None, "reward/mean": 0.9},
        ],
    )
    write(
        tmp_path,
        "evaluations.jsonl",
        [{"step": 0, "accuracy": 0.25}, {"step": 2, "accuracy": 0.5}, {"step": 4, "accuracy": 0.7}],
    )
    assert read_gains(tmp_path)["frontier"] == {
        "steps": [
            {"step": 0, "kl": 0.0, "reward": 0.2},
            {"step": 2, "kl": 0.4, "reward": 0.6},
        ],
        "evaluations": [
            {"step": 0, "kl": 0.0, "accuracy": 0.25},
            {"step": 2, "kl": 0.4, "accuracy": 0.5},
        ],
    }


def test_without_a_reference_there_is_no_frontier(tmp_path):
    assert read_gains(tmp_path) == {}
    write(tmp_path, "metrics.jsonl", [{"step": 1, "reward/mean": 0.2}])
    assert read_gains(tmp_path) == {}


def test_lines_that_someone_changed_are_passed_over(tmp_path):
    row = {"step": 1, "frontier/kl": 0.5, "reward/mean": 0.2}
    (tmp_path / "metrics.jsonl").write_bytes(
        b'garbage\n[1]\n\xff\n{"step": "x"}\n' + json.dumps(row).encode() + b"\n"
    )
    wanted = {"steps": [{"step": 0, "kl": 0.5, "reward": 0.2}], "evaluations": []}
    assert read_gains(tmp_path) == {"frontier": wanted}
