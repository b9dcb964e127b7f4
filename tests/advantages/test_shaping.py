"""Reward transforms, dynamic sampling, several rewards, and the pass@k forms by enumeration."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.advantages import (
    ADVANTAGES,
    REWARD_TRANSFORMS,
    clipped,
    gdpo,
    group_normalised,
    informative_groups,
    leave_one_out_normalised,
    overlong_penalised,
    pass_at_k_normalised,
    pass_at_k_rewards,
    scaled_by_sign,
    unlikeliness,
)

ONE_GROUP = jnp.zeros(5, int)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("correct", [1, 2, 4])
def test_pass_at_k_training_is_the_mean_over_all_subsets(k, correct):
    rewards = np.arange(5) < correct
    # GRPO over subsets of k, each with reward 1 if any of it is correct, and shared by its members.
    subsets = list(itertools.combinations(range(5), k))
    passed = np.array([rewards[list(s)].any() for s in subsets], float)
    mean, std = passed.mean(), passed.std()
    expected = np.zeros(5)
    if std > 0:
        for i in range(5):
            mine = [p for s, p in zip(subsets, passed, strict=True) if i in s]
            expected[i] = (np.mean(mine) - mean) / std
    got = pass_at_k_normalised(jnp.asarray(rewards, jnp.float32), ONE_GROUP, k=k)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_pass_at_k_rewards_have_the_gradient_of_pass_at_k(k):
    # All outcomes of four attempts that succeed with probability p.
    p, total = 0.3, 0.0
    for outcome in itertools.product([0.0, 1.0], repeat=4):
        shaped = pass_at_k_rewards(jnp.array(outcome), jnp.zeros(4, int), k=k)
        scores = [1 / p if x else -1 / (1 - p) for x in outcome]
        chance = math.prod(p if x else 1 - p for x in outcome)
        total += chance * float(np.dot(shaped, scores))
    np.testing.assert_allclose(total, k * (1 - p) ** (k - 1), rtol=1e-5)


def test_too_few_completions_for_k():
    rewards, group_ids = jnp.array([0.0, 1.0, jnp.nan]), jnp.zeros(3, int)
    np.testing.assert_array_equal(pass_at_k_normalised(rewards, group_ids, k=3), np.zeros(3))
    assert np.isnan(pass_at_k_rewards(rewards, group_ids, k=3)).all()
    shaped = pass_at_k_rewards(rewards, group_ids, k=2)
    np.testing.assert_allclose(shaped, [1, 1, np.nan])


def test_equal_others_leave_the_difference_unscaled():
    # Their deviation is 0, and rounding must not become an advantage of a million.
    advantages = leave_one_out_normalised(jnp.array([1.0, 0.1, 0.1, 0.1, 0.1]), ONE_GROUP)
    np.testing.assert_allclose(advantages[0], 0.9, rtol=1e-6)
    assert np.abs(advantages[1:]).max() < 1


def test_deviations_of_others_follow_a_permutation():
    # Coarse rewards: where the others hardly differ, their deviation is rounding in any order.
    random = np.random.default_rng(8)
    rewards, group_ids = random.integers(0, 4, size=12), random.integers(0, 3, size=12)
    order = random.permutation(12)
    advantages = leave_one_out_normalised(jnp.asarray(rewards, jnp.float32), group_ids)
    permuted = leave_one_out_normalised(
        jnp.asarray(rewards[order], jnp.float32), 7 - group_ids[order]
    )
    np.testing.assert_allclose(permuted, advantages[order], rtol=1e-5)
    for i in range(12):
        others = rewards[(group_ids == group_ids[i]) & (np.arange(12) != i)]
        if len(others) > 1 and others.std() > 0:
            expected = (rewards[i] - others.mean()) / (others.std(ddof=1) + 1e-6)
            np.testing.assert_allclose(advantages[i], expected, rtol=1e-5, atol=1e-6)


def test_gdpo_normalises_each_reward_on_its_own():
    rewards = np.float32([[0, 10], [1, 10], [1, 30], [0, 5], [0, 7]])
    group_ids, weights = jnp.array([0, 0, 0, 1, 1]), jnp.array([1.0, 0.5])
    each = [group_normalised(jnp.asarray(rewards[:, r]), group_ids, eps=0.0) for r in (0, 1)]
    total = np.asarray(each[0] + 0.5 * each[1])
    got = gdpo(jnp.asarray(rewards), group_ids, weights=weights, eps=0.0)
    np.testing.assert_allclose(got, total / np.std(total, ddof=1), rtol=1e-5)
    # A row with one missing reward is not scored.
    rewards[2, 1] = np.nan
    missing = gdpo(jnp.asarray(rewards), group_ids, eps=0.0)
    assert missing[2] == 0
    np.testing.assert_array_equal(gdpo(jnp.ones((5, 2)), group_ids), np.zeros(5))


def test_unlikeliness_by_hand():
    rewards = jnp.array([1.0, 1.0, 0.0, jnp.nan, 2.0])
    likely = jnp.array([-3.0, -1.0, -2.0, 0.0, -9.0])
    shaped = unlikeliness(rewards, jnp.array([0, 0, 0, 0, 1]), sequence_log_probs=likely, beta=0.3)
    # Ranks 2, 0, 1 of three; the last is alone and the likeliest of its group.
    np.testing.assert_allclose(shaped, [1 - 0.3 / 3, 0.7, 0, np.nan, 1.4], rtol=1e-6)


def test_the_overlong_penalty_is_linear_in_tokens():
    lengths = jnp.array([0, 6, 7, 10, 11])
    options = {"lengths": lengths, "max_length": 10, "buffer": 4, "penalty": 0.5}
    shaped = overlong_penalised(jnp.array([1.0, 1.0, 1.0, 0.0, jnp.nan]), ONE_GROUP, **options)
    np.testing.assert_array_equal(shaped, [1, 1, 0.875, -0.5, np.nan])
    with pytest.raises(ValueError, match="max_length must be at least 4"):
        overlong_penalised(jnp.ones(5), ONE_GROUP, **{**options, "max_length": 3})


def test_dynamic_sampling_looks_at_the_raw_reward():
    rewards = jnp.array([0.1, 0.1, 0.0, 1.0, jnp.nan])
    group_ids = jnp.array([0, 0, 1, 1, 1])
    raw = informative_groups(rewards, group_ids)
    np.testing.assert_array_equal(raw, [False, False, True, True, True])
    shaped = overlong_penalised(
        rewards, group_ids, lengths=jnp.array([9, 10, 1, 1, 1]), max_length=10, buffer=4
    )
    # Shaping makes a difference where the answers have none.
    np.testing.assert_array_equal(informative_groups(shaped, group_ids)[:2], [True, True])


def test_signs_and_bounds():
    advantages = jnp.array([-2.0, 0.0, 3.0])
    np.testing.assert_array_equal(
        scaled_by_sign(advantages, positive=0.5, negative=2.0), [-4, 0, 1.5]
    )
    np.testing.assert_array_equal(clipped(advantages, low=-1.0, high=2.0), [-1, 0, 2])
    with pytest.raises(ValueError, match="high must be at least 1"):
        clipped(advantages, low=1.0, high=0.0)


@pytest.mark.parametrize("name", REWARD_TRANSFORMS.names())
def test_transforms_are_float32_jitted_and_without_gradient(name):
    options = {
        "unlikeliness": {"sequence_log_probs": jnp.arange(5.0)},
        "overlong_penalised": {"lengths": ONE_GROUP + 9, "max_length": 10, "buffer": 4},
        "pass_at_k_rewards": {"k": 2},
        "length_penalised": {"lengths": jnp.arange(5)},
        "truncated_penalised": {"truncated": jnp.arange(5) > 2},
    }[name]
    rewards = jnp.array([1.0, 0.0, 1.0, 0.5, 0.0])

    def transform(rewards):
        return REWARD_TRANSFORMS[name](rewards, ONE_GROUP, **options)

    eager = transform(rewards)
    assert eager.dtype == jnp.float32
    np.testing.assert_allclose(jax.jit(transform)(rewards), eager, rtol=1e-6)
    gradient = jax.grad(lambda x: transform(x).sum())(rewards)
    np.testing.assert_array_equal(gradient, np.zeros(5))


def test_names_say_the_registry():
    assert set(ADVANTAGES.names()).isdisjoint(REWARD_TRANSFORMS.names())
