"""DPPO on the sampler's likeliest tokens: what is recorded and gathered gives NumPy's own mask."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxgrpo.losses.config import LossConfig, make_objective
from jaxgrpo.losses.reasons import Reason
from jaxgrpo.models import Policy, logits
from jaxgrpo.sampling import Prompts, Sampler, SamplingConfig
from jaxgrpo.training import Batch, make_loss, make_trace, score

V, WIDTH, LENGTH, GROUP = 20, 4, 6, 4
DELTAS = {"dppo_topk_tv": 0.12, "dppo_topk_kl": 0.05}
FAST = {"xla_backend_optimization_level": 0}


@pytest.fixture(scope="module")
def policies(steps):
    """The sampler's parameters, and those of a policy that has moved on."""
    random = np.random.default_rng(3)
    moved = jax.tree.map(
        lambda leaf: leaf + 0.06 * random.normal(size=leaf.shape).astype(np.float32), steps.params
    )
    return steps.params, moved


@pytest.fixture(scope="module")
def make_rollout(policies, model, mesh_of, temperature):
    """(batch of a sampler that records K rows), once each K."""
    batches = {}
    random = np.random.default_rng(1)
    lengths = np.array([4, 1, 3, 2], np.int32)
    tokens = random.integers(0, V, (4, WIDTH)).astype(np.int32)
    prompts = Prompts(tokens, lengths, np.arange(4, dtype=np.int32))

    def make(tops):
        if tops not in batches:
            config = SamplingConfig(max_new_tokens=LENGTH, temperature=temperature)
            sampler = Sampler(model, config, stop_ids=[1], pad_id=0, mesh=mesh_of(), tops=tops)
            got = sampler(policies[0], prompts, key=jax.random.key(0), group_size=GROUP)
            rows = len(got.lengths)
            inside = np.arange(LENGTH)[None] < got.lengths[:, None]
            batches[tops] = Batch(
                prompt_tokens=np.repeat(tokens, GROUP, axis=0),
                prompt_lengths=np.repeat(lengths, GROUP),
                completion_tokens=got.tokens,
                completion_lengths=got.lengths,
                trainable=inside & (np.arange(rows) != 5)[:, None],
                behaviour_log_probs=got.log_probs,
                anchor_log_probs=got.log_probs,
                advantages=np.random.default_rng(2).normal(size=rows).astype(np.float32),
                group_ids=np.repeat(np.arange(4, dtype=np.int32), GROUP),
                row_weights=np.full(rows, 0.125, np.float32),
                top_ids=got.top_ids,
                behaviour_top_log_probs=got.top_log_probs,
            )
        return batches[tops]

    return make


@pytest.fixture(scope="module")
def distributions(policies, make_rollout, model, temperature):
    """[B, T, V] of sampler and policy, from whole sequences, in float64."""
    batch = make_rollout(V)
    tokens = np.concatenate([batch.prompt_tokens, batch.completion_tokens], axis=1)
    mask = np.arange(WIDTH + LENGTH)[None] >= WIDTH - batch.prompt_lengths[:, None]
    found = []
    for params in policies:
        rows = jax.jit(logits)(Policy(model, params), tokens, mask=mask)[:, WIDTH - 1 : -1]
        rows = np.float64(rows) / temperature
        probs = np.exp(rows - rows.max(-1, keepdims=True))
        found.append(probs / probs.sum(-1, keepdims=True))
    return found


def masked_weights(name, tops, batch, mu, pi):
    """The printed formulas, a token at a time: (divergence, gradient weight)."""
    divergences, weights = np.zeros((2, *batch.trainable.shape))
    for b, t in np.argwhere(batch.trainable):
        token, advantage = batch.completion_tokens[b, t], float(batch.advantages[b])
        slots = {*np.argsort(-mu[b, t])[:tops].tolist(), int(token)}
        rest = [v for v in range(V) if v not in slots]
        p, q = (
            np.array([*(x[b, t, v] for v in sorted(slots)), x[b, t, rest].sum()]) for x in (mu, pi)
        )
        if name == "dppo_topk_tv":
            divergence = np.abs(p - q).sum() / 2
        else:
            divergence = sum(a * np.log(a / c) for a, c in zip(p, q, strict=True) if a > 0)
        ratio = pi[b, t, token] / mu[b, t, token]
        outward = ratio > 1 if advantage > 0 else ratio < 1
        divergences[b, t] = divergence
        weights[b, t] = 0 if outward and divergence > DELTAS[name] else ratio * advantage
    return divergences, weights


