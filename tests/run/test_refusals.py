import json

import pytest

from jaxgrpo.cli.main import main


@pytest.fixture
def train(runs, tmp_path, monkeypatch, capsys):
    """`jaxgrpo train` on the tiny config with overrides: (exit code, what stderr says, folder)."""
    monkeypatch.syspath_prepend(str(runs.folder))
    for name, value in runs.environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "run"
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "this_exits.py").write_text('raise SystemExit("two\\nlines")')

    def call(*overrides, config=runs.config):
        code = main(["train", str(config), "--run.directory", str(folder), *overrides])
        return code, capsys.readouterr().err, folder

    return call


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["--data.train", "{path: nowhere.jsonl}"], "nowhere.jsonl"),
        (["--data.trian.size", "3"], "did you mean 'train'?"),
        (["--rollout.group_size", "1"], "group_size must be at least 2, got 1"),
        (["--rollout.sampling.top_k", "5"], "training samples from the whole distribution"),
        (["--training.minibatches", "3"], "must divide rollout.prompts_per_step 4, got 3"),
        (["--training.micro_batches", "3"], "must divide the 4 rows of a minibatch, got 3"),
        (["--mesh.data", "8"], "do not split over the mesh's 8 row shards"),
        (["--mesh.model", "3"], "does not fit 8 devices"),
        (["--mesh.fsdp", "2", "--mesh.data", "2"], "does not fit 8 devices"),
        (["--rewards.functions", "[{name: nowhere:nothing}]"], "nowhere"),
        (["--rewards.functions", "[{name: jaxgrpo_test_rewards:nothing}]"], "nothing"),
        (["--rewards.functions", "[{name: jaxgrpo_test_rewards:column}]"], "takes 'level'"),
        (["--loss.name", "art"], "did you mean 'atr'?"),
        (["--loss.name", "os:getcwd"], "loss 'os:getcwd': TypeError"),
        (["--loss.name", "this_exits:f"], "cannot be imported: SystemExit: two lines"),
        (["--loss.aggregation.name", "os:getcwd"], "aggregation.name must be one of"),
        (["--loss.options", "{detla: 0.1}"], "did you mean 'delta'?"),
        (["--loss.options", "{delta: big}"], "delta must be"),
        (["--advantages.name", "group_normalized"], "did you mean 'group_normalised'?"),
        (["--data.max_prompt_tokens", "2"], "none of 64 prompts fits"),
        (["--rollout.sampling.max_new_tokens", "5"], "the worked example has"),
        (["--tokenizer", "nowhere"], "nowhere"),
        (
            [*["--mesh.data", "8", "--rollout.prompts_per_step", "32"], "--warmup.batch_size", "7"],
            "7 rows of warmup.batch_size do not split",
        ),
        (["--data.eval.size", "5000"], "different evaluation problems"),
        (["--model.decoder.kv_heads", "3"], "kv_heads must divide heads"),
        (["--model.decoder.compute_dtype", "float64"], "float64 needs JAX_ENABLE_X64=1"),
        (["--model.decoder.parameter_dtype", "float64"], "float64 needs JAX_ENABLE_X64=1"),
        (["--seed", "-1"], "seed must be in"),
        (["--seed"], "--seed needs a value"),
        (["seed", "3"], "overrides look like --room.field value"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_nothing_written(train, overrides, says):
    # Eight devices here, so the mesh that takes them all needs rows for each.
    fits = [] if any("mesh" in word for word in overrides) else ["--mesh.model", "8"]
    code, errors, folder = train(*fits, *overrides)
    assert code == 2
    assert says in errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert not folder.exists()


def test_a_broken_config_file_is_named_with_its_line(train, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("seed: 1\nmodel: [1\n")
    code, errors, folder = train(config=broken)
    assert code == 2
    assert "broken.yaml: line 3" in errors
    code, errors, _ = train(config=tmp_path / "missing.yaml")
    assert code == 2
    assert "missing.yaml: cannot be read" in errors
    assert not folder.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"question": "1+1=", "answer": "2"}\nnot json\n', "questions.jsonl:2"),
        ('{"question": "1+1="}\n', "answer"),
        ("", "questions.jsonl"),
    ],
)
def test_bad_data_files_are_named_with_their_line(train, tmp_path, text, says):
    path = tmp_path / "questions.jsonl"
    path.write_text(text)
    code, errors, folder = train(
        "--mesh.model", "8", "--warmup.steps", "0", "--data.train", f"{{path: {path}}}"
    )
    assert code == 2
    assert says in errors
    assert not folder.exists()


