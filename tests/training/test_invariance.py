"""One batch gives one loss, gradient and set of metrics, however it is split and padded."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxgrpo.training import score

AGGREGATIONS = {
    "token_mean": {},
    "sequence_mean_token_mean": {},
    "sequence_mean_token_sum": {},
    "sequence_mean_constant": {"length": 5},
    "token_sum": {},
    "prompt_mean": {},
}
every = pytest.mark.parametrize("aggregation", AGGREGATIONS)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


SPLITS = [
    # (data, fsdp, model), micro-batches, dtype, relative tolerance
    ((1, 1, 1), 2, "float32", 1e-5),
    ((2, 1, 1), 2, "float32", 1e-5),
    ((1, 2, 2), 1, "float32", 1e-5),
    ((1, 1, 1), 4, "float64", 1e-12),
    ((2, 2, 2), 2, "float64", 1e-12),
    slow((1, 1, 1), 4, "float32", 1e-5),
    slow((1, 4, 1), 1, "float32", 1e-5),
    slow((8, 1, 1), 1, "float32", 1e-5),
    slow((1, 8, 1), 2, "float32", 1e-5),
    slow((2, 2, 2), 4, "float32", 1e-5),
    slow((1, 2, 4), 1, "float64", 1e-12),
]


def assert_same(got, wanted, tolerance):
    """Gradients relative to each leaf's largest entry, metrics to their totals, counts exactly."""
    for one, other in zip(jax.tree.leaves(got[0]), jax.tree.leaves(wanted[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())
    assert got[1].keys() == wanted[1].keys()
    for name, (total, count) in wanted[1].items():
        np.testing.assert_allclose(
            got[1][name][0], total, rtol=tolerance, atol=tolerance, err_msg=name
        )
        assert got[1][name][1] == count, name


@every
@pytest.mark.parametrize(("shape", "micro_batches", "dtype", "tolerance"), SPLITS)
def test_splits_add_up(shape, micro_batches, dtype, tolerance, aggregation, steps, make_batch):
    batch = make_batch(aggregation, dtype, **AGGREGATIONS[aggregation])
    wanted = steps(batch, dtype=dtype)
    assert all(np.abs(leaf).max() > 1e-4 for leaf in jax.tree.leaves(wanted[0]))
    assert_same(steps(batch, shape, micro_batches, dtype), wanted, tolerance)


@every
def test_rows_may_stand_anywhere(aggregation, steps, make_batch):
    batch = make_batch(aggregation, "float64", **AGGREGATIONS[aggregation])
    order = np.random.default_rng(3).permutation(16)
    got = steps(batch.take(order), micro_batches=4, dtype="float64")
    assert_same(got, steps(batch, dtype="float64"), 1e-12)


def aggregated(name, losses, batch):
    """The six definitions, row by row, over the rows that have a trainable token."""
    rows = [row[where] for row, where in zip(losses, batch.trainable, strict=True)]
    present = [row for row in rows if len(row)]
    if name == "token_mean":
        return np.concatenate(rows).mean()
    if name == "token_sum":
        return np.concatenate(rows).sum()
    if name == "sequence_mean_token_mean":
        return np.mean([row.mean() for row in present])
    if name == "sequence_mean_token_sum":
        return np.mean([row.sum() for row in present])
    if name == "sequence_mean_constant":
        return np.mean([row.sum() / 5 for row in present])
    prompts = {}
    for row, group in zip(rows, batch.group_ids, strict=True):
        prompts.setdefault(int(group), []).extend(row)
    return np.mean([np.mean(tokens) for tokens in prompts.values() if tokens])


@pytest.fixture(scope="module")
def log_probs(steps, make_batch, model, temperature):
    """Of the batch's tokens, from the trainer's scoring, which other tests hold to the model."""
    config = dataclasses.replace(model, compute_dtype="float64", parameter_dtype="float64")
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: leaf.astype(np.float64), steps.params)
        scoring = jax.jit(lambda p, b: score(config, p, b, temperature=temperature).log_probs)
        return np.asarray(scoring(params, make_batch(dtype="float64")))


@every
def test_the_loss_is_the_definition(aggregation, steps, make_batch, log_probs):
    """PPO with a dual clip of 2 and 0.3 times the penalty, token by token in NumPy."""
    batch = make_batch(aggregation, "float64", **AGGREGATIONS[aggregation])
    policy, penalty = np.zeros(log_probs.shape), np.zeros(log_probs.shape)
    for b, t in np.argwhere(batch.trainable):
        advantage, log_prob = batch.advantages[b], log_probs[b, t]
        ratio = np.exp(log_prob - batch.anchor_log_probs[b, t])
        objective = min(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
        policy[b, t] = -(max(objective, 2 * advantage) if advantage < 0 else objective)
        log_ratio = batch.reference_log_probs[b, t] - log_prob
        moved = np.exp(log_prob - batch.behaviour_log_probs[b, t])
        penalty[b, t] = moved * (np.exp(log_ratio) - 1 - log_ratio)
    _, metrics = steps(batch, dtype="float64")
    parts = {
        "loss/policy": policy,
        "loss/penalty": 0.3 * penalty,
        "loss/total": policy + 0.3 * penalty,
    }
    for name, losses in parts.items():
        wanted = aggregated(aggregation, losses, batch)
        # Row weights are products of float32 numbers, whatever is added up with them.
        rounding = 2e-7 * aggregated(aggregation, np.abs(losses), batch)
        assert abs(metrics[name][0] - wanted) < rounding, name


def test_the_norm_of_the_gradient_is_logged(steps, make_batch):
    gradient, metrics = steps(make_batch(), micro_batches=2)
    norm = np.sqrt(sum(np.sum(np.float64(leaf) ** 2) for leaf in jax.tree.leaves(gradient)))
    np.testing.assert_allclose(metrics["grad/norm"][0], norm, rtol=1e-5)
    assert metrics["grad/norm"][1] == 1


FLOATS = ("behaviour_log_probs", "anchor_log_probs", "reference_log_probs")
random = np.random.default_rng(5)
FILLINGS = {
    "nan": dict.fromkeys(FLOATS, np.nan),
    "inf": dict.fromkeys(FLOATS, np.inf),
    "-inf": dict.fromkeys(FLOATS, -np.inf),
    "1e30": dict.fromkeys(FLOATS, 1e30),
    "random ids": {"completion_tokens": random.integers(0, 20, (16, 6))},
    "ids out of range": {"completion_tokens": random.choice([-1, 20, 10**6, -(2**31)], (16, 6))},
    "everything": {**dict.fromkeys(FLOATS, np.nan), "completion_tokens": 2**31 - 1},
}


@pytest.mark.parametrize("filling", FILLINGS)
def test_what_lies_in_padding_changes_no_bit(filling, steps, make_batch):
    batch = make_batch()
    inside = np.arange(6)[None] < batch.completion_lengths[:, None]
    prompt = np.arange(4)[None] >= 4 - batch.prompt_lengths[:, None]
    filled = {}
    for name, value in FILLINGS[filling].items():
        # Ids of a completion feed the model though they may not be trained on.
        kept = inside if name == "completion_tokens" else batch.trainable
        old = getattr(batch, name)
        filled[name] = np.where(kept, old, np.broadcast_to(value, old.shape)).astype(old.dtype)
    if "completion_tokens" in filled:
        ids = random.choice([-5, 3, 19, 20, 2**31 - 1], prompt.shape)
        filled["prompt_tokens"] = np.where(prompt, batch.prompt_tokens, ids).astype(np.int32)
    for micro_batches in (1, 2):
        wanted = steps(batch, micro_batches=micro_batches)
        got = steps(dataclasses.replace(batch, **filled), micro_batches=micro_batches)
        assert np.isfinite(wanted[1]["loss/total"][0])
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            assert np.array_equal(one, other)


def test_nothing_trainable_gives_nothing(steps, make_batch):
    """Loss, gradient and counts are 0, whatever the numbers are."""
    batch = make_batch()
    nothing = dataclasses.replace(
        batch,
        trainable=np.zeros_like(batch.trainable),
        row_weights=np.zeros(16, np.float32),
        **{name: np.full((16, 6), np.nan, np.float32) for name in FLOATS},
    )
    gradient, metrics = steps(nothing)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))
    assert {name: total for name, (total, _) in metrics.items() if total != 0} == {}
    assert metrics["entropy/mean"][1] == 0


def test_a_stop_token_is_trained_like_any_other(steps, make_batch):
    """Padding has its id: only lengths tell them apart. Without row 1's the gradient is another."""
    batch = make_batch("token_sum")
    without = dataclasses.replace(batch, trainable=batch.trainable & (np.arange(16) != 1)[:, None])
    assert batch.completion_tokens[1, 0] == batch.completion_tokens[1, 5] == 1
    assert steps(batch)[1]["entropy/mean"][1] == steps(without)[1]["entropy/mean"][1] + 1
    one, other = steps(batch)[0]["embedding"], steps(without)[0]["embedding"]
    assert np.abs(one - other).max() > 1e-3
