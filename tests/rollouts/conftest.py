import numpy as np
import pytest

from jaxgrpo.data import Example, Prompt
from jaxgrpo.rewards import Score
from jaxgrpo.rollouts import Rollout, pad_prompts
from jaxgrpo.sampling import Completions, SamplingConfig
from jaxgrpo.tokenizers import CharacterTokenizer

QUESTIONS = ["1+1=", "20+3=", "4=", "7+70="]
SAMPLING = SamplingConfig(max_new_tokens=6, length_buckets=(4, 8))
GROUP = 3
# Of the twelve completions; the longest has five tokens of at most six.
LENGTHS = np.array([2, 5, 1, 3, 0, 4, 5, 5, 2, 1, 3, 4], np.int32)
REWARDS = [1, 0, 0, np.nan, 0.5, 0.5, np.nan, 1, 0, np.nan, np.nan, np.nan]


def make_prompts(worked=True):
    tokenizer = CharacterTokenizer()
    return [
        Prompt(
            Example(
                id=100 + index,
                name=f"sums-{index}",
                question=question,
                answer=str(index),
                worked=f"#{index}" if worked else None,
                fields={"index": str(index)},
            ),
            tuple(tokenizer.encode(question)),
        )
        for index, question in enumerate(QUESTIONS)
    ]


def score(reward):
    failed = np.isnan(reward)
    return Score(
        total=float(reward),
        values={"answer": float(reward), "format": 1.0},
        outcomes={"answer": "timeout" if failed else "right", "format": "ok"},
        seconds=0.1,
    )


def make_rollout():
    random = np.random.default_rng(0)
    prompts = make_prompts()
    log_probs = -random.random((12, 6)).astype(np.float32)
    inside = np.arange(6)[None] < LENGTHS[:, None]
    return Rollout(
        prompts=prompts,
        group_size=GROUP,
        padded=pad_prompts(prompts, SAMPLING, pad_id=0),
        completions=Completions(
            tokens=random.integers(3, 90, (12, 6)).astype(np.int32),
            lengths=LENGTHS,
            log_probs=np.where(inside, log_probs, np.float32(np.nan)),
            stop_reasons=(LENGTHS < 4).astype(np.int8),
        ),
        texts=[f"text {row} ✓" for row in range(12)],
        scores=[score(reward) for reward in REWARDS],
        sampling_seconds=1.0,
        reward_seconds=0.5,
    )


@pytest.fixture
def rollout():
    return make_rollout()


@pytest.fixture
def sampling():
    return SAMPLING


@pytest.fixture(name="make_prompts")
def _make_prompts():
    return make_prompts
