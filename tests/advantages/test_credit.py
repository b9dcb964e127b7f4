"""From rewards to advantages by name: order, arrays that operators need, and what is refused."""

import numpy as np
import pytest

from jaxgrpo.advantages import ADVANTAGE_TRANSFORMS, ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.advantages.credit import SUPPLIED, batch_arrays, make_credit
from jaxgrpo.core.choice import Choice

REWARDS = np.float32([1, 0, 1, 0])
IDS = np.int32([0, 0, 1, 1])
WHERE = np.arange(4)[None] < np.array([1, 4, 2, 3])[:, None]
ARRAYS = batch_arrays(
    where=WHERE,
    group_ids=IDS,
    truncated=np.array([False, True, False, False]),
    lengths=np.int32([1, 4, 2, 3]),
    behaviour_log_probs=np.where(WHERE, np.float32([[-1], [-2], [-3], [-4]]), np.float32(np.nan)),
    function_rewards=np.float32([[1, 0], [0, 0], [1, 0], [0, 0]]),
    weights=np.float32([1.0, 0.5]),
    entropies=np.ones((4, 4), np.float32),
)
PLAIN = Choice(name="group_centred")


def test_transforms_are_applied_in_order_before_and_after():
    overlong = Choice(
        name="overlong_penalised", options={"max_length": 4, "buffer": 2, "penalty": 0.4}
    )
    likely = Choice(name="unlikeliness", options={"beta": 0.5})
    credit = make_credit(
        [overlong, likely],
        PLAIN,
        [
            Choice(name="scaled_by_sign", options={"negative": 10.0}),
            Choice(name="clipped", options={"low": -1.0}),
        ],
    )
    assert credit.needs == {"lengths", "sequence_log_probs"}
    shaped = credit.shaped(REWARDS, **ARRAYS)
    # Lengths 1 4 2 3 lose 0, 0.4, 0, 0.2; sums of log-probs are -1 -8 | -6 -12.
    np.testing.assert_allclose(shaped, [0.5, -0.4 * 0.75, 0.5, -0.2 * 0.75], rtol=1e-6)
    got = credit.advantages(shaped, **ARRAYS)
    np.testing.assert_allclose(got, [0.4, -1.0, 0.325, -1.0], rtol=1e-6)
    assert got.dtype == np.float32


def test_gdpo_is_given_the_functions_one_by_one():
    credit = make_credit([], Choice(name="gdpo"), [])
    got = credit.advantages(REWARDS, **ARRAYS)
    # Each group normalised is +-1/sqrt(2); their squares sum to 2 over 3.
    np.testing.assert_allclose(got, np.float32([1, -1, 1, -1]) * np.sqrt(0.75), rtol=1e-5)
    both = {**ARRAYS, "function_rewards": np.float32([[1, 0], [0, 1], [1, 0], [0, 1]])}
    half = credit.advantages(REWARDS, **both)
    np.testing.assert_allclose(half, got, rtol=1e-5)  # 1 - 0.5 is only another scale
    both["weights"] = np.float32([1, 1])
    assert credit.advantages(REWARDS, **both).tolist() == [0] * 4
    missing = credit.advantages(np.float32([1, np.nan, 1, 0]), **ARRAYS)
    assert missing[:2].tolist() == [0, 0]


def test_a_users_own_gets_what_it_names(tmp_path, monkeypatch):
    (tmp_path / "own_credit.py").write_text(
        "def by_token(rewards, group_ids, *, where, entropies):\n"
        "    return where * entropies * rewards[:, None]\n"
        "def halved(advantages, *, where):\n"
        "    return where * advantages / 2\n"
        "def greedy(rewards, group_ids, *, attention):\n"
        "    return rewards\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    credit = make_credit([], Choice(name="own_credit:by_token"), [Choice(name="own_credit:halved")])
    assert credit.needs == {"where", "entropies"}
    got = credit.advantages(REWARDS, **ARRAYS)
    assert np.array_equal(got, WHERE * REWARDS[:, None] / 2)
    with pytest.raises(LookupError, match="needs attention, which a run does not have"):
        make_credit([], Choice(name="own_credit:greedy"), [])


@pytest.mark.parametrize("registry", [ADVANTAGES, REWARD_TRANSFORMS, ADVANTAGE_TRANSFORMS])
def test_a_run_has_what_every_registered_operator_needs(registry):
    for name in registry.names():
        assert set(registry.needs(name)) <= SUPPLIED | {"where"}, name


def test_transforms_that_an_advantage_would_not_see_are_refused():
    likely = Choice(name="unlikeliness")
    with pytest.raises(LookupError, match="takes the reward functions one by one"):
        make_credit([likely], Choice(name="gdpo"), [])
    make_credit([likely], PLAIN, [])


def test_what_lies_past_a_completion_is_not_in_its_log_prob():
    assert ARRAYS["sequence_log_probs"].tolist() == [-1, -8, -6, -12]
