"""The exact KL to a reference in the update: one number, however the batch is split and padded."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.losses import ROW_PENALTIES
from jaxgrpo.losses.config import LossConfig, PenaltyConfig, make_objective
from jaxgrpo.models import Policy, abstract_params, logits
from jaxgrpo.sharding import batch_sharding
from jaxgrpo.training import TrainState, make_loss, make_update_step

COEFFICIENT = 0.3
FAST = {"xla_backend_optimization_level": 0}
# Moves nothing and keeps the gradient, to be looked at.
RECORDER = optax.GradientTransformation(
    init=lambda params: jax.tree.map(jnp.zeros_like, params),
    update=lambda grads, state, params=None: (jax.tree.map(jnp.zeros_like, grads), grads),
)
every = pytest.mark.parametrize("name", ROW_PENALTIES.names())


def objective_of(name, **penalty):
    config = PenaltyConfig(name=name, coefficient=COEFFICIENT, **penalty)
    return make_objective(LossConfig(name="reinforce", penalty=config))


class Updates:
    """One optimiser step of REINFORCE with a penalty, away from the reference."""

    def __init__(self, model, params, temperature, mesh_of, placed):
        self.mesh_of, self.placed, self.temperature = mesh_of, placed, temperature
        self.model = dataclasses.replace(model, compute_dtype="float64", parameter_dtype="float64")
        random = np.random.default_rng(4)
        self.params = jax.tree.map(np.float64, params)
        self.reference = jax.tree.map(
            lambda leaf: leaf + 0.1 * random.normal(size=leaf.shape), self.params
        )

    @functools.cache  # noqa: B019
    def compiled(self, objective, shape, micro_batches):
        mesh = self.mesh_of(*shape)
        loss = make_loss(self.model, objective, temperature=self.temperature, chunk_tokens=24)
        step = make_update_step(loss, RECORDER, micro_batches=micro_batches)
        params = self.placed(self.params, mesh, self.model)
        reference = self.placed(self.reference, mesh, self.model)
        state = TrainState(params, RECORDER.init(params), jnp.int32(0))
        return jax.jit(step, compiler_options=FAST), state, reference, batch_sharding(mesh)

    def __call__(self, batch, objective, shape=(1, 1, 1), micro_batches=1, compare=True):
        """(gradient, {name: (total, count)})."""
        with jax.enable_x64(True):
            step, state, reference, layout = self.compiled(objective, shape, micro_batches)
            placed = jax.device_put(batch, layout)
            state, metrics = jax.device_get(step(state, placed, reference if compare else None))
        return state.opt_state, {key: (m.total, m.count) for key, m in metrics.items()}


@pytest.fixture(scope="module")
def updates(model, steps, temperature, mesh_of, placed):
    return Updates(model, steps.params, temperature, mesh_of, placed)


@pytest.fixture(scope="module")
def batch(make_batch):
    whole = make_batch("token_mean", "float64")
    return dataclasses.replace(whole, anchor_log_probs=None, reference_log_probs=None)


OBJECTIVES = {name: objective_of(name) for name in ROW_PENALTIES.names()}


def naive(updates, batch, name):
    """Loss, penalty and KL of whole logits and their gradient by autodiff, weights and all."""
    tokens = np.concatenate([batch.prompt_tokens, batch.completion_tokens], axis=1)
    width = batch.prompt_tokens.shape[1]
    mask = np.concatenate(
        [
            np.arange(width)[None] >= width - batch.prompt_lengths[:, None],
            np.arange(6)[None] < batch.completion_lengths[:, None],
        ],
        axis=1,
    )

    def rows_of(params):
        rows = logits(Policy(updates.model, params), tokens, mask=mask)[:, width - 1 : -1]
        return jax.nn.log_softmax(rows / updates.temperature)

    def loss(params, reference):
        log_p, log_r = rows_of(params), rows_of(reference)
        kls = {
            "exact_reverse_kl": jnp.sum(jnp.exp(log_p) * (log_p - log_r), -1),
            "exact_forward_kl": jnp.sum(jnp.exp(log_r) * (log_r - log_p), -1),
        }
        index = batch.completion_tokens[..., None]
        own = jnp.take_along_axis(log_p, index, axis=-1)[..., 0]
        weights = np.where(batch.trainable, np.float64(batch.row_weights)[:, None], 0)
        policy = -jnp.sum(weights * batch.advantages[:, None] * own)
        penalty = COEFFICIENT * jnp.sum(weights * kls[name])
        return policy + penalty, (penalty, jnp.sum(kls["exact_reverse_kl"] * batch.trainable))

    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=FAST)
        return jax.device_get(both(updates.params, updates.reference))


@every
def test_loss_and_gradient_are_those_of_whole_logits(name, updates, batch):
    gradient, metrics = updates(batch, OBJECTIVES[name])
    (total, (penalty, kl)), wanted = naive(updates, batch, name)
    np.testing.assert_allclose(metrics["loss/total"][0], total, rtol=1e-12)
    np.testing.assert_allclose(metrics["loss/penalty"][0], penalty, rtol=1e-12)
    assert penalty > 0.01
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12 * np.abs(other).max())
    logged, count = metrics["divergence/reference_exact_kl"]
    np.testing.assert_allclose(logged, kl, rtol=1e-12)
    assert count == batch.trainable.sum()
    logged, count = metrics["divergence/reference_sequence_exact_kl"]
    np.testing.assert_allclose(logged, kl, rtol=1e-12)
    assert count == batch.trainable.any(axis=1).sum()


@every
@pytest.mark.parametrize(
    ("shape", "micro_batches"), [((1, 1, 1), 4), ((2, 2, 2), 2), ((1, 8, 1), 1)], ids=str
)
def test_splits_add_up(shape, micro_batches, name, updates, batch):
    gradient, metrics = updates(batch, OBJECTIVES[name], shape, micro_batches)
    wanted = updates(batch, OBJECTIVES[name])
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())
    for key, (total, count) in wanted[1].items():
        np.testing.assert_allclose(metrics[key][0], total, rtol=1e-12, atol=1e-12, err_msg=key)
        assert metrics[key][1] == count


@every
def test_what_lies_in_padding_changes_no_bit(name, updates, batch):
    outside = ~(np.arange(6)[None] < batch.completion_lengths[:, None])
    before = ~(np.arange(4)[None] >= 4 - batch.prompt_lengths[:, None])
    wanted = updates(batch, OBJECTIVES[name])
    for value in (-1, 20, 2**31 - 1):
        spoilt = dataclasses.replace(
            batch,
            completion_tokens=np.where(outside, np.int32(value), batch.completion_tokens),
            prompt_tokens=np.where(before, np.int32(value), batch.prompt_tokens),
            behaviour_log_probs=np.where(batch.trainable, batch.behaviour_log_probs, np.nan),
        )
        got = updates(spoilt, OBJECTIVES[name])
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            assert np.array_equal(one, other)


def test_measured_only_it_changes_no_gradient(updates, batch):
    bare = make_objective(LossConfig(name="reinforce"))
    config = LossConfig(name="reinforce", penalty=PenaltyConfig(measure_exact=True))
    measured = make_objective(config)
    assert measured.compares_rows
    wanted, plain = updates(batch, bare, compare=False)
    got, metrics = updates(batch, measured)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.array_equal(one, other)
    assert metrics.keys() - plain.keys() == {
        "divergence/reference_exact_kl",
        "divergence/reference_sequence_exact_kl",
    }
    exact = updates(batch, OBJECTIVES["exact_reverse_kl"])[1]
    key = "divergence/reference_exact_kl"
    np.testing.assert_allclose(metrics[key][0], exact[key][0], rtol=1e-12)


def test_the_reference_is_an_argument_only_where_it_is_compared_with(updates, batch):
    def arguments(objective, reference):
        loss = make_loss(updates.model, objective)
        step = jax.jit(make_update_step(loss, RECORDER))
        with jax.enable_x64(True):
            params = abstract_params(updates.model)
            state = TrainState(params, params, jax.ShapeDtypeStruct((), jnp.int32))
            return len(jax.tree.leaves(step.lower(state, batch, reference).in_avals))

    params = abstract_params(updates.model)
    leaves = len(jax.tree.leaves(params))
    bare = make_objective(LossConfig(name="reinforce"))
    less = arguments(bare, None)
    assert arguments(OBJECTIVES["exact_reverse_kl"], params) == less + leaves
    with pytest.raises(ValueError, match="needs the reference's states"):
        arguments(OBJECTIVES["exact_reverse_kl"], None)


def test_descending_it_leads_to_the_reference(updates, batch):
    """The sign: from a policy that has moved, steps on the penalty alone bring the KL down."""
    still = dataclasses.replace(batch, advantages=np.zeros(16))
    objective = OBJECTIVES["exact_reverse_kl"]
    loss = make_loss(updates.model, objective, temperature=updates.temperature, chunk_tokens=24)
    with jax.enable_x64(True):
        optimizer = optax.adam(3e-3)
        step = jax.jit(make_update_step(loss, optimizer), compiler_options=FAST)
        params = jax.tree.map(jnp.asarray, updates.params)
        state, kls = TrainState(params, optimizer.init(params), jnp.int32(0)), []
        for _ in range(20):
            state, metrics = step(state, still, updates.reference)
            kls.append(float(metrics["divergence/reference_exact_kl"].value()))
    assert kls[-1] < kls[0] / 4
