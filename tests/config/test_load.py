import pathlib

import pytest
import yaml

from jaxgrpo.config import digest, dump, load, parse
from jaxgrpo.core.errors import UserError

CONFIGS = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("*.yaml"))

MINIMAL = """\
model: {decoder: {layers: 1}}
data: {train: {task: arithmetic}}
rewards: {}
run: {directory: somewhere}
"""


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_loads_and_survives_its_own_dump(path):
    experiment = load(path)
    assert parse(dump(experiment)) == experiment
    assert path.read_text().startswith("# "), "the first line says what the run is"


def test_there_are_configs():
    assert CONFIGS


def test_defaults_are_filled_in():
    experiment = parse(MINIMAL)
    assert experiment.loss.name == "atr"
    assert experiment.rewards.functions[0].name == "answer"
    assert experiment.rows_per_update == 32 * 8


def test_overrides_win_over_the_file_in_both_spellings():
    experiment = parse(MINIMAL, ["--seed", "7", "--optimizer.learning_rate=1e-4"])
    assert (experiment.seed, experiment.optimizer.learning_rate) == (7, 1e-4)


def test_another_name_drops_the_options_of_the_one_before():
    text = MINIMAL + "loss: {name: atr, options: {delta: 0.1}}\n"
    assert parse(text, ["--loss.name", "ppo_clip"]).loss.options == {}
    assert parse(text, ["--loss.name", "atr"]).loss.options == {"delta": 0.1}
    for given in (
        ["--loss.name", "ppo_clip", "--loss.options", "{clip_low: 0.1}"],
        ["--loss.options", "{clip_low: 0.1}", "--loss.name", "ppo_clip"],
    ):
        assert parse(text, given).loss.options == {"clip_low": 0.1}


def test_an_override_makes_a_room_that_the_file_left_out():
    experiment = parse(MINIMAL, ["--data.eval.task", "arithmetic", "--data.eval.size", "9"])
    assert experiment.data.eval.size == 9


def test_exponents_are_numbers_also_inside_options():
    experiment = parse(MINIMAL + "loss: {name: atr, options: {delta: 2e-2}}\n")
    assert experiment.loss.options == {"delta": 0.02}


def test_digest_changes_with_any_value_and_only_then():
    assert digest(parse(MINIMAL)) == digest(parse(MINIMAL))
    assert digest(parse(MINIMAL)) != digest(parse(MINIMAL, ["--seed", "1"]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sed: 1\n", "unknown key sed; did you mean 'seed'?"),
        ("rollout: {grup_size: 4}\n", "unknown key rollout.grup_size; did you mean 'group_size'?"),
        ("rewards: {functions: [{nmae: answer}]}\n", "rewards.functions[0].nmae"),
        ("seed: one\n", "seed: input should be a valid integer, got 'one'"),
        ("seed: 1.5\n", "seed: input should be a valid integer"),
        ("seed: true\n", "seed: input should be a valid integer, got True"),
        ("optimizer: {learning_rate: .nan}\n", "learning_rate must be a number of at most 3.4e+38"),
        ("optimizer: {learning_rate: 1e39}\n", "learning_rate must be a number of at most 3.4e+38"),
        ("loss: {penalty: {coefficient: .inf}}\n", "coefficient must be a number of at most"),
        ("training: {steps: 2147483648}\n", "training.steps must be a number of at most 2.14"),
        ("training: {max_mismatch: .nan}\n", "training.max_mismatch must be a number of at most"),
        ("rollout: {sampling: {temperature: 1e-300}}\n", "temperature must be 0 or in [0.0001"),
        ("rollout: {sampling: {length_buckets: [0, 8]}}\n", "length_buckets must be at least 1"),
        ("model: {decoder: {rope_theta: 0.0}}\n", "rope_theta must be above 0 and finite"),
        ("model: {decoder: {norm_epsilon: -1e-6}}\n", "norm_epsilon must be above 0 and finite"),
        ("optimizer: {epsilon: 0.0}\n", "epsilon must be above 0 and finite"),
        ("seed: null\n", "seed: input should be a valid integer, got None"),
        ("optimizer: {learning_rate: '1e-4'}\n", "optimizer.learning_rate"),
        ("optimizer: {schedule: step}\n", "'constant', 'linear' or 'cosine', got 'step'"),
        ("optimizer: {b1: 1.5}\n", "optimizer: b1 must be in [0, 1), got 1.5"),
        ("optimizer: 3\n", "optimizer"),
        ("seed: 1\nseed: 2\n", "key 'seed' is given twice"),
        ("loss: {name: nope}\n", "loss: no loss named 'nope'"),
        ("loss: {penalty: {coefficient: -1.0}}\n", "coefficient must not be negative"),
        ("loss: {aggregation: {name: sequence_mean_constant}}\n", "length"),
        ("model: {}\n", "give one of path and decoder"),
        ("? [1, 2]\n: 3\n", "unhashable key"),
    ],
)
def test_whatever_does_not_fit_is_refused_in_one_line(text, says):
    rooms = [line for line in MINIMAL.splitlines() if line.split(":")[0] not in text.split(":")[0]]
    with pytest.raises(UserError) as caught:
        parse("\n".join([*rooms, text]))
    message = str(caught.value)
    assert says in message
    assert "\n" not in message


def test_an_option_of_an_operator_may_be_infinite():
    experiment = parse(
        MINIMAL + "loss: {name: dppo_tv, options: {cap: .inf}}\ntraining: {anchor: behaviour}\n"
    )
    assert experiment.loss.options == {"cap": float("inf")}


def test_a_missing_room_is_named():
    with pytest.raises(UserError, match="data is missing"):
        parse("model: {decoder: {layers: 1}}\nrewards: {}\nrun: {directory: x}\n")


@pytest.mark.parametrize("text", ["", "- 1\n", "3\n", "text\n"])
def test_what_is_not_a_mapping_is_refused(text):
    with pytest.raises(UserError, match="a mapping is wanted"):
        parse(text)


def test_a_config_can_not_run_code():
    with pytest.raises(UserError, match="could not determine a constructor"):
        parse(MINIMAL + "tokenizer: !!python/object/apply:os.system [exit]\n")


def test_dump_is_plain_yaml():
    assert yaml.safe_load(dump(parse(MINIMAL)))["seed"] == 0
