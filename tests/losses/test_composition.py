"""What multiplies what: weights, masks, penalty and entropy bonus, in the order that is exact."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses.config import LossConfig, PenaltyConfig, WeightConfig, make_objective
from jaxgrpo.losses.objective import Objective, Reason, TokenInputs
from jaxgrpo.losses.weighting import make_weights, weigh
from jaxgrpo.ratios import WEIGHTS

random = np.random.default_rng(1)
B, T = 4, 5
WHERE = np.arange(T)[None] < np.array([5, 3, 0, 4])[:, None]
LOG_PROBS = (-2 + 0.5 * random.normal(size=(B, T))).astype(np.float32)
BEHAVIOUR = (LOG_PROBS + 0.3 * random.normal(size=(B, T))).astype(np.float32)
REFERENCE = (LOG_PROBS + 0.4 * random.normal(size=(B, T))).astype(np.float32)
ENTROPIES = random.random((B, T)).astype(np.float32)
ADVANTAGES = np.float32([1.5, -0.5, 2.0, -2.0])
ROWS = np.float32([0.1, 0.2, 0.0, 0.05])
TOKEN_WEIGHTS = np.where(WHERE, random.uniform(0.5, 2, (B, T)), 0).astype(np.float32)
TOKEN_WEIGHTS[0, 1] = TOKEN_WEIGHTS[3, 2] = 0
DROPPED = np.where(WHERE & (TOKEN_WEIGHTS == 0), Reason.MISMATCH_MASK, 0).astype(np.int8)
PLAIN = TokenInputs(
    behaviour_log_probs=BEHAVIOUR,
    anchor_log_probs=BEHAVIOUR,
    reference_log_probs=REFERENCE,
    advantages=ADVANTAGES,
    where=WHERE,
    row_weights=ROWS,
    group_ids=np.int32([0, 0, 1, 1]),
)
WEIGHTED = dataclasses.replace(PLAIN, token_weights=TOKEN_WEIGHTS, dropped=DROPPED)
CONFIG = LossConfig(
    name="reinforce", penalty=PenaltyConfig(name="k2", coefficient=0.25), entropy_bonus=0.5
)
OBJECTIVE = make_objective(CONFIG)


def run(objective, inputs, log_probs=LOG_PROBS, entropies=ENTROPIES):
    """(parts, metrics), and the gradients for log-probs and entropies."""

    @jax.jit
    def both(log_probs, entropies, inputs):
        loss = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)
        return loss(log_probs, entropies, inputs)

    (total, (parts, metrics)), gradients = jax.device_get(both(log_probs, entropies, inputs))
    np.testing.assert_allclose(total, sum(parts.values()), rtol=1e-5)
    return parts, metrics, gradients


def test_weights_multiply_the_policy_term_and_nothing_else():
    plain, _, (free, entropy) = run(OBJECTIVE, PLAIN)
    parts, _, (gradient, same) = run(OBJECTIVE, WEIGHTED)
    policy = -ADVANTAGES[:, None] * LOG_PROBS * TOKEN_WEIGHTS * ROWS[:, None]
    np.testing.assert_allclose(parts["loss/policy"], policy[WHERE].sum(), rtol=1e-5)
    assert parts["loss/penalty"] == plain["loss/penalty"]
    assert parts["loss/entropy"] == plain["loss/entropy"]
    assert np.array_equal(entropy, same)
    # The penalty's gradient is what both have in common.
    moved = np.exp(LOG_PROBS - BEHAVIOUR)
    penalty = 0.25 * moved * (LOG_PROBS - REFERENCE) * ROWS[:, None]
    for got, weight in ((free, 1), (gradient, TOKEN_WEIGHTS)):
        wanted = penalty - ADVANTAGES[:, None] * weight * ROWS[:, None]
        np.testing.assert_allclose(got, np.where(WHERE, wanted, 0), rtol=1e-4, atol=1e-7)


def test_the_entropy_bonus_is_the_weighted_mean_entropy_with_its_gradient():
    parts, _, (_, gradient) = run(OBJECTIVE, PLAIN)
    wanted = -0.5 * np.sum(np.where(WHERE, ENTROPIES, 0) * ROWS[:, None])
    np.testing.assert_allclose(parts["loss/entropy"], wanted, rtol=1e-5)
    np.testing.assert_allclose(gradient, np.where(WHERE, -0.5 * ROWS[:, None], 0), rtol=1e-6)
    assert "loss/entropy" not in run(make_objective(LossConfig()), PLAIN)[0]


def test_the_likelihood_of_positive_rows_with_its_gradient():
    objective = make_objective(LossConfig(name="reinforce", positive_nll=0.1))
    rewarded = dataclasses.replace(PLAIN, rewards=np.float32([0.5, 0.0, np.nan, 1.0]))
    parts, _, (gradient, _) = run(objective, rewarded)
    _, _, (without, _) = run(make_objective(LossConfig(name="reinforce")), rewarded)
    rows = WHERE & np.array([[True], [False], [False], [True]])
    wanted = -0.1 * np.sum(np.where(rows, LOG_PROBS, 0) * ROWS[:, None])
    np.testing.assert_allclose(parts["loss/positive_nll"], wanted, rtol=1e-5)
    np.testing.assert_allclose(
        gradient - without, np.where(rows, -0.1 * ROWS[:, None], 0), rtol=1e-4, atol=1e-7
    )
    with pytest.raises(ValueError, match="positive_nll needs rewards"):
        objective(LOG_PROBS, ENTROPIES, PLAIN)


@pytest.mark.parametrize("filling", [np.nan, np.inf, 1e30])
def test_what_a_dropped_token_and_padding_hold_changes_no_bit(filling):
    """Its ratio to the anchor may be infinite: 0 times that is no gradient."""
    objective = make_objective(LossConfig(name="ppo_clip"))
    left_out = ~WHERE | (TOKEN_WEIGHTS == 0)
    filled = dataclasses.replace(
        WEIGHTED, anchor_log_probs=np.where(left_out, np.float32(-filling), BEHAVIOUR)
    )
    filled = dataclasses.replace(
        filled, token_weights=np.where(WHERE, TOKEN_WEIGHTS, np.float32(filling))
    )
    wanted, got = run(objective, WEIGHTED), run(objective, filled)
    assert got[0] == wanted[0]
    for one, other in zip(got[2], wanted[2], strict=True):
        assert np.array_equal(one, other)
    assert np.all(got[2][0][left_out] == 0)


def test_a_dropped_token_is_recorded_and_in_no_clip_fraction():
    objective = make_objective(LossConfig(name="ppo_clip", options={"clip_high": 0.0}))
    high = dataclasses.replace(
        WEIGHTED, anchor_log_probs=LOG_PROBS - 1, advantages=np.abs(ADVANTAGES)
    )
    weights, reasons = jax.device_get(objective.gradient_weights(LOG_PROBS, ENTROPIES, high))
    gone = WHERE & (TOKEN_WEIGHTS == 0)
    assert (reasons[gone] == Reason.MISMATCH_MASK).all()
    assert (weights[gone] == 0).all()
    assert (reasons[WHERE & ~gone] == Reason.CLIPPED_HIGH).all()
    metric = run(objective, high)[1]["clip/fraction_high"]
    assert metric.total == metric.count == (WHERE & ~gone).sum()


def test_recorded_gradient_weights_hold_the_token_weights():
    weights, reasons = OBJECTIVE.gradient_weights(LOG_PROBS, ENTROPIES, WEIGHTED)
    np.testing.assert_allclose(weights, ADVANTAGES[:, None] * TOKEN_WEIGHTS, rtol=1e-6)
    assert (np.asarray(reasons)[~WHERE] == Reason.PADDING).all()


def test_advantages_may_be_one_a_token():
    tokens = np.where(WHERE, random.normal(size=(B, T)), 0).astype(np.float32)
    inputs = dataclasses.replace(PLAIN, advantages=tokens)
    objective = make_objective(LossConfig(name="reinforce"))
    _, metrics, (gradient, _) = run(objective, inputs)
    np.testing.assert_allclose(gradient, -tokens * ROWS[:, None], rtol=1e-6)
    assert metrics["clip/fraction_high"].count == WHERE.sum()
    spread = np.repeat(ADVANTAGES[:, None], T, axis=1)
    inputs = dataclasses.replace(PLAIN, advantages=spread)
    assert run(objective, inputs)[0] == run(objective, PLAIN)[0]


def test_a_loss_of_whole_sequences_sees_the_tokens_that_weights_drop():
    """Their losses go, their share in the sequence's ratio stays: as with any other weight."""
    objective = make_objective(LossConfig(name="gspo", options={"clip_low": 9.0, "clip_high": 9.0}))
    _, _, (gradient, _) = run(objective, WEIGHTED)
    for b in (0, 1, 3):
        n = WHERE[b].sum()
        ratio = np.exp(np.mean((LOG_PROBS - BEHAVIOUR)[b, :n]))
        wanted = -ratio * ADVANTAGES[b] * ROWS[b] * TOKEN_WEIGHTS[b].sum() / n
        np.testing.assert_allclose(gradient[b, :n], wanted, rtol=1e-5)


