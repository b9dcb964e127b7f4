"""What every group advantage keeps to; a new one adds one golden row."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxgrpo.advantages import ADVANTAGES

# Group 7: 0, 3, 6 (mean 3, squared deviations 9, 0, 9). Group -2: 1, 2. Group 5: alone.
REWARDS = np.float32([0, 1, 3, 4, 6, 2])
GROUP_IDS = np.int32([7, -2, 7, 5, 7, -2])
ROOT_HALF = np.sqrt(0.5)
LENGTHS = np.int32([1, 2, 3, 4, 5, 6])
OVER_TOKENS = np.repeat([-3, -0.5, 0, 0, 3, 0.5], LENGTHS)  # centred rewards, one a token
GOLDEN = {
    "group_normalised": [
        ({"eps": 0.0}, [-1, -ROOT_HALF, 0, 0, 1, ROOT_HALF]),
        ({"eps": 0.0, "ddof": 0}, [-np.sqrt(1.5), -1, 0, 0, np.sqrt(1.5), 1]),
        ({"eps": 1.0}, [-0.75, -0.5 / (ROOT_HALF + 1), 0, 0, 0.75, 0.5 / (ROOT_HALF + 1)]),
    ],
    "group_centred": [({}, [-3, -0.5, 0, 0, 3, 0.5])],
    "leave_one_out": [({}, [-4.5, -1, 0, 0, 4.5, 1])],
    "batch_normalised": [
        ({"eps": 0.0}, np.array([-3, -0.5, 0, 0, 3, 0.5]) / np.std(REWARDS, ddof=1))
    ],
    # The others of 0 are 3 and 6, of deviation sqrt(4.5); those of 6 are 0 and 3. Pairs have none.
    "leave_one_out_normalised": [
        ({"eps": 0.0}, [-4.5 / np.sqrt(4.5), -1, 0, 0, 4.5 / np.sqrt(4.5), 1])
    ],
    "max_rl": [({}, [-1, -1 / 3, 0, 0, 1, 1 / 3])],
    "best_of_group": [({"eps": 0.0}, [0, 0, 0, 0, 1, 1 / ROOT_HALF])],
    # Five of six rewards are not 0.
    "gpg": [
        ({}, np.array([-3, -0.5, 0, 0, 3, 0.5]) * 1.2),
        ({"norm": 1.2}, [-3, -0.5, 0, 0, 3, 0.5]),
    ],
    # Only 6 is correct: P = 1 - 1/3, s = sqrt(2)/3; nothing in group -2.
    "pass_at_k_normalised": [
        ({"k": 2, "threshold": 4.0}, [-ROOT_HALF / 2, 0, -ROOT_HALF / 2, 0, ROOT_HALF, 0]),
    ],
    # The baselines are (0 + 9 + 30) / 9 and (2 + 12) / 8.
    "optimal_baseline": [({}, [-13 / 3, -0.75, -4 / 3, 0, 5 / 3, 0.25])],
    "whitened_over_tokens": [
        (
            {"eps": 0.0},
            (np.array([-3, -0.5, 0, 0, 3, 0.5]) - OVER_TOKENS.mean()) / OVER_TOKENS.std(ddof=1),
        )
    ],
    "filtered_group": [
        ({"keep": 2, "eps": 0.0}, [-ROOT_HALF, -ROOT_HALF, ROOT_HALF, 0, 0, ROOT_HALF]),
        # Rewards a token: 0, 1, 1.2 and 0.5, 0.33.
        (
            {"keep": 2, "by": "efficiency", "eps": 0.0},
            [0, -ROOT_HALF, -ROOT_HALF, 0, ROOT_HALF, ROOT_HALF],
        ),
    ],
    # With one token a completion; all of equal probability and entropy.
    "reinforce_plus_plus": [
        ({"eps": 0.0}, (REWARDS - REWARDS.mean()) / REWARDS.std(ddof=1)),
        ({"eps": 0.0, "discount": 0.5}, (REWARDS - REWARDS.mean()) / REWARDS.std(ddof=1)),
    ],
    "optimal_token_baseline": [({}, [-3, -0.5, 0, 0, 3, 0.5])],
    # -1, 1 and 1, and a group in which all are correct; then -1, -1 and 1.
    **{
        name: [
            ({"eps": 0.0}, np.array([-2, 0, 1, 0, 1, 0]) / np.sqrt(3)),
            ({"eps": 0.0, "threshold": 4.0}, np.array([-1, 0, -1, 0, 2, 0]) / np.sqrt(3)),
        ]
        for name in ("gtpo", "grpo_s")
    },
    "remax": [({}, REWARDS - 1)],
    # The squares of the normalised sum to 3.
    "gdpo": [({"eps": 0.0}, np.array([-1, -ROOT_HALF, 0, 0, 1, ROOT_HALF]) / np.sqrt(0.6))],
}
ROWS = [(name, *row) for name, rows in GOLDEN.items() for row in rows]
# Options under which an advantage is asked for on other batches than that of the golden values.
OPTIONS = {"pass_at_k_normalised": {"k": 2}}
every = pytest.mark.parametrize("name", ADVANTAGES.names())


def all_but(*names):
    return pytest.mark.parametrize("name", [n for n in ADVANTAGES.names() if n not in names])


# The scale of these depends on the whole batch, or on where 0 is.
OF_BATCH = ("batch_normalised", "gdpo", "gpg", "reinforce_plus_plus", "whitened_over_tokens")
WITH_ZERO = ("gpg", "grpo_s", "gtpo", "max_rl", "pass_at_k_normalised", "remax")
# These compare with something else than the group.
UNGROUPED = ("reinforce_plus_plus", "remax")
CASES = hnp.arrays(np.float32, 12, elements=st.floats(-4, 4, width=16))
IDS = hnp.arrays(np.int32, 12, elements=st.integers(0, 3))


def evaluate(name, rewards, group_ids, **options):
    rewards, group_ids = np.float32(rewards), np.int32(group_ids)
    if "lengths" in options:
        return by_row(bound(name, len(rewards), **options)(rewards, group_ids))
    # Filled up with rows that are not scored: one program serves all small batches.
    rows = len(rewards)
    spare = max(12 - rows, 0)
    rewards = np.append(rewards, np.full(spare, np.nan, np.float32))
    group_ids = np.append(group_ids, np.full(spare, -999, np.int32))
    function = compiled(name, len(rewards), tuple(options.items()))
    return by_row(function(rewards, group_ids))[:rows]


def by_row(advantages):
    """One a completion, which has one token."""
    values = np.asarray(advantages)
    return values[:, 0] if values.ndim == 2 else values


@functools.cache
def compiled(name, rows, options):
    return jax.jit(bound(name, rows, **dict(options)))


def bound(name, rows, **options):
    """The advantage with its options, and arrays of one token a completion unless given."""
    arrays = {
        "lengths": jnp.ones(rows, jnp.int32),
        "where": jnp.ones((rows, 1), bool),
        "entropies": jnp.ones((rows, 1)),
        "behaviour_log_probs": jnp.full((rows, 1), jnp.log(0.5)),
        "squared_probs": jnp.full((rows, 1), 0.5),
        "greedy_rewards": jnp.ones(rows),
    }
    takes = inspect.signature(ADVANTAGES[name]).parameters
    needed = {array: value for array, value in arrays.items() if array in takes}
    return functools.partial(ADVANTAGES[name], **{**needed, **OPTIONS.get(name, {}), **options})


def test_every_advantage_has_a_row():
    assert set(ADVANTAGES.names()) == set(GOLDEN)


@pytest.mark.parametrize(("name", "options", "expected"), ROWS)
def test_golden_values(name, options, expected):
    if "lengths" in ADVANTAGES.card(name).needs:
        options = {**options, "lengths": jnp.asarray(LENGTHS)}
    np.testing.assert_allclose(
        evaluate(name, REWARDS, GROUP_IDS, **options), expected, rtol=1e-6, atol=1e-7
    )


@all_but(*UNGROUPED)
def test_equal_rewards_are_exactly_0(name):
    # The mean of three times 0.1 is not 0.1 in float32; sums in two orders differ by rounding.
    rewards = [0.1, 0.1, 0.1, np.nextafter(np.float32(0.3), np.float32(1)), 0.3, 0.3]
    np.testing.assert_array_equal(evaluate(name, rewards, [0, 0, 0, 1, 1, 1]), np.zeros(6))


@all_but("remax")
@pytest.mark.parametrize("size", [3, 7, 64])
def test_equal_rewards_are_exactly_0_at_any_size(name, size):
    for reward in (0.1, 1 / 3, -7.7, 1e-30, 1e30):
        np.testing.assert_array_equal(evaluate(name, [reward] * size, [4] * size), np.zeros(size))


@all_but(*UNGROUPED)
def test_a_lone_sample_is_0(name):
    np.testing.assert_array_equal(evaluate(name, [3.0], [9]), [0])
    np.testing.assert_array_equal(evaluate(name, [1.0, 2.0, 3.0], [0, 1, 2]), np.zeros(3))


@all_but(*OF_BATCH, "remax")
@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
def test_a_missing_reward_is_left_out(name, missing):
    advantages = evaluate(name, [0, missing, 3, missing, 6, 5], [1, 1, 1, 2, 1, 2])
    expected = evaluate(name, [0, 3, 6], [1, 1, 1])
    np.testing.assert_array_equal(advantages, [expected[0], 0, expected[1], 0, expected[2], 0])


@every
def test_nothing_scored_is_all_0(name):
    np.testing.assert_array_equal(evaluate(name, [np.nan] * 4, [0, 0, 1, 1]), np.zeros(4))


@all_but(*WITH_ZERO)
@pytest.mark.parametrize("offset", [1e4, -1e4, 2.0**20, -(2.0**20)])
def test_a_huge_offset_changes_nothing(name, offset):
    # The sums are exact in float32, so the advantages must be too.
    shifted = evaluate(name, REWARDS + np.float32(offset), GROUP_IDS)
    np.testing.assert_array_equal(shifted, evaluate(name, REWARDS, GROUP_IDS))


@all_but(*WITH_ZERO)
def test_a_huge_offset_does_not_drown_the_differences_of_a_large_group(name):
    # 65 rewards of 0 to 4: their sum, with the offset, is beyond the integers of float32.
    rewards = np.arange(65, dtype=np.float32) % 5
    shifted = evaluate(name, rewards + np.float32(2**20), [1] * 65)
    np.testing.assert_array_equal(shifted, evaluate(name, rewards, [1] * 65))
    assert shifted[2] == 0


@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1e25])
def test_the_normalised_advantage_has_no_scale(scale):
    scaled = evaluate("group_normalised", REWARDS * np.float32(scale), GROUP_IDS, eps=0.0)
    expected = evaluate("group_normalised", REWARDS, GROUP_IDS, eps=0.0)
    # The scaled rewards are themselves rounded, to 6e-8 of the largest.
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=5e-7)


@all_but("leave_one_out_normalised")
@settings(deadline=None, max_examples=25)
@given(CASES, IDS, st.randoms(use_true_random=False))
def test_advantages_follow_a_permutation_and_a_renaming(name, rewards, group_ids, random):
    order = np.array(random.sample(range(12), 12))
    renamed = np.int32([40, -3, 2**30, 0])[group_ids]
    np.testing.assert_allclose(
        evaluate(name, rewards[order], renamed[order]),
        evaluate(name, rewards, group_ids)[order],
        rtol=1e-5,
        atol=1e-6,
    )


@all_but(*OF_BATCH, "best_of_group", "leave_one_out_normalised", "remax")
@settings(deadline=None, max_examples=25)
@given(CASES, IDS)
def test_each_group_sums_to_0_and_other_groups_do_not_matter(name, rewards, group_ids):
    advantages = evaluate(name, rewards, group_ids)
    for group in set(group_ids.tolist()):
        members = group_ids == group
        assert abs(advantages[members].sum()) < 1e-4
        elsewhere = np.where(members, rewards, np.float32(99))
        np.testing.assert_array_equal(
            evaluate(name, elsewhere, group_ids)[members], advantages[members]
        )


@all_but("best_of_group", "grpo_s", "gtpo", "pass_at_k_normalised")
def test_a_higher_reward_never_has_a_lower_advantage(name):
    rewards = np.float32([5, 1, 4, 1, 9, 2, 6])
    advantages = evaluate(name, rewards, np.zeros(7, np.int32))
    assert np.array_equal(np.argsort(advantages, kind="stable"), np.argsort(rewards, kind="stable"))


@every
def test_jit_vmap_dtype_and_no_gradient(name):
    rewards, group_ids = jnp.asarray(REWARDS), jnp.asarray(GROUP_IDS)
    function = bound(name, 6)
    eager = function(rewards, group_ids)
    assert eager.dtype == jnp.float32
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_allclose(jax.jit(function)(rewards, group_ids), eager, rtol=1e-6)
    pair = jax.vmap(function)(jnp.stack([rewards, rewards]), jnp.stack([group_ids, group_ids]))
    np.testing.assert_allclose(pair, jnp.stack([eager, eager]), rtol=1e-6)
    gradient = jax.grad(lambda x: function(x, group_ids)[0].sum())(rewards)
    np.testing.assert_array_equal(gradient, np.zeros(6))


@all_but("grpo_s", "gtpo", "pass_at_k_normalised")
def test_float64_rewards_give_float32_advantages(name):
    with jax.enable_x64(True):
        # A difference that float32 would not see at all.
        rewards = jnp.array([1e9, 1e9 + 1e-3], jnp.float64)
        advantages = bound(name, 2)(rewards, jnp.zeros(2, int))
    assert advantages.dtype == jnp.float32
    assert by_row(advantages)[1] > 0


@every
def test_what_does_not_fit_is_refused(name):
    function, rewards, group_ids = bound(name, 3), jnp.zeros(3), jnp.zeros(3, int)
    with pytest.raises(TypeError, match="rewards must be a floating-point array"):
        function(jnp.zeros(3, int), group_ids)
    with pytest.raises(TypeError, match="group_ids must be an integer array"):
        function(rewards, jnp.zeros(3))
    with pytest.raises(ValueError, match=r"group_ids must have shape \[3\]"):
        function(rewards, group_ids[:2])
    if name != "gdpo":  # which takes several rewards
        with pytest.raises(ValueError, match=r"rewards must have shape \[any\]"):
            function(jnp.zeros((3, 2)), group_ids)
    if "lengths" in ADVANTAGES.card(name).needs:
        with pytest.raises(ValueError, match=r"lengths must have shape \[3\]"):
            function(rewards, group_ids, lengths=jnp.ones(2, int))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("batch_normalised", {"eps": -1.0}),
        ("gpg", {"norm": 0.0}),
        ("pass_at_k_normalised", {"k": 0}),
        ("filtered_group", {"keep": 0}),
        ("reinforce_plus_plus", {"discount": 0.0}),
        ("reinforce_plus_plus", {"discount": 1.5}),
        ("gtpo", {"share": 2.0}),
        ("grpo_s", {"floor": 0.0}),
    ],
)
def test_numbers_out_of_range_are_refused(name, options):
    with pytest.raises(ValueError, match="must be"):
        evaluate(name, REWARDS, GROUP_IDS, **options)


@pytest.mark.parametrize("options", [{"ddof": 2}, {"ddof": -1}, {"eps": -1e-6}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        evaluate("group_normalised", REWARDS, GROUP_IDS, **options)
