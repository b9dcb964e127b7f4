"""Every operator family from a run's YAML to its parameters, and how they are composed on the way.

All cases share one tiny decoder and its compiled sampler and scoring; what differs is compiled.
"""

import dataclasses
import functools
import itertools
import json
import pathlib

import jax
import numpy as np
import pytest

from jaxgrpo.advantages import ADVANTAGE_TRANSFORMS, ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.config import load, parse
from jaxgrpo.core.errors import UserError
from jaxgrpo.divergences import ROW_DIVERGENCES
from jaxgrpo.losses import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.losses.reasons import Reason
from jaxgrpo.ratios import WEIGHTS
from jaxgrpo.rewards import Score
from jaxgrpo.rollouts import read_record, write_record
from jaxgrpo.run import position as positions
from jaxgrpo.run import program as program_module
from jaxgrpo.run import train as run_whole
from jaxgrpo.run.program import build_program
from jaxgrpo.run.step import grpo_step
from jaxgrpo.sampling import StopReason
from jaxgrpo.sharding import build_mesh

BASE = """\
seed: 3
model:
  decoder: {layers: 1, hidden_size: 16, heads: 2, kv_heads: 1, head_size: 8, mlp_size: 32}
data:
  train: {task: arithmetic, size: 64, options: {digits: 2, working_fraction: 0.0}}
  max_prompt_tokens: 8
rollout:
  prompts_per_step: 4
  group_size: 4
  sampling: {max_new_tokens: 10, decode_chunk: 10, length_buckets: [10]}
rewards: {functions: [{name: answer}, {name: format, weight: 0.5}]}
training: {steps: 2, minibatches: 2}
optimizer: {learning_rate: 1e-2}
run: {directory: unused}
"""
# Most completions of an untrained model are cut off: of a smaller share of them nothing might stay.
TRUNCATED = ["--rollout.mask_truncated", "true", "--training.minibatches", "1"]
MASKS = {
    "truncated": TRUNCATED,
    "truncated, counted": [*TRUNCATED, "--rollout.count_truncated", "true"],
    "top entropy": ["--loss.top_entropy_fraction", "0.2"],
    "entropy bonus": ["--loss.entropy_bonus", "0.01"],
    "positive nll": ["--loss.positive_nll", "0.1"],
    "dynamic sampling": ["--rollout.dynamic_sampling.enabled", "true"],
}
DEMONSTRATED = ["--rollout.demonstrations", "1"]
REQUIRED = {
    "overlong_penalised": {"max_length": 10, "buffer": 4},
    "filtered_group": {"keep": 3},
    "pass_at_k_normalised": {"k": 2, "threshold": 0.8},
    "pass_at_k_rewards": {"k": 2, "threshold": 0.8},
    "clipped": {"low": -0.5},
}


def choice(name, **more):
    return json.dumps({"name": name, "options": REQUIRED.get(name, {}), **more})


def cases():
    for name in WEIGHTS.names():
        yield f"weight {name}", ["--loss.weights", f"[{choice(name)}]"]
    for name in REWARD_TRANSFORMS.names():
        yield f"transform {name}", ["--rewards.transforms", f"[{choice(name)}]"]
    for name in ADVANTAGES.names():
        yield f"advantage {name}", ["--advantages", choice(name)]
    for name in ADVANTAGE_TRANSFORMS.names():
        yield f"after {name}", ["--advantage_transforms", f"[{choice(name)}]"]
    rows = [name for name in ROW_DIVERGENCES.names() if name != "entropy_ratio"]
    for name in (*PENALTIES.names(), *ROW_PENALTIES.names(), *rows):
        penalty = json.dumps({"name": name, "coefficient": 0.1})
        yield f"penalty {name}", ["--loss.penalty", penalty]
    for name in ("luffy", "dagrpo", "atr"):
        yield f"demonstrations {name}", ["--loss.name", name, *DEMONSTRATED]
    yield from MASKS.items()


CASES = dict(cases())


