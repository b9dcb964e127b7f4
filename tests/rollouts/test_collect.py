import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.data import Example, Prompt
from jaxgrpo.models import DecoderConfig, abstract_params
from jaxgrpo.rewards import Score
from jaxgrpo.rollouts import RolloutConfig, collect, pad_prompts, score_texts
from jaxgrpo.sampling import Sampler, SamplingConfig
from jaxgrpo.sharding import MeshConfig, build_mesh
from jaxgrpo.tokenizers import CharacterTokenizer

MODEL = DecoderConfig(
    vocabulary_size=99, layers=1, hidden_size=16, heads=2, kv_heads=1, head_size=4, mlp_size=24
)


class Lengths:
    """A reward pool of one function: how long the completion is."""

    def __init__(self):
        self.items = []

    def score(self, items, *, on_wait=None):
        self.items += items
        if on_wait is not None:
            on_wait()
        return [
            Score(len(item.completion), {"length": len(item.completion)}, {"length": "ok"}, 0.0)
            for item in items
        ]


@pytest.fixture(scope="module")
def collected():
    """A sampler, what it gives to a pool of lengths, and how often it ticked."""
    tokenizer, pool, ticks = CharacterTokenizer(), Lengths(), []
    prompts = [
        Prompt(Example(id, f"p{id}", text, f"answer {id}", None, {"k": text}), tuple(ids))
        for id, text in ((7, "ab"), (3, "xyz"))
        for ids in [tokenizer.encode(text)]
    ]
    config = SamplingConfig(max_new_tokens=5, decode_chunk=2, length_buckets=(4,))
    mesh = build_mesh(MeshConfig(), jax.devices()[:1])
    # Every fourth id ends a completion.
    stop_ids = tuple(range(1, 99, 4))
    sampler = Sampler(MODEL, config, stop_ids=stop_ids, pad_id=0, mesh=mesh)
    rollout = collect(
        sampler,
        jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.5), abstract_params(MODEL)),
        prompts,
        tokenizer,
        pool,
        key=jax.random.key(2),
        group_size=4,
        on_tick=lambda: ticks.append(1),
    )
    return rollout, pool, ticks, tokenizer


def test_texts_are_the_tokens_up_to_the_length(collected):
    rollout, _, _, tokenizer = collected
    lengths = rollout.completions.lengths
    assert len(set(lengths.tolist())) > 1
    for row, text in enumerate(rollout.texts):
        assert text == tokenizer.decode(rollout.completions.tokens[row, : lengths[row]].tolist())


def test_a_completion_is_scored_with_the_example_of_its_prompt(collected):
    rollout, pool, _, _ = collected
    assert [item.completion for item in pool.items] == list(rollout.texts)
    assert [item.question for item in pool.items] == ["ab"] * 4 + ["xyz"] * 4
    assert [item.answer for item in pool.items] == ["answer 7"] * 4 + ["answer 3"] * 4
    assert [item.fields for item in pool.items] == [{"k": "ab"}] * 4 + [{"k": "xyz"}] * 4
    assert rollout.rewards.tolist() == [len(text) for text in rollout.texts]
    assert rollout.group_ids.tolist() == [0] * 4 + [1] * 4
    assert rollout.padded.prompt_ids.tolist() == [7, 3]


def test_it_ticks_between_chunks_and_while_waiting(collected):
    rollout, _, ticks, _ = collected
    chunks = -(-int(rollout.completions.lengths.max()) // 2)
    assert len(ticks) == chunks + 1


def test_a_greedy_completion_a_prompt_is_scored_beside_the_others(collected):
    plain, _, _, tokenizer = collected
    mesh = build_mesh(MeshConfig(), jax.devices()[:1])
    config = SamplingConfig(max_new_tokens=5, decode_chunk=2, length_buckets=(4,))
    stop_ids = tuple(range(1, 99, 4))
    make = functools.partial(Sampler, MODEL, stop_ids=stop_ids, pad_id=0, mesh=mesh)
    coldest = make(dataclasses.replace(config, temperature=0.0))
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.5), abstract_params(MODEL))
    pool = Lengths()
    rollout = collect(
        make(config),
        params,
        plain.prompts,
        tokenizer,
        pool,
        key=jax.random.key(2),
        group_size=4,
        greedy_sampler=coldest,
    )
    assert list(rollout.texts) == list(plain.texts)
    greedy = pool.items[8:]
    assert [item.answer for item in greedy] == ["answer 7", "answer 3"]
    first, second = (len(item.completion) for item in greedy)
    assert rollout.greedy_rewards.tolist() == [first] * 4 + [second] * 4
    assert rollout.metrics()["reward/greedy_mean"] == (first + second) / 2
    assert plain.greedy_rewards is None


def test_prompts_are_padded_to_the_bucket_of_the_longest(make_prompts, sampling):
    padded = pad_prompts(make_prompts(), sampling, pad_id=7)
    assert padded.tokens.shape == (4, 8)
    assert padded.tokens[2].tolist() == [7] * 6 + CharacterTokenizer().encode("4=")
    assert padded.lengths.tolist() == [4, 5, 2, 5]
    assert padded.prompt_ids.tolist() == [100, 101, 102, 103]


def test_texts_that_do_not_split_over_the_prompts_are_refused(make_prompts):
    with pytest.raises(ValueError, match="zip"):
        score_texts(Lengths(), make_prompts(), ["a"] * 9)


def test_metrics_leave_out_rewards_that_failed(rollout):
    """Groups: 1 0 0 | nan 0.5 0.5 | nan 1 0 | all nan."""
    scored = np.array([1, 0, 0, 0.5, 0.5, 1, 0])
    metrics = rollout.metrics()
    wanted = {
        "reward/mean": scored.mean(),
        "reward/std": scored.std(),
        "reward/groups_informative": 2 / 4,
        "reward/failed_fraction": 5 / 12,
        "reward/answer": scored.mean(),
        "reward/format": 1.0,
        "length/mean": 35 / 12,
        "length/max": 5,
        "length/truncated_fraction": 5 / 12,
    }
    outcomes = {name for name in metrics if name.startswith("reward/outcome/")}
    assert metrics.keys() - outcomes == wanted.keys() | {"time/reward_p99"}
    assert sum(metrics[name] for name in outcomes) == 24
    for name, value in wanted.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6, err_msg=name)


def test_metrics_when_every_reward_failed(rollout):
    nothing = Score(np.nan, {"answer": np.nan}, {"answer": "crash"}, 0.0)
    metrics = dataclasses.replace(rollout, scores=[nothing] * 12).metrics()
    assert np.isnan([metrics[f"reward/{name}"] for name in ("mean", "std", "answer")]).all()
    assert metrics["reward/groups_informative"] == 0
    assert metrics["reward/failed_fraction"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_size": 1}, "group_size must be at least 2, got 1"),
        ({"prompts_per_step": 0}, "prompts_per_step must be at least 1, got 0"),
        *(
            ({"sampling": SamplingConfig(**truncated)}, "the whole distribution")
            for truncated in ({"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}, {"temperature": 0.0})
        ),
    ],
    ids=str,
)
def test_what_training_cannot_learn_from_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        RolloutConfig(**changes)