def test_rewards_that_raise_stop_the_run_past_the_share(train):
    code, errors, folder = train(
        *["--mesh.model", "8", "--warmup.steps", "0", "--data.eval", "null"],
        *["--rewards.functions", '[{name: "jaxgrpo_test_rewards:broken"}]'],
    )
    assert code == 78
    assert "100% of rewards failed" in errors
    assert "error: RuntimeError: planted (8x)" in errors
    assert "saved after step 0 of stage grpo" in errors
    assert not (folder / "summary.json").exists()


def test_a_baseline_that_could_not_be_measured_is_not_kept(train):
    code, errors, folder = train(
        *["--mesh.model", "8", "--warmup.steps", "0"],
        *["--rewards.functions", '[{name: "jaxgrpo_test_rewards:broken"}]'],
    )
    assert code == 78
    assert "100% of held-out rewards failed" in errors
    assert not (folder / "evaluations.jsonl").read_text()


def test_failed_rewards_below_the_share_are_counted(train):
    functions = '[{name: answer}, {name: "jaxgrpo_test_rewards:broken"}]'
    code, _, folder = train(
        *["--mesh.model", "8", "--warmup.steps", "0", "--data.eval", "null"],
        *["--rewards.functions", functions, "--rewards.max_failed_fraction", "1.0"],
        # A penalty would have a gradient of rounding even at the reference itself.
        *["--training.steps", "1", "--loss.penalty.coefficient", "0.0"],
    )
    assert code == 0
    (row,) = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    assert row["reward/failed_fraction"] == 1.0
    assert row["reward/mean"] is None
    assert row["grad/norm"] == 0.0


def test_nan_stops_the_run_and_is_not_saved(train):
    code, errors, folder = train(
        *["--mesh.model", "8", "--warmup.optimizer.learning_rate", "1e38"],
        *["--warmup.optimizer.max_grad_norm", "0"],
    )
    assert code == 78
    assert "is nan at step" in errors or "is inf at step" in errors
    assert not (folder / "summary.json").exists()


def test_a_folder_of_another_config_is_refused_and_left_alone(train, runs, whole):
    before = (whole / "config.yaml").read_text()
    code, errors, _ = train(
        *["--mesh.model", "8", "--run.directory", str(whole), "--optimizer.learning_rate", "0.5"]
    )
    assert code == 2
    assert "optimizer.learning_rate 0.01 -> 0.5" in errors
    assert (whole / "config.yaml").read_text() == before


def test_a_checkpoint_competes_with_what_was_measured_at_its_own_step_only(train):
    code, _, folder = train(
        *["--mesh.model", "8", "--warmup.steps", "0", "--training.steps", "3"],
        *["--checkpoints.every_steps", "1", "--checkpoints.max_to_keep", "5"],
        *["--checkpoints.best_metric", "eval/accuracy", "--evaluation.every_steps", "2"],
    )
    assert code == 0
    manifests = sorted((folder / "checkpoints").glob("*/manifest.json"))
    metrics = [json.loads(path.read_text())["body"]["metrics"] for path in manifests]
    assert ["eval/accuracy" in found for found in metrics] == [False, True, True]
    assert all("reward/mean" in found for found in metrics)
