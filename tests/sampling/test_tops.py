"""The likeliest tokens at each position, recorded beside the sampled one."""

import dataclasses
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.models import DecoderConfig, Policy, abstract_params, logits
from jaxgrpo.sampling import Prompts, Sampler, SamplingConfig, left_pad
from jaxgrpo.sharding import MeshConfig, build_mesh

V, NEW, GROUP, TOPS = 20, 6, 4, 5
MODEL = DecoderConfig(
    vocabulary_size=V, layers=2, hidden_size=16, heads=4, kv_heads=2, head_size=4, mlp_size=24
)
CONFIG = SamplingConfig(max_new_tokens=NEW, length_buckets=(4, 8), decode_chunk=4, temperature=1.3)
PROMPTS = [[3, 7, 1, 12], [8, 9], [2], [5, 5, 19]]
KEY = jax.random.key(42)
STOPS = (3, 16)


def mesh_of(data=1, fsdp=1, model=1):
    devices = jax.devices()[: data * fsdp * model]
    return build_mesh(MeshConfig(data=data, fsdp=fsdp, model=model), devices)


def prompts_of(order, width=4):
    rows = [PROMPTS[index] for index in order]
    lengths = np.array([len(row) for row in rows], np.int32)
    return Prompts(left_pad(rows, width, 0), lengths, np.array(order, np.int32))


EVERY = prompts_of(range(4))


@pytest.fixture(scope="module")
def params():
    random = np.random.default_rng(0)

    def leaf(path, abstract):
        if path[-1].key.endswith("norm"):
            return jnp.ones(abstract.shape)
        scale = abstract.shape[-2] ** -0.5
        return jnp.asarray(scale * random.normal(size=abstract.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(leaf, abstract_params(MODEL))


def sample(params, prompts=EVERY, *, tops, mesh=None, group_size=GROUP, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    mesh = mesh or mesh_of()
    sampler = Sampler(MODEL, config, stop_ids=STOPS, pad_id=17, mesh=mesh, tops=tops)
    return sampler(params, prompts, key=KEY, group_size=group_size)


@pytest.fixture(scope="module")
def plain(params):
    return sample(params, tops=0)


@pytest.fixture(scope="module")
def recorded(params):
    return sample(params, tops=TOPS)


def test_recording_changes_nothing_that_is_sampled(plain, recorded):
    for name in ("tokens", "lengths", "log_probs", "stop_reasons"):
        assert np.array_equal(getattr(plain, name), getattr(recorded, name)), name
    assert plain.top_ids is None
    assert plain.top_log_probs is None


def inside(completions):
    return np.arange(NEW)[None] < completions.lengths[:, None]


def test_they_are_the_likeliest_of_the_distribution_sampled_from(params, recorded):
    """Against the logits of whole sequences, sorted by NumPy."""
    sequences = np.concatenate([np.repeat(EVERY.tokens, GROUP, axis=0), recorded.tokens], axis=1)
    lengths = np.repeat(EVERY.lengths, GROUP)[:, None]
    mask = np.arange(4 + NEW)[None] >= 4 - lengths
    rows = jax.jit(logits)(Policy(MODEL, params), sequences, mask=mask)[:, 3:-1]
    rows = np.asarray(jax.nn.log_softmax(rows / CONFIG.temperature))
    ids = np.argsort(-rows, axis=-1, kind="stable")[..., :TOPS]
    kept = inside(recorded)
    assert kept.sum() > 40
    assert np.array_equal(recorded.top_ids[kept], ids[kept])
    wanted = np.take_along_axis(rows, ids, axis=-1)
    np.testing.assert_allclose(recorded.top_log_probs[kept], wanted[kept], atol=5e-6)
    # A token past the end of its completion has none.
    assert not np.any(recorded.top_log_probs[~kept])
    assert not np.any(recorded.top_ids[~kept])


def test_the_sampled_token_has_its_own_log_prob_among_them(recorded):
    same = (recorded.top_ids == recorded.tokens[..., None]) & inside(recorded)[..., None]
    assert same.sum() > 20
    own = np.broadcast_to(recorded.log_probs[..., None], same.shape)[same]
    # To the bit where the compiler tries; in a hurry it rounds the two once differently.
    ulps = 0 if "JAXGRPO_TESTS_OPTIMISED" in os.environ else 2
    np.testing.assert_array_max_ulp(recorded.top_log_probs[same], own, ulps)


def test_all_of_the_vocabulary_is_a_whole_distribution(params):
    whole = sample(params, tops=V)
    kept = inside(whole)
    sums = np.exp(np.float64(whole.top_log_probs[kept])).sum(-1)
    np.testing.assert_allclose(sums, 1, atol=1e-6)
    assert np.array_equal(np.sort(whole.top_ids[kept]), np.tile(np.arange(V), (kept.sum(), 1)))


@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 2, 2)], ids=str)
def test_devices_order_and_batch_do_not_matter(shape, params, recorded):
    mesh = mesh_of(*shape)
    layout = jax.tree.map(lambda leaf: leaf.sharding, abstract_params(MODEL, mesh))
    order = [2, 0, 3]
    sharded = jax.device_put(params, layout)
    got = sample(sharded, prompts_of(order, width=8), tops=TOPS, mesh=mesh, decode_chunk=1)
    rows = np.concatenate([np.arange(GROUP) + GROUP * index for index in order])
    assert np.array_equal(got.tokens, recorded.tokens[rows])
    assert np.array_equal(got.top_ids, recorded.top_ids[rows])
    np.testing.assert_allclose(got.top_log_probs, recorded.top_log_probs[rows], atol=5e-6)


@pytest.mark.parametrize("tops", [-1, V + 1])
def test_more_than_there_are_is_refused(tops):
    with pytest.raises(ValueError, match=rf"tops must be in \[0, 20\], .* got {tops}"):
        Sampler(MODEL, CONFIG, stop_ids=STOPS, pad_id=17, mesh=mesh_of(), tops=tops)
