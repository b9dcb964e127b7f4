"""Joining batches of prompts, and filling a step with the groups that have something to tell."""

import dataclasses

import numpy as np
import pytest

from jaxgrpo.rollouts import DynamicSamplingConfig
from jaxgrpo.rollouts.dynamic import fill, informative, join

# Rewards of the four groups: 1 0 0 | nan 0.5 0.5 | nan 1 0 | all nan.
TOLD = [True, False, True, False]


@pytest.fixture
def second(rollout, make_prompts):
    """Another batch: one prompt with a longer question, rewards 0 1 0."""
    prompt = make_prompts()[0]
    longer = dataclasses.replace(prompt.example, id=7, name="other")
    prompts = [prompt._replace(example=longer, tokens=tuple(range(3, 13)))]
    cut = {
        name: getattr(rollout.completions, name)[:3] + (1 if name == "tokens" else 0)
        for name in ("tokens", "lengths", "log_probs", "stop_reasons")
    }
    scores = [dataclasses.replace(rollout.scores[0], total=total) for total in (0.0, 1.0, 0.0)]
    return dataclasses.replace(
        rollout,
        prompts=prompts,
        completions=dataclasses.replace(rollout.completions, **cut),
        texts=["a", "b", "c"],
        scores=scores,
    )


def test_groups_are_judged_by_their_raw_rewards(rollout):
    assert informative(rollout).tolist() == TOLD


def test_batches_are_joined_in_order(rollout, second, sampling):
    joined = join([rollout, second], sampling, 0)
    assert [prompt.example.id for prompt in joined.prompts] == [100, 101, 102, 103, 7]
    # The second one's prompt has ten tokens, more than any bucket: all are padded to it.
    assert joined.padded.tokens.shape == (5, 10)
    assert joined.padded.tokens[4].tolist() == list(range(3, 13))
    assert joined.completions.tokens.shape == (15, 6)
    assert np.array_equal(joined.completions.tokens[12:], rollout.completions.tokens[:3] + 1)
    assert joined.group_ids.tolist() == [g for g in range(5) for _ in range(3)]
    assert list(joined.texts[12:]) == ["a", "b", "c"]
    assert joined.sampling_seconds == 2.0
    assert join([rollout], sampling, 0) is rollout


@pytest.mark.parametrize(
    ("groups", "chosen", "trained"),
    [
        (2, [0, 2], [True, True]),
        (3, [0, 2, 4], [True, True, True]),
        # Too few: the first ones that say nothing fill the step, in the order drawn.
        (4, [0, 1, 2, 4], [True, False, True, True]),
    ],
)
def test_a_step_is_filled_with_what_is_informative(
    rollout, second, sampling, groups, chosen, trained
):
    joined = join([rollout, second], sampling, 0)
    filled, told = fill(joined, groups, sampling, 0)
    assert told.tolist() == trained
    ids = np.array([100, 101, 102, 103, 7])[chosen]
    assert [prompt.example.id for prompt in filled.prompts] == ids.tolist()
    rows = np.concatenate([np.arange(3) + 3 * group for group in chosen])
    assert np.array_equal(filled.completions.tokens, joined.completions.tokens[rows])
    assert np.array_equal(filled.rewards, joined.rewards[rows], equal_nan=True)
    assert list(filled.texts) == [joined.texts[row] for row in rows]
    assert filled.padded.prompt_ids.tolist() == ids.tolist()


def test_function_rewards_are_unweighted_and_by_name(rollout):
    got = rollout.function_rewards(["format", "answer"])
    assert got.shape == (12, 2)
    assert got[0].tolist() == [1.0, 1.0]
    assert np.isnan(got[6, 1])


def test_no_batch_at_all_is_refused():
    with pytest.raises(ValueError, match="max_batches must be at least 1, got 0"):
        DynamicSamplingConfig(max_batches=0)