def weighed(*configs, log_probs=LOG_PROBS, behaviour=BEHAVIOUR):
    weights = make_weights([WeightConfig(**config) for config in configs])
    return jax.device_get(weigh(weights, log_probs, jnp.asarray(behaviour), ADVANTAGES, WHERE))


RATIOS = np.exp(LOG_PROBS - BEHAVIOUR)
NEAR = {
    "name": "rejection_mask",
    "options": {"estimator": "k1", "level": "token", "threshold": 0.3},
}


def test_the_product_of_weights_and_what_is_logged_of_it():
    got = weighed(
        {"name": "truncated_weights", "options": {"cap": 1.2}},
        NEAR,
    )
    kept = WHERE & (np.abs(np.log(RATIOS)) <= 0.3)
    assert 3 < kept.sum() < WHERE.sum()
    wanted = np.where(kept, np.minimum(RATIOS, 1.2), 0)
    np.testing.assert_allclose(got.weights, wanted, rtol=1e-6)
    assert np.array_equal(got.dropped > 0, WHERE & ~kept)
    assert set(got.dropped[WHERE & ~kept]) == {Reason.MISMATCH_MASK}
    assert np.array_equal(got.trainable, WHERE)
    n = WHERE.sum()
    np.testing.assert_allclose(got.metrics["weights/mean"], wanted.sum() / n, rtol=1e-5)
    share = wanted.sum() ** 2 / (n * np.sum(wanted**2))
    np.testing.assert_allclose(got.metrics["weights/effective_sample_size"], share, rtol=1e-5)
    np.testing.assert_allclose(
        got.metrics["weights/masked_fraction"], 1 - kept.sum() / n, rtol=1e-5
    )


