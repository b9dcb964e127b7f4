"""One optimiser step on fresh rollouts: the plain policy gradient, ratios exactly 1."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses.config import LossConfig, make_objective
from jaxgrpo.models import Policy, logits
from jaxgrpo.training import make_loss, score

# Half the time to compile.
FAST = {"xla_backend_optimization_level": 0}

# Ends early, never ends, all masked, empty, ends in the last slot; all but the empty one are seven
# tokens long, so that the plain loop below is compiled once.
ROWS = np.array([2, 4, 5, 3, 0])
PROMPT_LENGTHS = np.array([4, 1, 3, 2, 1], np.int32)


@pytest.fixture(scope="module")
def setting(steps, make_batch, model):
    """Model, params and batch in float64, no anchor."""
    model = dataclasses.replace(model, compute_dtype="float64", parameter_dtype="float64")
    batch = dataclasses.replace(
        make_batch("sequence_mean_token_mean", "float64").take(ROWS),
        prompt_lengths=PROMPT_LENGTHS,
        anchor_log_probs=None,
        reference_log_probs=None,
    )
    params = jax.tree.map(lambda leaf: leaf.astype(np.float64), steps.params)
    return model, params, batch


@pytest.fixture(scope="module")
def wanted(setting, temperature):
    """(log-prob by place, gradient) of -A log p, a bare sequence at a time, a token at a time."""
    model, params, batch = setting

    @functools.partial(jax.jit, compiler_options=FAST)
    @functools.partial(jax.grad, has_aux=True)
    def gradient_of(params, tokens, weights):
        rows = logits(Policy(model, params), tokens[None])[0] / temperature
        total, log_probs = 0.0, []
        for t in range(1, 7):
            row = rows[t - 1]
            log_probs.append(row[tokens[t]] - jnp.log(jnp.sum(jnp.exp(row))))
            total = total + weights[t] * log_probs[-1]
        return total, log_probs

    places, gradient = {}, jax.tree.map(np.zeros_like, params)
    with jax.enable_x64(True):
        for b in (0, 1, 4):
            prompt = batch.prompt_tokens[b, 4 - PROMPT_LENGTHS[b] :]
            completion = batch.completion_tokens[b, : batch.completion_lengths[b]]
            weights = np.zeros(7)
            weights[len(prompt) :] = -batch.row_weights[b] * batch.advantages[b]
            tokens = np.concatenate([prompt, completion])
            part, log_probs = jax.device_get(gradient_of(params, tokens, weights))
            gradient = jax.tree.map(np.add, gradient, part)
            for t in range(len(completion)):
                places[b, t] = log_probs[len(prompt) + t - 1]
    return places, gradient


def test_scores_are_those_of_the_literal_loop(setting, wanted, temperature):
    model, params, batch = setting
    with jax.enable_x64(True):
        scoring = jax.jit(
            lambda params: score(model, params, batch, temperature=temperature, chunk_tokens=7),
            compiler_options=FAST,
        )
        scores = jax.device_get(scoring(params))
    got, entropies = scores.log_probs, scores.entropies
    assert len(wanted[0]) == 3 + 6 + 6
    for (b, t), log_prob in wanted[0].items():
        np.testing.assert_allclose(got[b, t], log_prob, rtol=1e-12)
    assert np.isfinite(got).all()
    assert ((entropies > 0) & (entropies <= np.log(20))).all()


def test_the_gradient_is_that_of_a_log_p(setting, wanted, temperature):
    """Whatever the trust region, were it empty: nothing has moved yet."""
    model, params, batch = setting
    objective = make_objective(LossConfig(name="atr", options={"delta": 0.0}))
    with jax.enable_x64(True):
        loss = make_loss(model, objective, temperature=temperature, chunk_tokens=7)
        (total, (_, metrics)), got = jax.device_get(
            jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=FAST)(params, batch)
        )
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 + 1e-12 * np.abs(other).max())
    # At ratio 1 the loss is minus the weighted advantages, exactly.
    tokens = batch.trainable.sum(axis=1)
    np.testing.assert_allclose(total, -np.sum(batch.row_weights * batch.advantages * tokens))
    for metric in ("divergence/anchor_kl3", "clip/fraction_low", "clip/fraction_high"):
        assert metrics[metric].total == 0
    assert metrics["divergence/anchor_kl3"].count == tokens.sum()
