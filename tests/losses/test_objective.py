"""The scalar of a step: parts that add up, weights, reasons and what is logged, from log-probs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.core.choice import Choice
from jaxgrpo.losses import LOSSES, ppo_clip, reinforce, reverse_kl
from jaxgrpo.losses.config import LossConfig, PenaltyConfig, make_objective
from jaxgrpo.losses.objective import SUPPLIED, Objective, Reason, TokenInputs

random = np.random.default_rng(0)
B, T = 6, 5
LENGTHS = np.array([5, 3, 0, 4, 5, 1])
WHERE = np.arange(T)[None] < LENGTHS[:, None]
LOG_PROBS = (-2 + 0.6 * random.normal(size=(B, T))).astype(np.float32)
ENTROPIES = random.random((B, T)).astype(np.float32)


def near(scale):
    return (LOG_PROBS + scale * random.normal(size=(B, T))).astype(np.float32)


INPUTS = TokenInputs(
    behaviour_log_probs=near(0.05),
    anchor_log_probs=near(0.4),
    reference_log_probs=near(0.5),
    advantages=np.float32([1.5, -0.5, 2.0, -2.0, 0.0, 0.7]),
    where=WHERE,
    row_weights=np.float32([0.1, 0.2, 0.0, 0.05, 0.3, 0.15]),
    group_ids=np.int32([0, 0, 1, 1, 2, 2]),
)
ON_POLICY = dataclasses.replace(INPUTS, anchor_log_probs=None)
PPO = make_objective(LossConfig(name="ppo_clip", options={"dual_clip": 1.6}))
BOTH = make_objective(LossConfig(name="ppo_clip", penalty=PenaltyConfig(coefficient=0.25)))
PENALISED = make_objective(
    LossConfig(name="reinforce", penalty=PenaltyConfig(name="reverse_kl", coefficient=0.25))
)


@functools.cache
def compiled(objective):
    # Half the time to compile.
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def both(log_probs, entropies, inputs):
        loss = jax.value_and_grad(lambda x: objective(x, entropies, inputs), has_aux=True)
        return loss(log_probs)

    return both


def run(objective, log_probs=LOG_PROBS, inputs=INPUTS, entropies=ENTROPIES):
    """(loss, (parts, metrics)), gradient for the log-probs."""
    return jax.device_get(compiled(objective)(log_probs, entropies, inputs))


def per_token(rows):
    return np.where(WHERE, rows[:, None], 0)


@pytest.mark.parametrize("name", ["reinforce", "ppo_clip", "atr"])
@pytest.mark.parametrize("tight", [False, True])
def test_on_policy_the_gradient_is_minus_a_to_the_bit(name, tight):
    options = {"ppo_clip": {"clip_low": 0.0, "clip_high": 0.0}, "atr": {"delta": 0.0}}
    config = LossConfig(name=name, options=options.get(name, {}) if tight else {})
    (_, (_, metrics)), gradient = run(make_objective(config), inputs=ON_POLICY)
    wanted = per_token(-INPUTS.advantages * INPUTS.row_weights)
    assert np.array_equal(gradient, wanted)
    assert metrics["divergence/anchor_kl3"].total == 0
    assert all(metrics[f"clip/fraction_{side}"].total == 0 for side in ("low", "high", "dual"))


def test_parts_of_a_batch_add_up():
    """Scalar, parts, gradient and metrics, for any cut; float64 to its own rounding."""
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda leaf: leaf.astype(np.float64) if leaf.dtype == np.float32 else leaf, INPUTS
        )
        log_probs, entropies = LOG_PROBS.astype(np.float64), ENTROPIES.astype(np.float64)
        whole, gradient = run(BOTH, log_probs, wide, entropies)
        parts, gradients = [], []
        for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
            cut = jax.tree.map(lambda leaf, rows=rows: leaf[rows], wide)
            value, part = run(BOTH, log_probs[rows], cut, entropies[rows])
            parts.append(value)
            gradients.append(part)
    total = jax.tree.map(lambda *leaves: sum(leaves), *parts)
    for one, other in zip(jax.tree.leaves(total), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    assert np.array_equal(np.concatenate(gradients), gradient)


def test_a_clipped_token_changes_the_loss_by_nothing():
    """Every token moved on its own, by a little and by much: only kept ones matter."""
    weights, reasons = jax.device_get(jax.jit(PPO.gradient_weights)(LOG_PROBS, ENTROPIES, INPUTS))
    seen = {Reason.CLIPPED_HIGH, Reason.CLIPPED_LOW, Reason.DUAL, Reason.KEPT}
    assert seen <= set(reasons.ravel().tolist())
    _, gradient = run(PPO)
    ratios = np.exp(LOG_PROBS - INPUTS.anchor_log_probs)
    for b, t in np.ndindex(B, T):
        if reasons[b, t] == Reason.KEPT:
            wanted = ratios[b, t] * INPUTS.advantages[b]
            np.testing.assert_allclose(weights[b, t], wanted, rtol=1e-6)
            np.testing.assert_allclose(gradient[b, t], -wanted * INPUTS.row_weights[b], rtol=1e-6)
        else:
            assert weights[b, t] == 0
            assert gradient[b, t] == 0


@pytest.mark.parametrize(
    ("ratio", "advantage", "reason"),
    [
        (1.21, 1.0, Reason.CLIPPED_HIGH),
        (1.19, 1.0, Reason.KEPT),
        (0.3, 1.0, Reason.KEPT),
        (0.79, -1.0, Reason.CLIPPED_LOW),
        (0.81, -1.0, Reason.KEPT),
        (1.55, -1.0, Reason.KEPT),
        (1.65, -1.0, Reason.DUAL),
        (3.0, 0.0, Reason.ZERO_VARIANCE),
        (1.0, 0.0, Reason.ZERO_VARIANCE),
    ],
)
def test_a_planted_token_gets_its_reason(ratio, advantage, reason):
    anchor = jnp.where(WHERE, LOG_PROBS - np.float32(np.log(ratio)), jnp.nan)
    inputs = dataclasses.replace(
        INPUTS, anchor_log_probs=anchor, advantages=np.full(B, advantage, np.float32)
    )
    weights, reasons = jax.device_get(jax.jit(PPO.gradient_weights)(LOG_PROBS, ENTROPIES, inputs))
    assert (reasons[WHERE] == reason).all()
    assert (reasons[~WHERE] == Reason.PADDING).all()
    wanted = ratio * advantage if reason == Reason.KEPT else 0
    np.testing.assert_allclose(weights[WHERE], wanted, rtol=1e-5)
    assert (weights[~WHERE] == 0).all()
    # The logged fractions count the same tokens; those without an advantage are in none.
    metrics = run(PPO, inputs=inputs)[0][1][1]
    sides = {"high": Reason.CLIPPED_HIGH, "low": Reason.CLIPPED_LOW, "dual": Reason.DUAL}
    for side, clipped in sides.items():
        mean = metrics[f"clip/fraction_{side}"]
        assert mean.total == (WHERE.sum() if reason == clipped else 0)
        assert mean.count == (0 if advantage == 0 else WHERE.sum())


def test_reasons_are_appended_only():
    """Their numbers are in the records of old runs."""
    names = "padding kept clipped_high clipped_low dual sequence_gate mismatch_mask truncated "
    for number, name in enumerate((names + "zero_variance").split()):
        assert Reason[name.upper()] == number


def test_metrics_against_numpy():
    (_, (_, metrics)), _ = run(PPO)
    policy, anchor = LOG_PROBS.astype(np.float64), INPUTS.anchor_log_probs.astype(np.float64)
    behaviour, reference = INPUTS.behaviour_log_probs, INPUTS.reference_log_probs

    def kl3(log_ratios):
        return np.exp(log_ratios) - 1 - log_ratios

    ratios, advantages = np.exp(policy - anchor), INPUTS.advantages[:, None] + 0 * policy
    moving = WHERE & (advantages != 0)
    wanted = {
        "divergence/anchor_kl3": (kl3(policy - anchor), WHERE),
        "divergence/reference_kl3": (kl3(reference - policy), WHERE),
        "mismatch/kl3": (kl3(policy - behaviour), WHERE),
        "mismatch/mean_abs": (np.abs(policy - behaviour), WHERE),
        "entropy/mean": (ENTROPIES, WHERE),
        "clip/fraction_high": ((ratios > 1.2) & (advantages > 0), moving),
        "clip/fraction_low": ((ratios < 0.8) & (advantages < 0), moving),
        "clip/fraction_dual": ((ratios > 1.6) & (advantages < 0), moving),
    }
    for name in ("anchor", "reference"):
        values, _ = wanted[f"divergence/{name}_kl3"]
        prefix = "" if name == "anchor" else "reference_"
        sums = np.where(WHERE, values, 0).sum(axis=1)
        wanted[f"divergence/{prefix}sequence_kl3"] = (sums, LENGTHS > 0)
    assert metrics.keys() == wanted.keys()
    for name, (values, where) in wanted.items():
        np.testing.assert_allclose(metrics[name].total, values[where].sum(), rtol=2e-5)
        assert metrics[name].count == where.sum()
        assert metrics[name].total > 0, name


def test_without_a_reference_nothing_is_said_of_it():
    without = dataclasses.replace(INPUTS, reference_log_probs=None)
    (_, (parts, metrics)), _ = run(PPO, inputs=without)
    assert "divergence/reference_kl3" not in metrics
    assert parts.keys() == {"loss/policy"}


@pytest.mark.parametrize("filling", [np.nan, np.inf, -np.inf, 1e30])
def test_what_lies_outside_the_mask_changes_no_bit(filling):
    filled = {
        name: np.where(WHERE, getattr(INPUTS, name), np.float32(filling))
        for name in ("behaviour_log_probs", "anchor_log_probs", "reference_log_probs")
    }
    got = run(
        BOTH,
        np.where(WHERE, LOG_PROBS, np.float32(filling)),
        dataclasses.replace(INPUTS, **filled),
        np.where(WHERE, ENTROPIES, np.float32(filling)),
    )
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(run(BOTH)), strict=True):
        assert np.array_equal(one, other)


def refuse(log_probs, reference_log_probs, *, where=None):
    raise AssertionError("the reference was looked at")


def test_at_coefficient_zero_the_penalty_is_never_called():
    objective = Objective(policy_loss=reinforce, penalty=refuse, penalty_coefficient=0.0)
    without = dataclasses.replace(INPUTS, reference_log_probs=None)
    (total, (parts, _)), _ = run(objective, inputs=without)
    assert total == parts["loss/policy"]
    assert make_objective(LossConfig()).penalty is None
    with pytest.raises(AssertionError, match="the reference was looked at"):
        run(dataclasses.replace(objective, penalty_coefficient=0.1))


def test_a_penalty_without_a_reference_is_refused():
    without = dataclasses.replace(INPUTS, reference_log_probs=None)
    with pytest.raises(ValueError, match="the penalty needs reference_log_probs, got None"):
        run(PENALISED, inputs=without)


def test_moving_away_from_the_reference_raises_the_loss():
    """And the gradient pulls back: log(policy / reference), times how far the policy has moved."""
    quiet = dataclasses.replace(INPUTS, advantages=np.zeros(B, np.float32))
    (total, (parts, _)), gradient = run(PENALISED, inputs=quiet)
    away = LOG_PROBS + 0.3 * np.sign(LOG_PROBS - INPUTS.reference_log_probs)
    same_weights = dataclasses.replace(
        quiet, behaviour_log_probs=INPUTS.behaviour_log_probs + away - LOG_PROBS
    )
    assert run(PENALISED, away, same_weights)[0][0] > total > 0
    assert parts["loss/policy"] == 0
    moved = np.exp(LOG_PROBS - INPUTS.behaviour_log_probs)
    wanted = 0.25 * INPUTS.row_weights[:, None] * moved * (LOG_PROBS - INPUTS.reference_log_probs)
    np.testing.assert_allclose(gradient, np.where(WHERE, wanted, 0), rtol=1e-5, atol=1e-7)


def test_the_penalty_is_weighted_by_how_far_the_policy_moved_from_its_samples():
    doubled = dataclasses.replace(
        INPUTS, behaviour_log_probs=INPUTS.behaviour_log_probs - np.float32(np.log(2))
    )
    (_, (one, _)), _ = run(PENALISED)
    (_, (two, _)), _ = run(PENALISED, inputs=doubled)
    np.testing.assert_allclose(two["loss/penalty"], 2 * one["loss/penalty"], rtol=1e-5)
    assert two["loss/policy"] == one["loss/policy"]


def test_at_the_reference_there_is_neither_value_nor_gradient():
    at = dataclasses.replace(
        INPUTS, reference_log_probs=LOG_PROBS, advantages=np.zeros(B, np.float32)
    )
    (total, _), gradient = run(PENALISED, inputs=at)
    assert total == 0
    assert (gradient == 0).all()


def test_arrays_a_loss_needs_are_passed_to_it():
    def per_group(log_probs, anchor_log_probs, advantages, *, where=None, group_ids):
        return log_probs * group_ids[:, None].astype(log_probs.dtype)

    objective = Objective(policy_loss=per_group, needs=("group_ids",))
    _, gradient = run(objective)
    assert np.array_equal(gradient, per_token(INPUTS.group_ids * INPUTS.row_weights))


@pytest.mark.parametrize("inputs", [INPUTS, ON_POLICY], ids=["given anchor", "live anchor"])
def test_an_anchor_carries_no_gradient_into_anyones_loss(inputs):
    """Also where the loss forgets to stop it; at ratio 1 the gradient would vanish."""

    def surrogate(log_probs, anchor_log_probs, advantages, *, where=None):
        return -jnp.exp(log_probs - anchor_log_probs) * advantages[:, None]

    _, gradient = run(Objective(policy_loss=surrogate), inputs=inputs)
    anchor = LOG_PROBS if inputs is ON_POLICY else INPUTS.anchor_log_probs
    wanted = -np.exp(LOG_PROBS - anchor) * (INPUTS.advantages * INPUTS.row_weights)[:, None]
    np.testing.assert_allclose(gradient, np.where(WHERE, wanted, 0), rtol=1e-6)


def test_a_sampler_that_recorded_less_than_float32_is_welcome():
    half = dataclasses.replace(
        INPUTS, behaviour_log_probs=jnp.asarray(INPUTS.behaviour_log_probs, jnp.bfloat16)
    )
    (total, (_, metrics)), _ = run(PENALISED, inputs=half)
    assert total.dtype == metrics["mismatch/kl3"].total.dtype == np.float32


def test_a_row_of_weight_zero_may_hold_anything():
    """No trainable token, no weight: nothing of the row gets through."""
    log_probs = LOG_PROBS.copy()
    log_probs[2] = np.nan
    one, other = run(PENALISED, log_probs), run(PENALISED)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.array_equal(a, b)


def test_an_objective_is_built_by_name():
    objective = make_objective(
        LossConfig(
            name="ppo_clip",
            options={"clip_high": 0.28},
            penalty=PenaltyConfig(name="k3", coefficient=0.1),
        )
    )
    assert objective.policy_loss.func is ppo_clip
    assert objective.policy_loss.keywords == {"clip_high": 0.28}
    assert objective.penalty_coefficient == 0.1
    assert PENALISED.penalty.func is reverse_kl
    with pytest.raises(LookupError, match="did you mean 'reverse_kl'"):
        make_objective(LossConfig(penalty=PenaltyConfig(name="reverse_kll", coefficient=0.1)))
    with pytest.raises(TypeError, match="length"):
        make_objective(LossConfig(aggregation=Choice(name="sequence_mean_constant")))
    with pytest.raises(ValueError, match="coefficient must not be negative"):
        PenaltyConfig(coefficient=-0.1)


REQUIRED = {"adrpo": {"beta": 0.1}, "trust_region": {"divergence": "tv", "delta": 0.1}}
SUPPLIES = {
    "rewards": np.array([1, 0, 1, 0, 1, 0], np.float32),
    "anchor_entropies": ENTROPIES * np.float32(1.02),
    "behaviour_top_log_probs": np.full((B, T, 2), np.log(0.3), np.float32),
    "top_log_probs": np.full((B, T, 2), np.log(0.32), np.float32),
    "off_policy": np.arange(B)[:, None] % 3 == np.zeros(T, int),
}


@pytest.mark.parametrize("name", LOSSES.names())
def test_every_loss_gets_what_it_needs_or_is_refused_when_the_config_is_read(name):
    """With an anchor that was passed over and one that is the live policy."""
    config = LossConfig(name=name, options=REQUIRED.get(name, {}))
    if unknown := set(LOSSES.needs(name)) - SUPPLIED:
        with pytest.raises(LookupError, match=f"loss '{name}' needs {min(unknown)}"):
            make_objective(config)
        return
    objective = make_objective(config)
    inputs = dataclasses.replace(INPUTS, key=jax.random.key(0), **SUPPLIES)
    for case in (inputs, dataclasses.replace(inputs, anchor_log_probs=None, anchor_entropies=None)):
        (value, (_, metrics)), gradient = run(objective, inputs=case)
        assert np.isfinite(value)
        assert np.all(np.isfinite(gradient))
        assert np.any(gradient[WHERE] != 0)
        assert np.all(gradient[~WHERE] == 0)
        assert np.isfinite(metrics["entropy/mean"].total)


def test_a_loss_without_its_array_says_which():
    needing = next(name for name in LOSSES.names() if "rewards" in LOSSES.needs(name))
    with pytest.raises(ValueError, match="the policy loss needs rewards, got None"):
        run(make_objective(LossConfig(name=needing)))