def test_a_counted_weight_takes_its_tokens_out_of_the_denominator():
    mask = {"name": "masked_weights", "options": {"low": 0.8, "high": 1.25}}
    kept = WHERE & (RATIOS >= 0.8) & (RATIOS <= 1.25)
    assert 0 < kept.sum() < WHERE.sum()
    for denominator, wanted in (("keep", WHERE), ("counted", kept)):
        got = weighed({**mask, "denominator": denominator})
        assert np.array_equal(got.trainable, wanted)
        assert set(got.dropped[WHERE & ~kept]) == {Reason.MISMATCH_MASK}
        np.testing.assert_allclose(got.weights, np.where(kept, RATIOS, 0), rtol=1e-6)


def test_a_sequence_that_is_dropped_as_a_whole_is_gated():
    shift = np.float32([0, 3, 0, 0])[:, None]
    got = weighed({"name": "geometric_mask", "options": {"high": 9.0}}, behaviour=LOG_PROBS + shift)
    wanted = np.where(WHERE & (shift > 0), Reason.SEQUENCE_GATE, 0)
    assert np.array_equal(got.dropped, wanted)


def test_the_mean_is_normalised_over_all_tokens_of_the_step():
    got = weighed({"name": "truncated_weights", "options": {"cap": 1.2}, "mean_normalised": True})
    capped = np.minimum(RATIOS, 1.2)
    np.testing.assert_allclose(
        got.weights, np.where(WHERE, capped / capped[WHERE].mean(), 0), rtol=1e-5
    )


def test_a_token_that_one_weight_drops_may_be_anything_to_another(tmp_path, monkeypatch):
    (tmp_path / "own_weights.py").write_text(
        "import jax.numpy as jnp\n"
        "def wild(log_probs, behaviour, *, where=None):\n"
        "    return jnp.where(jnp.abs(log_probs - behaviour) > 0.3, jnp.inf, 1.0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    wild = {"name": "own_weights:wild"}
    for order in ([NEAR, wild], [wild, NEAR]):
        assert set(weighed(*order).weights.ravel()) == {0.0, 1.0}


@pytest.mark.parametrize("name", WEIGHTS.names())
def test_nan_in_padding_reaches_no_weight(name):
    filled = [np.where(WHERE, x, np.float32(np.nan)) for x in (LOG_PROBS, BEHAVIOUR)]
    config = {"name": name, "mean_normalised": True}
    wanted, got = weighed(config), weighed(config, log_probs=filled[0], behaviour=filled[1])
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.array_equal(one, other)
    assert (got.weights[~WHERE] == 0).all()


def test_what_would_count_twice_or_can_not_be_had_is_refused(tmp_path, monkeypatch):
    weights = (WeightConfig(name="truncated_weights"),)
    with pytest.raises(LookupError, match="loss 'minirl' weighs tokens by trainer over sampler"):
        make_objective(LossConfig(name="minirl", weights=weights))
    with pytest.raises(LookupError, match="did you mean 'truncated_weights'"):
        make_weights([WeightConfig(name="truncated_weight")])
    (tmp_path / "greedy_weights.py").write_text(
        "def greedy(log_probs, behaviour, *, where=None, attention):\n    return log_probs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LookupError, match="needs attention, which a run does not have"):
        make_weights([WeightConfig(name="greedy_weights:greedy")])


def test_a_users_loss_may_look_at_whole_sequences(tmp_path, monkeypatch):
    (tmp_path / "own_losses.py").write_text(
        "def mean(log_probs, anchor, advantages, *, where=None):\n"
        "    return log_probs.mean(-1, keepdims=True) + 0 * log_probs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    objective = make_objective(LossConfig(name="own_losses:mean"))
    assert objective.level == "sequence"
    _, _, (gradient, _) = run(objective, WEIGHTED)
    wanted = ROWS * TOKEN_WEIGHTS.sum(axis=1) / T
    np.testing.assert_allclose(gradient, np.repeat(wanted[:, None], T, axis=1), rtol=1e-5)
    assert isinstance(objective, Objective)
