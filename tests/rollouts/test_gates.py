"""Tokens left out before the loss: what trains, what is counted, what the record says."""

import dataclasses

import numpy as np
import pytest

from jaxgrpo.losses.reasons import Reason
from jaxgrpo.rollouts import minibatches, whole_batch
from jaxgrpo.rollouts.gates import keep_top_entropy, leave_out
from jaxgrpo.training import TrainingConfig

random = np.random.default_rng(0)
ENTROPIES = random.random((12, 6)).astype(np.float32)


@pytest.fixture
def batch(rollout, sampling):
    return whole_batch(rollout, sampling)


def split(batch, gate=None, aggregation="token_mean", **config):
    options = {"group_size": 3, "seed": (1,), "aggregation": aggregation, "options": {}}
    return list(minibatches(batch, TrainingConfig(**config), gate=gate, **options))


@pytest.mark.parametrize("counted", [False, True])
def test_what_is_left_out_trains_nothing_and_is_counted_or_not(batch, counted):
    rows = np.arange(12) % 2 == 0
    masked = leave_out(
        batch, np.broadcast_to(rows[:, None], (12, 6)), Reason.TRUNCATED, counted=counted
    )
    assert np.array_equal(masked.trainable, batch.trainable & ~rows[:, None])
    gone = np.where(batch.trainable & rows[:, None], Reason.TRUNCATED, 0)
    assert np.array_equal(masked.dropped, gone)
    ((order, part),) = split(masked)
    tokens = (batch.trainable if counted else masked.trainable).sum()
    # A row that was never to train has no weight; one that was left out keeps it if it counts.
    present = (batch.trainable if counted else masked.trainable)[order].any(axis=1)
    np.testing.assert_allclose(part.row_weights, present / tokens, rtol=1e-6)
    assert part.counted is None


def test_reasons_of_several_masks_are_kept_apart(batch):
    first = np.zeros((12, 6), bool)
    first[0] = True
    second = np.zeros((12, 6), bool)
    second[:2] = True
    once = leave_out(batch, first, Reason.TRUNCATED, counted=True)
    both = leave_out(once, second, Reason.ZERO_VARIANCE, counted=False)
    inside = batch.trainable
    assert (both.dropped[0][inside[0]] == Reason.TRUNCATED).all()
    assert (both.dropped[1][inside[1]] == Reason.ZERO_VARIANCE).all()
    assert not both.dropped[2:].any()
    assert not both.trainable[:2].any()
    # Row 0 went out counted, and stays so.
    assert np.array_equal(both.counted[0], inside[0])
    assert not both.counted[1].any()


@pytest.mark.parametrize("minibatch_count", [1, 2])
def test_the_entropy_threshold_is_over_the_tokens_of_one_optimiser_step(batch, minibatch_count):
    def gate(rows, part):
        return keep_top_entropy(part, ENTROPIES[rows], 0.25)

    for rows, part in split(batch, gate, minibatches=minibatch_count):
        where = batch.trainable[rows]
        kept = part.token_weights > 0
        count = int(np.ceil(0.25 * where.sum()))
        assert kept.sum() == count
        threshold = np.sort(ENTROPIES[rows][where])[-count]
        assert np.array_equal(kept, where & (ENTROPIES[rows] >= threshold))
        assert np.array_equal(part.dropped == Reason.LOW_ENTROPY, where & ~kept)
        # All of them train the penalty, and are counted.
        assert np.array_equal(part.trainable, where)
        np.testing.assert_allclose(part.row_weights[where.any(axis=1)], 1 / where.sum(), rtol=1e-6)


def test_the_entropy_mask_keeps_weights_and_earlier_reasons(batch):
    weights = np.where(batch.trainable, np.float32(0.5), 0)
    weights[1, 0] = 0
    dropped = np.zeros((12, 6), np.int8)
    dropped[1, 0] = Reason.MISMATCH_MASK
    given = dataclasses.replace(batch, token_weights=weights, dropped=dropped)
    part = keep_top_entropy(given, ENTROPIES, 0.5)
    assert set(part.token_weights.ravel()) == {0.0, 0.5}
    assert part.dropped[1, 0] == Reason.MISMATCH_MASK
    assert set(part.dropped[batch.trainable]) == {0, Reason.MISMATCH_MASK, Reason.LOW_ENTROPY}


def test_padding_may_hold_nan(batch):
    filled = np.where(batch.trainable, ENTROPIES, np.float32(np.nan))
    one, other = (keep_top_entropy(batch, x, 0.3) for x in (ENTROPIES, filled))
    assert np.array_equal(one.token_weights, other.token_weights)
    assert np.array_equal(one.dropped, other.dropped)
