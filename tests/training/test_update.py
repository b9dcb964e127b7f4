"""Several updates in a row: the state given away and back, and tokens that get clipped."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.losses.config import LossConfig, make_objective
from jaxgrpo.losses.objective import Reason
from jaxgrpo.metrics.mean import Mean, as_floats
from jaxgrpo.sharding import batch_sharding
from jaxgrpo.training import (
    Batch,
    OptimizerConfig,
    TrainState,
    abstract_train_state,
    init_train_state,
    jit_update,
    make_loss,
    make_optimizer,
    make_trace,
    make_update_step,
    state_shardings,
)


@pytest.fixture(scope="module")
def objective():
    return make_objective(LossConfig(name="ppo_clip", options={"dual_clip": 2.0}))


@pytest.fixture(scope="module")
def run(steps, model, placed, temperature, objective):
    """`mesh, batch -> (states, metrics, compiled programs)` of three updates on one batch."""
    optimizer = make_optimizer(OptimizerConfig(learning_rate=0.003), 10)
    loss = make_loss(model, objective, temperature=temperature)

    @functools.cache
    def compiled(mesh):
        step = make_update_step(loss, optimizer)
        return jit_update(step, state_shardings(model, optimizer, mesh))

    def run(mesh, batch):
        params = placed(jax.tree.map(np.array, steps.params), mesh)
        states, metrics, programs = [init_train_state(model, params, optimizer, mesh)], [], []
        batch, update = jax.device_put(batch, batch_sharding(mesh)), compiled(mesh)
        for _ in range(3):
            state, logged = update(states[-1], batch)
            states.append(state)
            metrics.append(as_floats(logged))
            programs.append(update._cache_size())
        return states, metrics, programs

    run.abstract = functools.partial(abstract_train_state, model, optimizer)
    return run


@pytest.fixture(scope="module")
def history(run, make_batch, mesh_of):
    """On four devices."""
    return run(mesh_of(1, 2, 2), make_batch())


@pytest.fixture(scope="module")
def abstract(run, mesh_of):
    return run.abstract(mesh_of(1, 2, 2))


def test_nothing_is_compiled_after_the_first_update(history):
    assert history[2] == [1, 1, 1]


def test_old_states_are_gone_and_the_last_one_is_there(history):
    states = history[0]
    for state in states[:-1]:
        assert all(leaf.is_deleted() for leaf in jax.tree.leaves((state.params, state.opt_state)))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(states[-1]))
    assert int(states[-1].step) == 3


def test_a_state_keeps_shapes_dtypes_and_layout(history, abstract):
    for state in history[0]:
        assert jax.tree.structure(state) == jax.tree.structure(abstract)
        for leaf, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(abstract), strict=True):
            assert (leaf.shape, leaf.dtype, leaf.weak_type) == (wanted.shape, wanted.dtype, False)
            assert leaf.sharding == wanted.sharding


def test_moments_lie_with_their_parameters(abstract):
    mean = abstract.opt_state[1][0].mu
    for moment, param in zip(jax.tree.leaves(mean), jax.tree.leaves(abstract.params), strict=True):
        assert (moment.shape, moment.sharding) == (param.shape, param.sharding)


def test_updates_lower_the_loss(history):
    """Descent, not ascent."""
    losses = [values["loss/total"] for values in history[1]]
    assert losses[2] < losses[1] < losses[0]


def test_a_run_on_one_device_is_the_same_run(history, run, make_batch, mesh_of):
    _, metrics, programs = run(mesh_of(), make_batch())
    assert programs == [1, 1, 1]
    for got, wanted in zip(metrics, history[1], strict=True):
        assert got.keys() == wanted.keys()
        for name, value in got.items():
            np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module")
def rollout(steps, make_batch, model, temperature, objective):
    """A batch sampled from the policy, as far as log-probs tell, and its trace function."""
    batch = make_batch()
    trace = jax.jit(make_trace(model, objective, temperature=temperature))
    log_probs = np.asarray(trace(steps.params, batch).log_probs)
    advantages = np.where(batch.advantages == 0, 0, np.sign(batch.advantages)).astype(np.float32)
    batch = dataclasses.replace(
        batch,
        behaviour_log_probs=log_probs,
        anchor_log_probs=log_probs,
        advantages=advantages,
    )
    return batch, trace


@pytest.fixture(scope="module")
def moved(run, rollout, mesh_of):
    """Params after three steps on one rollout, and the metrics of each."""
    states, metrics, _ = run(mesh_of(), rollout[0])
    return states[-1].params, metrics


def test_the_first_of_several_steps_clips_nothing_and_the_later_ones_do(moved):
    fractions = [(values["clip/fraction_high"], values["clip/fraction_low"]) for values in moved[1]]
    assert fractions[0] == (0, 0)
    assert moved[1][0]["divergence/anchor_kl3"] < 1e-9
    assert min(fractions[2]) > 0.02


def test_clipped_tokens_have_no_gradient_at_all(moved, rollout, objective):
    """And moving one of them, be it far, changes the loss by nothing."""
    batch, trace = rollout
    traced = jax.device_get(trace(moved[0], batch))
    inputs = batch.token_inputs()

    @jax.jit
    def loss(log_probs):
        return objective(log_probs, jnp.zeros_like(log_probs), inputs)[0]

    gradient = np.asarray(jax.grad(loss)(traced.log_probs))
    clipped = np.isin(traced.reasons, [Reason.CLIPPED_HIGH, Reason.CLIPPED_LOW])
    kept = traced.reasons == Reason.KEPT
    assert clipped.sum() > 5
    assert kept.sum() > 3
    assert (gradient[clipped] == 0).all()
    assert (gradient[kept] != 0).all()
    ratios = np.exp(traced.log_probs - batch.anchor_log_probs)
    high, low = traced.reasons == Reason.CLIPPED_HIGH, traced.reasons == Reason.CLIPPED_LOW
    assert (ratios[high] > 1.2).all()
    assert (ratios[low] < 0.8).all()
    further = traced.log_probs + np.where(high, 0.5, np.where(low, -0.5, 0)).astype(np.float32)
    assert loss(further) == loss(traced.log_probs)
    back = np.where(high, batch.anchor_log_probs, traced.log_probs)
    assert loss(back) > loss(traced.log_probs)


def test_the_trace_is_what_the_update_sees(moved, rollout, steps):
    """Weights are -A w on kept tokens; padding, masked and zero-variance tokens have none."""
    batch, trace = rollout
    for params in (steps.params, moved[0]):
        traced = jax.device_get(trace(params, batch))
        ratios = np.exp(traced.log_probs - batch.anchor_log_probs)
        kept = traced.reasons == Reason.KEPT
        wanted = np.where(kept, ratios * batch.advantages[:, None], 0)
        np.testing.assert_allclose(traced.gradient_weights, wanted, rtol=1e-5)
        assert np.array_equal(traced.gradient_weights == 0, ~kept)
        assert np.array_equal(traced.reasons == Reason.PADDING, ~batch.trainable)
        level = batch.trainable & (batch.advantages == 0)[:, None]
        assert np.array_equal(traced.reasons == Reason.ZERO_VARIANCE, level)


def test_planted_tokens_get_their_reason(rollout, steps):
    """Ratios and advantages set by hand, through the anchor."""
    batch, trace = rollout
    log_probs = np.asarray(trace(steps.params, batch).log_probs)
    anchor = log_probs.copy()
    planted = {
        # (row, token): (ratio, advantage, reason), clips 0.8 and 1.2, dual clip 2
        (0, 0): (1.25, 1.0, Reason.CLIPPED_HIGH),
        (0, 1): (1.15, 1.0, Reason.KEPT),
        (0, 2): (0.1, 1.0, Reason.KEPT),
        (4, 0): (0.7, -1.0, Reason.CLIPPED_LOW),
        (4, 1): (0.85, -1.0, Reason.KEPT),
        (4, 2): (1.9, -1.0, Reason.KEPT),
        (4, 3): (2.1, -1.0, Reason.DUAL),
        (8, 0): (5.0, 0.0, Reason.ZERO_VARIANCE),
        (5, 0): (5.0, 1.0, Reason.PADDING),
        (1, 3): (5.0, 1.0, Reason.PADDING),
    }
    advantages = batch.advantages.copy()
    for (b, t), (ratio, advantage, _) in planted.items():
        anchor[b, t] -= np.log(ratio)
        advantages[b] = advantage
    changed = dataclasses.replace(batch, anchor_log_probs=anchor, advantages=advantages)
    traced = jax.device_get(trace(steps.params, changed))
    for (b, t), (ratio, advantage, reason) in planted.items():
        assert traced.reasons[b, t] == reason, (b, t)
        weight = ratio * advantage if reason == Reason.KEPT else 0
        np.testing.assert_allclose(traced.gradient_weights[b, t], weight, rtol=1e-5)


def test_micro_batches_must_divide_the_rows(rollout, model, objective, steps):
    optimizer = make_optimizer(OptimizerConfig(), 1)
    update = make_update_step(make_loss(model, objective), optimizer, micro_batches=3)
    state = TrainState(steps.params, optimizer.init(steps.params), jnp.int32(0))
    with pytest.raises(ValueError, match="micro_batches must divide 16 rows, got 3"):
        update(state, rollout[0])


def test_gradients_of_bfloat16_parameters_are_summed_in_float32():
    """A hundred parts of 1/512 on top of 1: bfloat16 would drop every one of them."""
    parts = np.full(128, 1 / 512, np.float32)
    parts[0] = 1.0

    def loss(params, batch, reference):
        total = jnp.sum(params["w"].astype(jnp.float32) * batch.advantages)
        return total, ({}, {"x": Mean.of(batch.advantages)})

    nothing = np.zeros((128, 1), np.float32)
    batch = Batch(
        prompt_tokens=nothing,
        prompt_lengths=nothing[:, 0],
        completion_tokens=nothing,
        completion_lengths=nothing[:, 0],
        trainable=nothing,
        behaviour_log_probs=nothing,
        advantages=parts,
        group_ids=nothing[:, 0],
        row_weights=nothing[:, 0],
    )
    update = jax.jit(make_update_step(loss, optax.sgd(1.0), micro_batches=128))
    params = {"w": jnp.zeros((), jnp.bfloat16)}
    state, metrics = update(TrainState(params, optax.sgd(1.0).init(params), jnp.int32(0)), batch)
    assert state.params["w"].dtype == jnp.bfloat16
    assert float(state.params["w"]) == -1.25  # 1 + 127/512, rounded once
    assert int(metrics["x"].count) == 128