@pytest.fixture(autouse=True, scope="module")
def one_device():
    """What is tested here has nothing to do with devices, and one is fastest; compiled cheaply."""
    fast = {"xla_backend_optimization_level": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", functools.partial(jax.jit, compiler_options=fast))
        patch.setattr(
            program_module, "build_mesh", lambda config: build_mesh(config, jax.devices()[:1])
        )
        yield


class Pool:
    """Rewards that are made up: the first function is the share of digits, the second a constant.

    `flat`: of every so many prompts, all but one get equal rewards.
    """

    def __init__(self, flat=1):
        self.flat, self.asked = flat, 0

    def score(self, items, *, on_wait=None):
        scores = []
        for item in items:
            told = (self.asked // 4) % self.flat == 0
            digits = sum(c.isdigit() for c in item.completion) + len(item.completion) / 7
            values = {"answer": digits / 8 if told else 0.0, "format": 1.0}
            total = values["answer"] + 0.5 * values["format"]
            scores.append(Score(total, values, dict.fromkeys(values, "ok"), 0.0))
            self.asked += 1
        return scores


@functools.cache
def shared():
    """The program of the base config, its sampler and scoring compiled with the first use."""
    return build_program(parse(BASE))


@functools.cache
def objective_of(loss):
    """Update and trace of a loss, by its config without what is no part of its objective."""
    demonstrated = "off_policy" in LOSSES.needs(json.loads(loss)["name"])
    return build_program(parse(BASE, ["--loss", loss, *(DEMONSTRATED if demonstrated else [])]))


def program_of(overrides):
    experiment = parse(BASE, overrides)
    config = dataclasses.asdict(experiment.loss)
    for outside in ("weights", "top_entropy_fraction"):
        config.pop(outside)
    compiled = objective_of(json.dumps(config))
    program = build_program(experiment)
    return dataclasses.replace(
        program,
        sampler=shared().sampler,
        score=program.score if "squared_probs" in program.credit.needs else shared().score,
        update=compiled.update,
        trace=compiled.trace,
    )


@functools.cache
def start():
    """Host copies of the state before GRPO and the key: updates take what they are given."""
    position = positions.fresh(shared())
    return jax.device_get(position.state.params), position.key


def begin(program):
    params, key = start()
    where = jax.tree.map(lambda leaf: leaf.sharding, shared_params())
    state = positions.new_state(program, jax.device_put(params, where), "grpo")
    reference = jax.device_put(params, where) if program.objective.uses_reference else None
    return state, reference, key


@functools.cache
def shared_params():
    return positions.fresh(shared()).state.params


def batches_of(program):
    prompts = [program.train_prompts[index] for index in range(len(program.train_prompts))]
    return iter([prompts[first : first + 4] for first in range(0, len(prompts), 4)])


def train(overrides, steps=2, pool=None, traced=False):
    """The results of a few steps of the YAML with overrides."""
    program = program_of(overrides)
    state, reference, key = begin(program)
    batches, results = batches_of(program), []
    for step in range(steps):
        result = grpo_step(
            program,
            pool or Pool(),
            state,
            reference,
            batches,
            key=key,
            step=step,
            traced=traced,
            on_tick=lambda: None,
        )
        state = result.state
        results.append(result)
    return results


@pytest.mark.parametrize("case", CASES)
def test_a_run_of_two_steps_goes_to_its_end_with_finite_numbers(case):
    results = train(CASES[case])
    for result in results:
        numbers = {n: v for n, v in result.values.items() if not np.isfinite(v)}
        assert not numbers
    moved = jax.device_get(results[-1].state.params)
    before = start()[0]
    leaves = zip(jax.tree.leaves(moved), jax.tree.leaves(before), strict=True)
    assert all(np.isfinite(one).all() for one, _ in leaves)
    assert any(
        (one != other).any()
        for one, other in zip(jax.tree.leaves(moved), jax.tree.leaves(before), strict=True)
    )
    assert int(results[-1].state.step) == 2 * parse(BASE, CASES[case]).training.minibatches
    logged = {
        "weight": "weights/effective_sample_size",
        "transform": "reward/shaped_mean",
        "penalty": "loss/penalty",
        "entropy": "loss/entropy",
        "dynamic": "sampling/batches",
    }
    if (name := logged.get(case.split()[0])) is not None:
        assert all(name in result.values for result in results)


def test_weights_are_the_trainers_over_the_samplers_before_the_step():
    """Of our own sampler they are 1 to rounding, before several optimiser steps or a single one."""
    weights = ["--loss.weights", f"[{choice('truncated_weights')}]"]
    for more, anchored in ([], True), (["--training.minibatches", "1"], False):
        (result,) = train([*weights, *more], steps=1)
        where = result.batch.trainable
        np.testing.assert_allclose(result.batch.token_weights[where], 1, atol=1e-4)
        assert (result.batch.token_weights[~where] == 0).all()
        np.testing.assert_allclose(result.values["weights/mean"], 1, atol=1e-4)
        np.testing.assert_allclose(result.values["weights/effective_sample_size"], 1, atol=1e-4)
        assert result.values["weights/masked_fraction"] == 0
        # Ratios are taken to the trainer's own policy; at a single step to the live one.
        assert (result.batch.anchor_log_probs is not None) == anchored


@pytest.mark.parametrize("minibatches", ["1", "2"])
def test_a_proximal_anchor_is_the_trainers_own_before_the_first_of_several_steps(minibatches):
    overrides = ["--training.anchor", "proximal", "--training.minibatches", minibatches]
    (result,) = train(overrides, steps=1)
    anchor, where = result.batch.anchor_log_probs, result.batch.trainable
    if minibatches == "1":
        assert anchor is None
        return
    behaviour = result.batch.behaviour_log_probs
    np.testing.assert_allclose(anchor[where], behaviour[where], atol=1e-4)
    # Scored by the trainer: not the recorded numbers themselves.
    assert not np.array_equal(anchor, behaviour)


def test_a_mask_that_takes_everything_leaves_the_penalty():
    """A weight of 0 everywhere: no policy gradient, and a penalty that still pulls."""
    nothing = json.dumps({"name": "masked_weights", "options": {"low": 3.0, "high": 5.0}})
    penalty = json.dumps({"name": "k2", "coefficient": 0.1})
    overrides = ["--loss.weights", f"[{nothing}]", "--loss.entropy_bonus", "0.01"]
    (result,) = train([*overrides, "--loss.penalty", penalty], steps=1, traced=True)
    assert result.values["loss/policy"] == 0
    assert result.values["loss/entropy"] < 0
    assert result.values["grad/norm"] > 0
    assert result.values["weights/masked_fraction"] == 1
    where = result.batch.trainable
    assert (result.trace.reasons[where] == Reason.MISMATCH_MASK).all()
    assert (result.trace.gradient_weights == 0).all()


def test_a_greedy_baseline_goes_with_its_prompt_through_dynamic_sampling():
    overrides = ["--advantages", choice("remax"), *MASKS["dynamic sampling"]]
    (result,) = train(overrides, steps=1, pool=Pool(flat=3))
    assert result.values["sampling/batches"] > 1
    rollout = result.rollout
    greedy = rollout.greedy_rewards.reshape(4, 4)
    assert (greedy == greedy[:, :1]).all()
    trained = np.asarray(result.batch.trainable).any(axis=1)
    wanted = rollout.rewards - rollout.greedy_rewards
    np.testing.assert_allclose(result.batch.advantages[trained], wanted[trained], rtol=1e-6)


def test_truncated_completions_train_nothing_and_stay_in_their_groups_statistics(tmp_path):
    plain, masked, counted = (
        train(overrides, steps=1, traced=True)[0]
        for overrides in (TRUNCATED[2:], MASKS["truncated"], MASKS["truncated, counted"])
    )
    cut = plain.rollout.completions.stop_reasons == StopReason.LENGTH
    assert 0 < cut.sum() < len(cut)
    assert np.array_equal(masked.batch.advantages, plain.batch.advantages)
    for result in (masked, counted):
        assert np.array_equal(result.batch.trainable, plain.batch.trainable & ~cut[:, None])
        reasons = result.trace.reasons
        assert (reasons[cut][plain.batch.trainable[cut]] == Reason.TRUNCATED).all()
        assert (result.trace.gradient_weights[cut] == 0).all()
    assert np.array_equal(counted.batch.counted, plain.batch.trainable)
    assert np.array_equal(masked.batch.counted, masked.batch.trainable)
    path = tmp_path / "step.npz"
    said = {"run_id": "r", "step": 1, "weight_version": 0, "config_digest": "d"}
    write_record(path, masked.rollout, masked.batch, masked.trace, **said)
    record = read_record(path)
    assert record.header["reasons"][record.arrays["reasons"][cut][0, 0]] == "truncated"


def test_the_most_uncertain_tokens_of_each_optimiser_step_are_trained():
    (result,) = train(["--loss.top_entropy_fraction", "0.2"], steps=1, traced=True)
    where, weights = result.batch.trainable, result.trace.gradient_weights
    low = result.trace.reasons == Reason.LOW_ENTROPY
    assert (weights[low] == 0).all()
    assert 0.75 < low[where].mean() <= 0.8
    # The threshold lies between, in each of the two optimiser steps.
    kept = where & ~low
    assert result.trace.entropies[kept].mean() > result.trace.entropies[low].mean()


def test_dynamic_sampling_draws_until_the_step_is_full():
    """Two of three groups say nothing: four informative ones are among the first twelve."""
    overrides = [*MASKS["dynamic sampling"], "--rollout.dynamic_sampling.max_batches", "5"]
    (result,) = train(overrides, steps=1, pool=Pool(flat=3))
    plain = train([], steps=1, pool=Pool(flat=3))[0]
    assert result.values["sampling/batches"] == 3
    assert result.values["sampling/groups_trained"] == 4
    assert result.batch.rows == plain.batch.rows == 16
    # What is logged is of everything that was sampled, not of what was kept.
    assert result.values["reward/groups_informative"] == pytest.approx(4 / 12)
    assert result.values["tokens/step"] > 2 * plain.values["tokens/step"]
    ids = [prompt.example.id for prompt in result.rollout.prompts]
    prompts = list(itertools.chain.from_iterable(batches_of(shared())))
    assert ids == [prompts[index].example.id for index in (0, 3, 6, 9)]
    assert (np.abs(result.batch.advantages.reshape(4, 4)).max(axis=1) > 0).all()


def test_places_that_stay_empty_train_nothing_and_compile_nothing():
    overrides = [*MASKS["dynamic sampling"], "--rollout.dynamic_sampling.max_batches", "2"]
    advantage = ["--advantages", choice("batch_normalised")]
    full = train([*overrides, *advantage], steps=1)[0]
    programs = shared().compiled_programs()
    (result,) = train([*overrides, *advantage], steps=1, pool=Pool(flat=4), traced=False)
    assert shared().compiled_programs() == programs
    assert full.values["sampling/batches"] == 1
    assert result.values["sampling/batches"] == 2
    assert result.values["sampling/groups_trained"] == 2
    trained = result.batch.trainable.any(axis=1).reshape(4, 4)
    assert trained.all(axis=1).sum() == 2
    assert (~trained).all(axis=1).sum() == 2
    gone = ~result.batch.trainable.any(axis=1)
    inside = np.arange(result.batch.dropped.shape[1]) < result.batch.completion_lengths[:, None]
    assert (result.batch.dropped[gone][inside[gone]] == Reason.ZERO_VARIANCE).all()
    assert (result.batch.advantages[gone] == 0).all()
    # Statistics of the batch are those of the eight rows that are trained on.
    rewards = result.rollout.rewards[~gone].reshape(2, 4)
    centred = (rewards - rewards.mean(axis=1, keepdims=True)).ravel()
    wanted = centred / (rewards.std(ddof=1) + 1e-6)
    np.testing.assert_allclose(result.batch.advantages[~gone], wanted, rtol=1e-4, atol=1e-6)


def test_groups_are_judged_by_the_raw_reward_whatever_is_made_of_it():
    """Overlong punishment makes groups of equal answers differ: that is no reason to keep them."""
    overlong = json.dumps(
        {"name": "overlong_penalised", "options": {"max_length": 10, "buffer": 9}}
    )
    overrides = [*MASKS["dynamic sampling"], "--rewards.transforms", f"[{overlong}]"]
    (result,) = train(overrides, steps=1, pool=Pool(flat=2))
    assert result.values["sampling/batches"] == 2
    assert result.values["reward/shaped_mean"] < result.values["reward/mean"]
    (plain,) = train(MASKS["dynamic sampling"], steps=1, pool=Pool(flat=2))
    assert plain.values["reward/mean"] == result.values["reward/mean"]
    assert not np.array_equal(plain.batch.advantages, result.batch.advantages)


def test_a_prompt_that_comes_again_within_a_step_has_other_completions():
    program = program_of(MASKS["dynamic sampling"])
    state, _, key = begin(program)
    same = [program.train_prompts[index] for index in range(4)]
    result = grpo_step(
        program,
        Pool(flat=8),
        state,
        None,
        iter([same] * 4),
        key=key,
        step=0,
        traced=False,
        on_tick=lambda: None,
    )
    assert result.values["sampling/batches"] == 4
    # The informative ones are the first prompt of the first batch and of the third.
    examples = [prompt.example for prompt in result.rollout.prompts]
    assert examples[0] == examples[3] != examples[1]
    assert result.rollout.texts[:4] != result.rollout.texts[12:]


def test_the_length_that_advantages_weigh_by_is_that_of_the_completion():
    (result,) = train(["--advantages", choice("optimal_baseline")], steps=1)
    rewards = result.rollout.rewards.reshape(4, 4)
    lengths = result.rollout.completions.lengths.reshape(4, 4)
    baseline = (rewards * lengths).sum(axis=1) / lengths.sum(axis=1)
    wanted = (rewards - baseline[:, None]).ravel()
    np.testing.assert_allclose(result.batch.advantages, wanted, rtol=1e-4, atol=1e-6)


def test_gdpo_gets_each_reward_function_with_its_weight():
    """The constant one says nothing, so that the other's normalised advantages remain."""
    (result,) = train(["--advantages", choice("gdpo")], steps=1)
    rewards = result.rollout.rewards.reshape(4, 4)
    each = (rewards - rewards.mean(axis=1, keepdims=True)) / rewards.std(axis=1, ddof=1)[:, None]
    wanted = each.ravel() / np.sqrt(np.sum(each**2) / 15)
    np.testing.assert_allclose(result.batch.advantages, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["--loss.weights", "[{name: truncated}]"], "loss.weights: no weight named 'truncated'"),
        (
            ["--loss.weights", "[{name: masked_weights, options: {hihg: 2.0}}]"],
            "weight 'masked_weights' has no option hihg; did you mean 'high'? It takes: low, high",
        ),
        (["--loss.weights", "[{nmae: masked_weights}]"], "unknown key loss.weights[0].nmae"),
        (
            ["--loss.weights", "[{name: masked_weights, denominator: count}]"],
            "'keep' or 'counted', got 'count'",
        ),
        (
            [
                *["--loss.weights", "[{name: masked_weights}]"],
                *["--training.anchor", "behaviour"],
            ],
            "with training.anchor 'behaviour' the correction would be counted twice",
        ),
        (
            ["--rewards.transforms", "[{name: overlong_penalised}]"],
            "rewards.transforms: reward transform 'overlong_penalised' must be given the option",
        ),
        (["--advantage_transforms", "[{name: clip}]"], "did you mean 'clipped'?"),
        (
            ["--advantages", "{name: gdpo}", "--rewards.transforms", "[{name: unlikeliness}]"],
            "advantage 'gdpo' takes the reward functions one by one",
        ),
        (["--loss.top_entropy_fraction", "0"], "top_entropy_fraction must be in (0, 1], got 0.0"),
        (["--loss.entropy_bonus", ".nan"], "loss.entropy_bonus must be a number"),
        (["--rollout.count_truncated", "true"], "count_truncated goes with mask_truncated"),
        (["--rollout.dynamic_sampling.max_batches", "0"], "max_batches must be at least 1, got 0"),
        (["--rollout.dynamic_sampling.enable", "true"], "did you mean 'enabled'?"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(overrides, says):
    with pytest.raises(UserError) as caught:
        parse(BASE, overrides)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("room", "source", "says"),
    [
        ("loss.weights", "def f(a, b, *, where=None):\n    return a.sum()", "weight .*float32"),
        (
            "rewards.transforms",
            "def f(rewards, group_ids):\n    return rewards[:2]",
            r"reward transform .* must return floats \[B\], here \[8\]",
        ),
        (
            "advantage_transforms",
            "def f(advantages):\n    return advantages.sum()",
            "advantage transform .* must return floats",
        ),
    ],
)
def test_what_a_user_wrote_is_rehearsed(room, source, says, tmp_path, monkeypatch):
    module = f"rehearsed_{room.replace('.', '_')}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=says):
        build_program(parse(BASE, [f"--{room}", f"[{{name: '{module}:f'}}]"]))


def test_a_weight_that_wants_one_advantage_a_sequence_says_so(tmp_path, monkeypatch):
    (tmp_path / "spread_credit.py").write_text(
        "def spread(rewards, group_ids, *, where):\n    return where * rewards[:, None]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    overrides = ["--advantages.name", "spread_credit:spread"]
    build_program(parse(BASE, overrides))
    with pytest.raises(UserError, match=r"weight 'vaco_mask': ValueError: advantages must have"):
        build_program(parse(BASE, [*overrides, "--loss.weights", f"[{choice('vaco_mask')}]"]))


def test_the_reference_can_be_kept_to_measure_only():
    (result,) = train(["--loss.penalty.measure", "true"], steps=1)
    assert "loss/penalty" not in result.values
    assert result.values["frontier/kl"] == pytest.approx(0, abs=1e-5)
    assert result.values["divergence/reference_sequence_kl3"] > 1e-4


def test_the_dapo_recipe_trains(tmp_path):
    """All of it at once, shrunk, by the command's own path: config, pool, folder, summary."""
    config = pathlib.Path(__file__).parents[2] / "configs" / "dapo.yaml"
    small = [
        *["--warmup.steps", "0", "--training.steps", "2"],
        *["--rollout.prompts_per_step", "4", "--rollout.group_size", "2"],
        *["--data.train.size", "32", "--data.eval", "null", "--run.directory", str(tmp_path / "r")],
        *["--model.decoder.layers", "1", "--model.decoder.hidden_size", "16"],
        *["--model.decoder.heads", "2", "--model.decoder.kv_heads", "1"],
        *["--model.decoder.head_size", "8", "--model.decoder.mlp_size", "32"],
    ]
    summary = run_whole(load(config, small))
    assert summary["steps"] == 2
    lines = (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    # Nobody gets an answer right, so that nothing is informative: all batches are drawn in vain.
    assert [row["sampling/batches"] for row in rows] == [4, 4]
    assert [row["sampling/groups_trained"] for row in rows] == [0, 0]
    assert [row["grad/norm"] for row in rows] == [0, 0]
    record = read_record(sorted((tmp_path / "r" / "rollouts").iterdir())[-1])
    names = {record.header["reasons"][reason] for reason in record.arrays["reasons"].ravel()}
    assert names <= {"padding", "truncated", "zero_variance"}


def test_advantages_may_be_one_a_token(tmp_path, monkeypatch):
    """A user's own, from the entropies of the policy and the mask of the completion."""
    (tmp_path / "by_token.py").write_text(
        "import numpy as np\n"
        "def uncertain(rewards, group_ids, *, where, entropies, lengths):\n"
        "    centred = rewards - rewards.mean()\n"
        "    return np.where(where, centred[:, None] * entropies / lengths[:, None], 0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    overrides = ["--advantages.name", "by_token:uncertain", "--training.minibatches", "1"]
    (result,) = train(overrides, steps=1, traced=True)
    rewards, batch = result.rollout.rewards, result.batch
    spread = (rewards - rewards.mean())[:, None] / batch.completion_lengths[:, None]
    wanted = np.where(batch.trainable, spread * result.trace.entropies, 0)
    np.testing.assert_allclose(batch.advantages, wanted, rtol=1e-3, atol=1e-6)
    assert np.isfinite(result.values["loss/total"])


def test_demonstrations_take_the_last_places_of_each_group():
    (result,) = train([*DEMONSTRATED, "--loss.name", "luffy"], steps=1, traced=True)
    batch, rollout, program = result.batch, result.rollout, shared()
    shown = np.arange(16) % 4 == 3
    assert (batch.off_policy == shown[:, None]).all() and (rollout.sampled == ~shown).all()
    for row in np.flatnonzero(shown):
        example = rollout.prompts[row // 4].example
        assert rollout.texts[row] == example.worked
        ids = batch.completion_tokens[row, : batch.completion_lengths[row]]
        assert ids.tolist() == [*program.tokenizer.encode(example.worked), 1]
    # Their own log-probs before the step, so that ratios begin at 1; the sampler's for the others.
    own = jax.device_get(program.score(shared_params(), program.place(batch))).log_probs
    np.testing.assert_allclose(
        batch.behaviour_log_probs[batch.trainable], own[batch.trainable], atol=1e-4
    )
    assert result.values["mismatch/mean_abs"] < 1e-4
    # Metrics are of what was sampled, whatever demonstrations were worth.
    rewards = rollout.rewards[~shown]
    np.testing.assert_allclose(result.values["reward/mean"], rewards.mean(), rtol=1e-6)
    # LUFFY's shaping, 0.1 p / (p + 0.1)^2 A, of the token as the update saw it.
    tokens = batch.trainable & shown[:, None]
    p = np.exp(result.trace.log_probs)
    expected = 0.1 * p / (p + 0.1) ** 2 * batch.advantages[:, None]
    np.testing.assert_allclose(result.trace.gradient_weights[tokens], expected[tokens], rtol=2e-4)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--loss.name", "luffy"], "rollout.demonstrations must be at least 1, got 0"),
        (["--rollout.demonstrations", "4"], "less than group_size 4, got 4"),
        (["--rollout.demonstrations", "-1"], "at least 0 and less than group_size 4, got -1"),
        ([*DEMONSTRATED, "--rollout.top_k_rows", "2"], "demonstrations have no sampler"),
    ],
)
def test_demonstrations_that_cannot_be_are_one_line(overrides, message):
    with pytest.raises(UserError, match=message):
        parse(BASE, overrides)