def objective_of(name):
    return make_objective(LossConfig(name=name, options={"delta": DELTAS[name]}))


@pytest.mark.parametrize("tops", [1, 5, V])
@pytest.mark.parametrize("name", DELTAS)
def test_the_mask_is_numpys(name, tops, make_rollout, distributions, policies, model, temperature):
    """With all of the vocabulary it is the mask of the full divergence."""
    batch = make_rollout(tops)
    assert batch.top_ids.shape == (16, LENGTH, tops)
    trace = make_trace(model, objective_of(name), temperature=temperature, chunk_tokens=24)
    got = jax.device_get(jax.jit(trace, compiler_options=FAST)(policies[1], batch))
    mu, pi = distributions
    divergences, wanted = masked_weights(name, tops, batch, mu, pi)
    if tops == V:
        full = np.abs(mu - pi).sum(-1) / 2
        if name == "dppo_topk_kl":
            full = (mu * np.log(mu / pi)).sum(-1)
        np.testing.assert_allclose(divergences[batch.trainable], full[batch.trainable], rtol=1e-9)
    # None is so near its bound that rounding decides.
    distance = np.abs(divergences - DELTAS[name])[batch.trainable]
    assert distance.min() > 1e-5
    cut = batch.trainable & (wanted == 0)
    assert 3 <= cut.sum() <= batch.trainable.sum() - 3
    np.testing.assert_allclose(got.gradient_weights, wanted, rtol=2e-4, atol=1e-6)
    assert np.array_equal(got.gradient_weights == 0, wanted == 0)
    clipped = np.isin(got.reasons, [Reason.CLIPPED_HIGH, Reason.CLIPPED_LOW])
    assert np.array_equal(clipped, cut)
    kept = batch.trainable
    rows = np.log(np.take_along_axis(pi, np.int64(batch.top_ids), axis=-1))
    np.testing.assert_allclose(got.top_log_probs[kept], rows[kept], atol=1e-5)


def test_few_rows_see_less_than_all(make_rollout, distributions):
    """Lumping tokens together never raises a divergence."""
    batch = make_rollout(V)
    for name in DELTAS:
        one, some, every = (
            masked_weights(name, tops, batch, *distributions)[0] for tops in (1, 5, V)
        )
        assert np.all(one <= some + 1e-12)
        assert np.all(some <= every + 1e-12)
        assert np.any(one < every - 0.01)


@pytest.mark.parametrize("name", DELTAS)
def test_what_lies_in_padding_changes_no_bit(name, make_rollout, policies, model, temperature):
    batch = make_rollout(5)
    loss = make_loss(model, objective_of(name), temperature=temperature, chunk_tokens=24)
    gradient = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=FAST)
    wanted = gradient(policies[1], batch)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(wanted[1]))
    outside = ~batch.trainable[..., None]
    for rows, ids in ((np.nan, -5), (np.inf, 10**6), (-np.inf, 2**31 - 1)):
        spoilt = dataclasses.replace(
            batch,
            top_ids=np.where(outside, np.int32(ids), batch.top_ids),
            behaviour_top_log_probs=np.where(
                outside, np.float32(rows), batch.behaviour_top_log_probs
            ),
        )
        got = gradient(policies[1], spoilt)
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            assert np.array_equal(one, other)


def test_a_loss_that_needs_no_rows_is_given_none(make_rollout, policies, model, temperature):
    trace = make_trace(model, make_objective(LossConfig(name="atr")), temperature=temperature)
    got = jax.eval_shape(trace, policies[1], make_rollout(5))
    assert got.top_log_probs is None


def test_a_batch_without_rows_is_refused(make_rollout, policies, model):
    batch = dataclasses.replace(make_rollout(5), top_ids=None)
    with pytest.raises(ValueError, match="needs top_ids, got None"):
        jax.eval_shape(lambda params: score(model, params, batch, tops=True), policies[1])
