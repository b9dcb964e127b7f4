import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.advantages import group_centred
from jaxgrpo.rollouts import minibatches, whole_batch
from jaxgrpo.training import TrainingConfig


@pytest.fixture
def batch(rollout, sampling):
    batch = whole_batch(rollout, sampling)
    advantages = np.asarray(group_centred(rollout.rewards, rollout.group_ids))
    return dataclasses.replace(batch, advantages=advantages)


def split(batch, group_size=3, seed=(5, 2), aggregation="token_mean", options=None, **config):
    return list(
        minibatches(
            batch,
            TrainingConfig(**config),
            group_size=group_size,
            seed=seed,
            aggregation=aggregation,
            options=options or {},
        )
    )


def test_a_batch_holds_the_rollout_row_by_row(rollout, batch):
    lengths = rollout.completions.lengths
    assert batch.rows == 12
    # Questions of 4, 5, 2 and 5 characters, in the bucket of 8.
    assert batch.prompt_tokens.shape == (12, 8)
    assert batch.prompt_lengths.tolist() == [4] * 3 + [5] * 3 + [2] * 3 + [5] * 3
    for row in range(12):
        prompt = rollout.prompts[row // 3].tokens
        assert tuple(batch.prompt_tokens[row, 8 - len(prompt) :]) == prompt
    # The longest completion has 5 tokens: the bucket of 8 is cut to what the sampler may make.
    assert np.array_equal(batch.completion_tokens, rollout.completions.tokens)
    assert np.array_equal(batch.completion_lengths, lengths)
    assert np.array_equal(batch.trainable, np.arange(6)[None] < lengths[:, None])
    assert batch.group_ids.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert np.array_equal(batch.behaviour_log_probs, rollout.completions.log_probs, equal_nan=True)
    assert batch.anchor_log_probs is None
    assert batch.reference_log_probs is None


def test_completions_are_cut_to_the_bucket_of_the_longest(rollout, sampling):
    short = dataclasses.replace(
        rollout.completions, lengths=np.minimum(rollout.completions.lengths, 3)
    )
    batch = whole_batch(dataclasses.replace(rollout, completions=short), sampling)
    assert batch.completion_tokens.shape == batch.behaviour_log_probs.shape == (12, 4)
    assert np.array_equal(batch.completion_tokens, short.tokens[:, :4])


@pytest.mark.parametrize(("count", "micro_batches"), [(1, 1), (2, 1), (2, 3), (4, 1), (1, 4)])
def test_an_epoch_has_every_row_once_and_groups_stay_whole(count, micro_batches, batch):
    parts = split(batch, minibatches=count, micro_batches=micro_batches, epochs=2)
    assert len(parts) == 2 * count
    for epoch in (parts[:count], parts[count:]):
        rows = np.concatenate([rows for rows, _ in epoch])
        assert sorted(rows.tolist()) == list(range(12))
    for rows, part in parts:
        groups = set((rows // 3).tolist())
        assert len(groups) * 3 == len(rows)
        for name in ("completion_tokens", "group_ids", "advantages", "trainable"):
            assert np.array_equal(getattr(part, name), getattr(batch, name)[rows])


def test_a_micro_batch_gets_whole_groups(batch):
    """The update takes rows m, M + m, ... as micro-batch m."""
    for micro_batches in (1, 2, 4):
        ((_, part),) = split(batch, micro_batches=micro_batches)
        for m in range(micro_batches):
            _, counts = np.unique(part.group_ids[m::micro_batches], return_counts=True)
            assert (counts == 3).all()


def test_the_order_depends_on_seed_and_epoch_alone(batch):
    def orders(**options):
        return [rows.tolist() for rows, _ in split(batch, minibatches=4, epochs=3, **options)]

    assert orders() == orders()
    assert orders(seed=(5, 3)) != orders()
    assert orders(seed=(6, 2)) != orders()
    every = orders()
    assert every[:4] != every[4:8]
    assert split(batch, minibatches=4)[0][0].tolist() == every[0]


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean", "prompt_mean"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_row_weights_make_each_optimiser_step_a_mean(aggregation, count, batch):
    """Over the tokens that the step itself trains on: a loss of 1 a token has the mean 1."""
    for _, part in split(batch, minibatches=count, aggregation=aggregation):
        tokens = part.trainable.sum(axis=1)
        np.testing.assert_allclose(np.sum(part.row_weights * tokens), 1, rtol=1e-6)
        assert (part.row_weights[tokens == 0] == 0).all()
        assert (part.row_weights[tokens > 0] > 0).all()


def test_options_of_the_aggregation_are_passed_on(batch):
    ((_, part),) = split(batch, aggregation="sequence_mean_constant", options={"length": 10})
    tokens = batch.trainable.sum(axis=1)
    np.testing.assert_allclose(part.row_weights, np.where(tokens > 0, 1 / 11 / 10, 0), rtol=1e-6)


def test_splits_that_do_not_fit_are_refused(batch):
    with pytest.raises(ValueError, match="minibatches must divide 4 groups, got 3"):
        split(batch, minibatches=3)
    with pytest.raises(ValueError, match="micro_batches must divide 12 rows, got 5"):
        split(batch, micro_batches=5)


@given(seed=st.integers(0, 2**32), groups=st.integers(1, 6), epochs=st.integers(1, 3))
def test_every_seed_deals_every_row_once(seed, groups, epochs):
    batch = Rows(np.ones((groups * 2, 1), bool), np.repeat(np.arange(groups), 2))
    for count in (n for n in range(1, groups + 1) if groups % n == 0):
        parts = split(batch, group_size=2, seed=(seed,), minibatches=count, epochs=epochs)
        rows = np.concatenate([rows for rows, _ in parts])
        assert np.bincount(rows).tolist() == [epochs] * (2 * groups)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """As much of a batch as `minibatches` looks at."""

    trainable: np.ndarray
    group_ids: np.ndarray
    row_weights: np.ndarray | None = None
    step_seed: np.ndarray | None = None
    counted: np.ndarray | None = None

    @property
    def rows(self):
        return len(self.group_ids)

    def take(self, rows):
        return jax.tree.map(lambda leaf: leaf[rows], self)
