import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.models import abstract_params
from jaxgrpo.training import OptimizerConfig, TrainingConfig, learning_rate, make_optimizer


def rates(steps, total, **options):
    schedule = learning_rate(OptimizerConfig(learning_rate=2.0, **options), total)
    return [float(schedule(step)) for step in steps]


def test_constant():
    assert rates([0, 5, 99, 1000], 100) == [2, 2, 2, 2]


def test_every_schedule_rises_first_and_its_first_step_moves():
    for schedule in ("constant", "linear", "cosine"):
        got = rates(range(5), 10, schedule=schedule, warmup_steps=4)
        np.testing.assert_allclose(got, [0.5, 1.0, 1.5, 2.0, 2.0], rtol=1e-6)
    assert rates([0, 1], 10, warmup_steps=1) == [2, 2]


def test_linear_falls_evenly_to_its_end():
    got = rates(range(13), 12, schedule="linear", warmup_steps=2, final_fraction=0.5)
    wanted = [1.0, 2.0, *(2 - step / 10 for step in range(11))]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_cosine_falls_to_its_end():
    got = rates([0, 2, 4, 8, 50], 8, schedule="cosine", final_fraction=0.25)
    half = np.cos(np.pi / 4) / 2 + 0.5
    wanted = [2.0, 2 * (0.75 * half + 0.25), 2 * (0.75 * 0.5 + 0.25), 0.5, 0.5]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_last_step_still_moves(schedule):
    assert rates([9], 10, schedule=schedule)[0] > 0.01


def adamw(config, gradients, value, decayed):
    """AdamW on one number, literally (arXiv:1711.05101, algorithm 2)."""
    mean = square = 0.0
    for step, gradient in enumerate(gradients, 1):
        mean = config.b1 * mean + (1 - config.b1) * gradient
        square = config.b2 * square + (1 - config.b2) * gradient**2
        corrected = mean / (1 - config.b1**step), square / (1 - config.b2**step)
        move = corrected[0] / (np.sqrt(corrected[1]) + config.epsilon)
        value -= config.learning_rate * (move + decayed * config.weight_decay * value)
    return value


def test_adamw_literally():
    config = OptimizerConfig(
        learning_rate=0.1, b1=0.8, b2=0.95, epsilon=0.01, weight_decay=0.3, max_grad_norm=0.0
    )
    optimizer = make_optimizer(config, 10)
    params = {"query": jnp.float32(0.7), "query_norm": jnp.float32(0.7)}
    state = optimizer.init(params)
    gradients = [0.5, -3.0, 0.2]
    for gradient in gradients:
        updates, state = optimizer.update(
            dict.fromkeys(params, jnp.float32(gradient)), state, params
        )
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(params["query"], adamw(config, gradients, 0.7, True), rtol=1e-5)
    np.testing.assert_allclose(
        params["query_norm"], adamw(config, gradients, 0.7, False), rtol=1e-5
    )


def test_weight_decay_is_for_matrices(model):
    model = dataclasses.replace(model, qk_norm=True, attention_bias=True, tied_embeddings=False)
    optimizer = make_optimizer(OptimizerConfig(learning_rate=0.1, weight_decay=0.5), 10)
    params = jax.tree.map(lambda leaf: jnp.ones(1), abstract_params(model))
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    blocks = updates.pop("blocks")
    moved = {name for name, leaf in {**updates, **blocks}.items() if np.all(leaf == -0.05)}
    still = {name for name, leaf in {**updates, **blocks}.items() if np.all(leaf == 0)}
    assert moved == {
        *("embedding", "unembedding", "query", "key", "value", "output", "gate", "up", "down"),
    }
    assert still == {
        *("attention_norm", "mlp_norm", "final_norm", "query_norm", "key_norm"),
        *("query_bias", "key_bias", "value_bias"),
    }


@pytest.mark.parametrize(("limit", "scale"), [(1.0, 1 / 5), (5.0, 1.0), (100.0, 1.0), (0.0, 1.0)])
def test_gradients_longer_than_the_limit_are_scaled_to_it(limit, scale):
    optimizer = make_optimizer(OptimizerConfig(b1=0.0, max_grad_norm=limit), 10)
    params = {"query": jnp.zeros(1), "key": jnp.zeros(1)}
    gradient = {"query": jnp.array([3.0]), "key": jnp.array([-4.0])}
    _, state = optimizer.update(gradient, optimizer.init(params), params)
    mean = optax.tree_utils.tree_get(state, "mu")
    np.testing.assert_allclose(mean["query"], [3 * scale], rtol=1e-6)
    np.testing.assert_allclose(mean["key"], [-4 * scale], rtol=1e-6)


def test_states_of_all_configs_have_one_structure():
    params = {"query": jnp.zeros(3)}
    states = [
        jax.tree.structure(make_optimizer(OptimizerConfig(**options), 5).init(params))
        for options in (
            {},
            {"schedule": "cosine", "warmup_steps": 2},
            {"max_grad_norm": 0.0},
            {"weight_decay": 0.1},
        )
    ]
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize(
    ("make", "field", "value", "message"),
    [
        (OptimizerConfig, "learning_rate", -1.0, "learning_rate must not be negative"),
        (OptimizerConfig, "b2", 1.0, r"b2 must be in \[0, 1\), got 1.0"),
        (OptimizerConfig, "final_fraction", 2.0, r"final_fraction must be in \[0, 1\]"),
        (TrainingConfig, "steps", -1, "steps must be at least 0, got -1"),
        (TrainingConfig, "micro_batches", 0, "micro_batches must be at least 1, got 0"),
        (TrainingConfig, "max_mismatch", -0.1, "max_mismatch must not be negative"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, field, value, message):
    with pytest.raises(ValueError, match=message):
        make(**{field: value})


def test_a_run_may_have_no_steps():
    assert TrainingConfig(steps=0).updates == 1
    assert TrainingConfig(minibatches=4, epochs=3).updates == 12
