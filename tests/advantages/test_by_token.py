"""Advantages that look at tokens, against their formulas written out in float64 loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.advantages import (
    grpo_s,
    gtpo,
    length_penalised,
    optimal_token_baseline,
    pruned,
    reinforce_plus_plus,
    remax,
    truncated_penalised,
)

RANDOM = np.random.default_rng(11)
IDS = np.array([4, 4, 9, 4, 9, 4, 9, 2])
REWARDS = np.array([0.0, 1.0, 0.5, 1.0, -1.0, 0.0, 2.0, 3.0])
LENGTHS = np.array([5, 2, 3, 5, 1, 4, 3, 2])
WHERE = np.arange(6)[None] < LENGTHS[:, None]
WHERE[3, 1] = False  # a gap, such as a tool's answer
LOGITS = RANDOM.normal(size=(8, 6, 5))
P = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
TAKEN = P[..., 0]
ENTROPIES = -(P * np.log(P)).sum(-1)
TOKENS = [(row, t) for row in range(8) for t in range(6) if WHERE[row, t]]


def garbage(values):
    """Nothing that is masked may matter."""
    return jnp.asarray(np.where(WHERE, values, np.nan), jnp.float32)


def members(group, t):
    return [row for row in range(8) if IDS[row] == group and WHERE[row, t]]


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_reinforce_plus_plus(discount):
    returns = {}
    for row, t in TOKENS:
        returns[row, t] = REWARDS[row] * discount ** WHERE[row, t + 1 :].sum()
    mean, std = np.mean(list(returns.values())), np.std(list(returns.values()), ddof=1)
    expected = np.zeros((8, 6))
    for place, value in returns.items():
        expected[place] = (value - mean) / (std + 1e-6)
    got = reinforce_plus_plus(
        jnp.asarray(REWARDS, jnp.float32), IDS, where=jnp.asarray(WHERE), discount=discount
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_row_without_a_score_is_in_no_statistic_of_its_tokens():
    missing = jnp.asarray(np.where(np.arange(8) == 3, np.nan, REWARDS), jnp.float32)
    without = np.delete(np.arange(8), 3)
    got = reinforce_plus_plus(missing, IDS, where=jnp.asarray(WHERE), discount=0.9)
    expected = reinforce_plus_plus(
        missing[without], IDS[without], where=jnp.asarray(WHERE[without]), discount=0.9
    )
    np.testing.assert_allclose(np.delete(got, 3, axis=0), expected, rtol=1e-5)
    assert not np.any(np.asarray(got)[3])


def test_optimal_token_baseline():
    energy = np.zeros((8, 6))
    for row, t in TOKENS:
        steps = [j for j in range(t + 1) if WHERE[row, j]]
        energy[row, t] = sum(1 - 2 * TAKEN[row, j] + (P[row, j] ** 2).sum() for j in steps)
    expected = np.zeros((8, 6))
    for row, t in TOKENS:
        if IDS[row] == 2:
            continue  # alone
        others = members(IDS[row], t)
        weights = energy[others, t]
        expected[row, t] = REWARDS[row] - weights @ REWARDS[others] / weights.sum()
    got = optimal_token_baseline(
        jnp.asarray(REWARDS, jnp.float32),
        IDS,
        where=jnp.asarray(WHERE),
        behaviour_log_probs=garbage(np.log(TAKEN)),
        squared_probs=garbage((P**2).sum(-1)),
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def shaped(value, right, rights, wrongs, share):
    if right:
        return 1 - share + share * len(rights) * value / sum(rights)
    return -(1 - share + share * len(wrongs) / value / sum(1 / x for x in wrongs))


def test_gtpo():
    share, expected = 0.3, np.zeros((8, 6))
    rewards = {}
    for row, t in TOKENS:
        here = members(IDS[row], t)
        rights = [ENTROPIES[i, t] for i in here if REWARDS[i] > 0]
        wrongs = [ENTROPIES[i, t] for i in here if REWARDS[i] <= 0]
        rewards[row, t] = shaped(ENTROPIES[row, t], REWARDS[row] > 0, rights, wrongs, share)
    for row, t in TOKENS:
        if IDS[row] != 2:
            group = [rewards[place] for place in TOKENS if IDS[place[0]] == IDS[row]]
            expected[row, t] = (rewards[row, t] - np.mean(group)) / (np.std(group, ddof=1) + 1e-6)
    got = gtpo(
        jnp.asarray(REWARDS, jnp.float32),
        IDS,
        where=jnp.asarray(WHERE),
        entropies=garbage(ENTROPIES),
        share=share,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_grpo_s():
    share, expected = 0.3, np.zeros(8)
    means = np.array([ENTROPIES[row][WHERE[row]].mean() for row in range(8)])
    for group in (4, 9):
        here = np.flatnonzero(group == IDS)
        rights = [means[i] for i in here if REWARDS[i] > 0]
        wrongs = [means[i] for i in here if REWARDS[i] <= 0]
        values = np.array([shaped(means[i], REWARDS[i] > 0, rights, wrongs, share) for i in here])
        expected[here] = (values - values.mean()) / (values.std(ddof=1) + 1e-6)
    got = grpo_s(
        jnp.asarray(REWARDS, jnp.float32),
        IDS,
        where=jnp.asarray(WHERE),
        entropies=garbage(ENTROPIES),
        share=share,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_certain_tokens_divide_nothing_by_0():
    for function in (gtpo, grpo_s):
        got = function(
            jnp.array([1.0, 0.0, 0.0]),
            np.zeros(3, int),
            where=jnp.ones((3, 2), bool),
            entropies=jnp.zeros((3, 2)),
        )
        assert np.isfinite(got).all()
        assert (np.asarray(got)[0] > 0).all()


def test_remax_without_a_greedy_score_says_nothing():
    got = remax(jnp.array([1.0, 1.0]), np.zeros(2, int), greedy_rewards=jnp.array([jnp.nan, 0.5]))
    np.testing.assert_array_equal(got, [0, 0.5])


def test_length_penalised():
    ids, lengths = np.zeros(4, int), jnp.array([10, 20, 30, 20])
    rewards = jnp.array([0.0, 1.0, 1.0, jnp.nan])
    # Half, nothing, minus half; a wrong one gains nothing.
    got = length_penalised(rewards, ids, lengths=lengths, weight=0.2)
    np.testing.assert_allclose(got, [0, 1, 0.9, np.nan], rtol=1e-6)
    equal = length_penalised(rewards, ids, lengths=jnp.full(4, 7))
    np.testing.assert_array_equal(equal, rewards)


def test_truncated_penalised():
    rewards = jnp.array([1.0, 1.0, jnp.nan])
    truncated = jnp.array([True, False, True])
    got = truncated_penalised(rewards, np.zeros(3, int), truncated=truncated, factor=0.5)
    np.testing.assert_array_equal(got, [0.5, 1, np.nan])


@pytest.mark.parametrize(
    ("rate", "kept"), [(0.0, 10), (0.25, 7), (0.9, 1), (0.899, 1), (0.5, 5), (1.0, 1)]
)
def test_pruned_keeps_so_many_of_each_group(rate, kept):
    ids = np.repeat([3, -1], 10)
    advantages = jnp.asarray(RANDOM.normal(size=20), jnp.float32)
    got = np.asarray(pruned(advantages, group_ids=ids, rate=rate))
    for group in (3, -1):
        mine = np.abs(advantages)[ids == group]
        largest = np.sort(mine)[-kept:]
        np.testing.assert_array_equal(np.sort(np.abs(got[ids == group]))[-kept:], largest)
        assert (got[ids == group] != 0).sum() == kept


def test_pruned_takes_whole_completions():
    by_token = jnp.array([[0.25, -3.0], [1.0, 1.0], [0.0, 0.5]])
    got = pruned(by_token, group_ids=np.zeros(3, int), rate=0.6)
    np.testing.assert_array_equal(got, [[0.25, -3.0], [0, 0], [0, 0]])
