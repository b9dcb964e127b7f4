import jax
import pytest

from jaxgrpo.data import SourceConfig, encode, open_source
from jaxgrpo.evaluation import EvaluationConfig, evaluate
from jaxgrpo.models import DecoderConfig, abstract_params, init_params
from jaxgrpo.rewards import RewardConfig, RewardFunctionConfig, RewardPool
from jaxgrpo.sampling import Sampler, SamplingConfig
from jaxgrpo.sharding import MeshConfig, build_mesh
from jaxgrpo.tokenizers import load

TOKENIZER = load("characters")
MODEL = DecoderConfig(
    vocabulary_size=TOKENIZER.vocab_size, layers=1, hidden_size=16, heads=2, kv_heads=1, head_size=8
)


@pytest.fixture(scope="module")
def parts():
    mesh = build_mesh(MeshConfig(), jax.devices()[:1])
    params = init_params(MODEL, jax.random.key(0), mesh)
    assert abstract_params(MODEL)["embedding"].shape == params["embedding"].shape
    source = open_source(
        SourceConfig(task="arithmetic", size=5, options={"digits": 2}), seed=0, split="eval"
    )
    prompts = encode(source, TOKENIZER, max_prompt_tokens=8)
    config = SamplingConfig(max_new_tokens=6, length_buckets=(8,))
    sampler = Sampler(
        MODEL, config, stop_ids=TOKENIZER.stop_ids, pad_id=TOKENIZER.pad_id, mesh=mesh
    )
    functions = (RewardFunctionConfig(name="answer"), RewardFunctionConfig(name="format"))
    with RewardPool(RewardConfig(functions=functions, workers=1)) as pool:
        yield sampler, params, prompts, pool


def run(parts, **options):
    sampler, params, prompts, pool = parts
    return evaluate(
        sampler,
        params,
        prompts,
        TOKENIZER,
        pool,
        measure="answer",
        key=jax.random.key(7),
        **options,
    )


def test_every_prompt_is_completed_once_whatever_the_batch_size(parts):
    whole = run(parts, batch_size=5)
    assert [item.name for item in whole.items] == [f"arithmetic-{i}" for i in range(5)]
    for batch_size in (1, 2, 4, 64):
        part = run(parts, batch_size=batch_size)
        assert [item.completion for item in part.items] == [i.completion for i in whole.items]
        assert part.tokens == whole.tokens
        assert part.facts() == whole.facts()


def test_samples_of_a_prompt_differ_and_lie_side_by_side(parts):
    evaluation = run(parts, samples=3, batch_size=2)
    assert [item.name for item in evaluation.items[:4]] == [*["arithmetic-0"] * 3, "arithmetic-1"]
    assert len({item.completion for item in evaluation.items[:3]}) > 1
    assert evaluation.facts()["completions"] == 15


def test_accuracy_counts_the_measure_and_nothing_else(parts, monkeypatch):
    sampler, params, prompts, pool = parts
    answers = [prompts[index].example.answer for index in range(5)]
    texts = iter([f"#### {answers[0]}", "#### 0", f"#### {answers[2]}", answers[3] + "x", ""])
    monkeypatch.setattr(TOKENIZER.__class__, "decode", lambda self, ids: next(texts))
    evaluation = run((sampler, params, prompts, pool), batch_size=5)
    assert [item.correct for item in evaluation.items] == [True, False, True, False, False]
    assert evaluation.accuracy == pytest.approx(0.4)
    assert evaluation.correct == 2
    # answer + format: 2 for a right marked answer, 1 for a wrong marked one.
    assert evaluation.reward_mean == pytest.approx((2 + 1 + 2 + 0 + 0) / 5)


def test_progress_is_told_and_an_interruption_passes_through(parts):
    told = []
    run(parts, batch_size=2, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 5), (4, 5), (5, 5)]

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(parts, batch_size=2, on_tick=stop)


@pytest.mark.parametrize("options", [{"every_steps": -1}, {"samples": 0}, {"batch_size": 0}])
def test_config_limits(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        EvaluationConfig(**options)
