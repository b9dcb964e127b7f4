"""What is sampled depends on prompt, its id, number of the sample and key, and on nothing else."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.models import DecoderConfig, Policy, abstract_params, logits
from jaxgrpo.sampling import Prompts, Sampler, SamplingConfig, StopReason, left_pad
from jaxgrpo.sharding import MeshConfig, build_mesh
from jaxgrpo.training import Batch, score

V, NEW, GROUP = 20, 6, 4
MODEL = DecoderConfig(
    vocabulary_size=V, layers=2, hidden_size=16, heads=4, kv_heads=2, head_size=4, mlp_size=24
)
CONFIG = SamplingConfig(max_new_tokens=NEW, length_buckets=(4, 8), decode_chunk=4)
PROMPTS = [[3, 7, 1, 12], [8, 9], [2], [5, 5, 19]]
IDS = [11, 5, 7, 2]
KEY = jax.random.key(42)
PAD = 17


def mesh_of(data=1, fsdp=1, model=1):
    devices = jax.devices()[: data * fsdp * model]
    return build_mesh(MeshConfig(data=data, fsdp=fsdp, model=model), devices)


def make_sampler(mesh=None, stop_ids=(), pad_id=PAD, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    return Sampler(MODEL, config, stop_ids=stop_ids, pad_id=pad_id, mesh=mesh or mesh_of())


def prompts_of(order, width=4, padding=0):
    rows = [PROMPTS[index] for index in order]
    return Prompts(
        left_pad(rows, width, padding),
        np.array([len(row) for row in rows], np.int32),
        np.array([IDS[index] for index in order], np.int32),
    )


EVERY = prompts_of(range(4))


@pytest.fixture(scope="module")
def params():
    """Matrices that keep variance, norms of 1; from NumPy, since that compiles nothing."""
    random = np.random.default_rng(0)

    def leaf(path, abstract):
        if path[-1].key.endswith("norm"):
            return jnp.ones(abstract.shape)
        scale = abstract.shape[-2] ** -0.5
        return jnp.asarray(scale * random.normal(size=abstract.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(leaf, abstract_params(MODEL))


@pytest.fixture(scope="module")
def sampler():
    """Of the policy itself, without stop ids."""
    return make_sampler()


@pytest.fixture(scope="module")
def sampled(sampler, params):
    return sampler(params, EVERY, key=KEY, group_size=GROUP)


@pytest.fixture(scope="module")
def cold(params):
    """Many samples of two tokens of one prompt, at temperature 0.5."""
    sampler = make_sampler(temperature=0.5, max_new_tokens=2)
    return sampler(params, prompts_of([1]), key=KEY, group_size=8192)


@pytest.fixture(scope="module")
def hot(params):
    """At temperature 1.7, with stop ids."""
    sampler = make_sampler(temperature=1.7, stop_ids=(3, 16))
    return sampler(params, EVERY, key=KEY, group_size=GROUP)


def assert_same(got, wanted, rows=slice(None)):
    """Rows of `wanted`, token for token; log-probs to the rounding of another order of sums."""
    assert np.array_equal(got.tokens, wanted.tokens[rows])
    assert np.array_equal(got.lengths, wanted.lengths[rows])
    assert np.array_equal(got.stop_reasons, wanted.stop_reasons[rows])
    np.testing.assert_allclose(got.log_probs, wanted.log_probs[rows], atol=5e-6)


def test_rows_differ_and_repeat_exactly(sampler, params, sampled):
    assert len({tuple(row) for row in sampled.tokens.tolist()}) == len(sampled.tokens)
    again = sampler(params, EVERY, key=KEY, group_size=GROUP)
    assert np.array_equal(again.tokens, sampled.tokens)
    assert np.array_equal(again.log_probs, sampled.log_probs)
    other = sampler(params, EVERY, key=jax.random.key(43), group_size=GROUP)
    assert not np.array_equal(other.tokens, sampled.tokens)


def test_the_order_of_prompts_does_not_matter(sampler, params, sampled):
    order = [2, 0, 3, 1]
    got = sampler(params, prompts_of(order), key=KEY, group_size=GROUP)
    rows = np.concatenate([np.arange(GROUP) + GROUP * index for index in order])
    assert_same(got, sampled, rows)


def test_the_id_of_a_prompt_makes_its_draws(sampler, params, sampled):
    renamed = dataclasses.replace(EVERY, prompt_ids=np.array([11, 5, 8, 2], np.int32))
    got = sampler(params, renamed, key=KEY, group_size=GROUP)
    changed = np.any(got.tokens != sampled.tokens, axis=1)
    assert changed.tolist() == [False] * 8 + [True] * 4 + [False] * 4


@pytest.mark.parametrize("content", [5, -1, 10**6])
def test_what_pads_the_prompts_does_not_matter(content, sampler, params, sampled):
    got = sampler(params, prompts_of(range(4), padding=content), key=KEY, group_size=GROUP)
    assert np.array_equal(got.tokens, sampled.tokens)
    assert np.array_equal(got.log_probs, sampled.log_probs)


def test_batch_split_bucket_and_group_size_do_not_matter(sampler, params, sampled):
    """Half of the prompts, in the next bucket, half of the samples."""
    got = sampler(params, prompts_of([1, 3], width=8), key=KEY, group_size=GROUP // 2)
    assert_same(got, sampled, [4, 5, 12, 13])


def scored(params, completions, temperature, prompts=EVERY):
    length = completions.tokens.shape[1]
    fan = len(completions.tokens) // len(prompts.lengths)
    zeros = np.zeros(completions.tokens.shape, np.float32)
    batch = Batch(
        prompt_tokens=np.repeat(prompts.tokens, fan, axis=0),
        prompt_lengths=np.repeat(prompts.lengths, fan),
        completion_tokens=completions.tokens,
        completion_lengths=completions.lengths,
        trainable=np.arange(length)[None] < completions.lengths[:, None],
        behaviour_log_probs=zeros,
        advantages=zeros[:, 0],
        group_ids=np.zeros(len(zeros), np.int32),
        row_weights=zeros[:, 0],
    )
    return jax.jit(
        lambda params: (
            score(MODEL, params, batch, temperature=temperature, chunk_tokens=30).log_probs
        )
    )(params)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_recorded_log_probs_are_the_trainers(temperature, request, params):
    fixture = {0.5: "cold", 1.0: "sampled", 1.7: "hot"}[temperature]
    prompts, completions = EVERY, request.getfixturevalue(fixture)
    if temperature == 0.5:
        prompts = prompts_of([1])
        completions = jax.tree.map(lambda leaf: leaf[:16], completions)
    recomputed = np.asarray(scored(params, completions, temperature, prompts))
    inside = np.arange(completions.tokens.shape[1])[None] < completions.lengths[:, None]
    np.testing.assert_allclose(completions.log_probs[inside], recomputed[inside], atol=4e-6)
    assert (completions.log_probs[~inside] == 0).all()


def test_greedy_takes_the_most_likely_and_records_the_policys_log_probs(params):
    greedy = make_sampler(temperature=0.0)(params, EVERY, key=KEY, group_size=1)
    sequences = np.concatenate([EVERY.tokens, greedy.tokens], axis=1)
    mask = np.arange(10)[None] >= 4 - EVERY.lengths[:, None]
    rows = jax.nn.log_softmax(jax.jit(logits)(Policy(MODEL, params), sequences, mask=mask))[:, 3:-1]
    assert np.array_equal(greedy.tokens, rows.argmax(-1))
    np.testing.assert_allclose(greedy.log_probs, rows.max(-1), atol=4e-6)


def test_truncated_sampling_records_the_log_probs_of_what_it_drew_from(params):
    """Of single tokens, the shortest completions there are."""
    sampler = make_sampler(temperature=0.8, top_k=3, max_new_tokens=1)
    got = sampler(params, EVERY, key=KEY, group_size=16)
    assert got.tokens.shape == (64, 1)
    assert got.lengths.tolist() == [1] * 64
    mask = np.arange(4)[None] >= 4 - EVERY.lengths[:, None]
    whole = np.asarray(jax.jit(logits)(Policy(MODEL, params), EVERY.tokens, mask=mask))[:, -1] / 0.8
    for row, (token, log_prob) in enumerate(
        zip(got.tokens[:, 0], got.log_probs[:, 0], strict=True)
    ):
        kept = np.sort(whole[row // 16])[-3:]
        assert whole[row // 16, token] >= kept[0]
        wanted = whole[row // 16, token] - np.log(np.exp(kept).sum())
        np.testing.assert_allclose(log_prob, wanted, atol=4e-6)
    assert len(np.unique(got.tokens[:16])) == 3


# Stopping changes no draw: what a sampler with stop ids gives is the unstopped text, cut.


def cut(completions, stop_ids, pad_id):
    tokens = np.full(completions.tokens.shape, pad_id)
    log_probs = np.zeros(completions.log_probs.shape)
    lengths, reasons = [], []
    for row, drawn in enumerate(completions.tokens.tolist()):
        stops = [slot for slot, token in enumerate(drawn) if token in stop_ids]
        end = stops[0] + 1 if stops else NEW
        tokens[row, :end] = drawn[:end]
        log_probs[row, :end] = completions.log_probs[row, :end]
        lengths.append(end)
        reasons.append(StopReason.STOP if stops else StopReason.LENGTH)
    return tokens, log_probs, lengths, reasons


def stop_ids_for_every_case(completions):
    """Ids that end some row at its first token, one at its last, one never, a prompt's all early.

    Returns:
      The ids, and that prompt.
    """
    for ids in itertools.combinations(range(V), 3):
        _, _, lengths, reasons = cut(completions, ids, PAD)
        ends = {n for n, reason in zip(lengths, reasons, strict=True) if reason == StopReason.STOP}
        longest = np.reshape(lengths, (4, GROUP)).max(axis=1)
        if {1, NEW} < ends and StopReason.LENGTH in reasons and 1 < longest.min() < NEW - 1:
            return ids, int(longest.argmin())
    raise AssertionError("no three ids make every case")


@pytest.mark.parametrize(
    ("shape", "pad_is_stop", "chunk"), [((2, 1, 1), True, 1), ((1, 2, 2), False, 50)], ids=str
)
def test_stop_ids_end_a_completion_on_any_devices(shape, pad_is_stop, chunk, params, sampled):
    """Nor does it matter how often the host looks, or that the pad is a stop id."""
    stop_ids, early = stop_ids_for_every_case(sampled)
    pad_id = stop_ids[1] if pad_is_stop else PAD
    mesh = mesh_of(*shape)
    sampler = make_sampler(mesh, stop_ids=stop_ids, pad_id=pad_id, decode_chunk=chunk)
    layout = jax.tree.map(lambda leaf: leaf.sharding, abstract_params(MODEL, mesh))
    sharded = jax.device_put(params, layout)
    looks, decoded, advance = [], [], sampler._advance

    def watched(*arguments):
        state = advance(*arguments)
        decoded.append(int(state.step))
        return state

    sampler._advance = watched

    def sample(prompts):
        looks.clear()
        return sampler(
            sharded, prompts, key=KEY, group_size=GROUP, on_chunk=lambda: looks.append(1)
        )

    tokens, log_probs, lengths, reasons = cut(sampled, stop_ids, pad_id)
    got = sample(EVERY)
    assert np.array_equal(got.tokens, tokens)
    assert got.lengths.tolist() == lengths
    assert got.stop_reasons.tolist() == reasons
    np.testing.assert_allclose(got.log_probs, log_probs, atol=5e-6)
    assert len(looks) == -(-NEW // chunk)

    # Three prompts don't split over the devices, and are filled up.
    three = sample(prompts_of([0, 1, 2]))
    assert_same(three, got, slice(0, 12))

    # The other prompts are empty, so all is over when this one's rows are.
    empty = np.where(np.arange(4) == early, EVERY.lengths, 0).astype(np.int32)
    alone = sample(dataclasses.replace(EVERY, lengths=empty))
    rows = slice(GROUP * early, GROUP * (early + 1))
    assert np.array_equal(alone.tokens[rows], got.tokens[rows])
    assert np.delete(alone.lengths, range(16)[rows]).tolist() == [0] * 12
    assert (np.delete(alone.tokens, range(16)[rows], axis=0) == pad_id).all()
    assert len(looks) == -(-max(lengths[rows]) // chunk)
    assert decoded[-1] == max(lengths[rows])
    assert (np.delete(alone.stop_reasons, range(16)[rows]) == StopReason.LENGTH).all()


def test_what_on_chunk_raises_ends_the_rollout(sampler, params):
    looks = []

    def interrupt():
        looks.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sampler(params, EVERY, key=KEY, group_size=GROUP, on_chunk=interrupt)
    assert len(looks) == 1


def test_programs_are_compiled_once_a_shape(sampler, params):
    """Two buckets: after each was seen nothing is compiled, whatever lengths, ids, keys."""
    wide = prompts_of([1, 3], width=8)
    sampler(params, EVERY, key=KEY, group_size=GROUP)
    sampler(params, wide, key=KEY, group_size=GROUP // 2)
    count = sampler.compiled_programs()
    assert count == 4
    for step in range(2):
        key = jax.random.fold_in(KEY, step)
        sampler(params, prompts_of([3, 2, 1, step]), key=key, group_size=GROUP)
        sampler(params, wide, key=key, group_size=GROUP // 2)
    assert sampler.compiled_programs() == count


def test_draws_have_the_models_frequencies_at_both_positions(params, cold):
    """Chi-square of the first token, and of pairs: a number drawn twice would show in the pairs."""
    tokens, count = cold.tokens, len(cold.tokens)
    follow = np.array([[*PROMPTS[1], token] for token in range(V)])
    rows = jax.nn.log_softmax(jax.jit(logits)(Policy(MODEL, params), follow) / 0.5)
    probs = np.exp(np.asarray(rows, np.float64))
    first, pairs = probs[0, 1], probs[0, 1][:, None] * probs[:, 2]
    assert statistic(np.bincount(tokens[:, 0], minlength=V), first * count) < 4
    counted = np.bincount(tokens[:, 0] * V + tokens[:, 1], minlength=V * V)
    assert statistic(counted, pairs.reshape(-1) * count) < 4


def statistic(counts, expected):
    """Chi-square in standard deviations above its mean, cells expected to hold < 5 as one cell."""
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 5:
        counts, expected = counts[:-1], expected[:-1]
    chi_square = np.sum((counts - expected) ** 2 / expected)
    freedom = len(counts) - 1
    return (chi_square - freedom) / np.sqrt(2 * freedom)
