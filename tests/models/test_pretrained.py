"""Hugging Face folders in and out: the numbers of torch, every bit kept, what doesn't fit named."""

import dataclasses
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jaxgrpo.core.errors import UserError
from jaxgrpo.models import (
    DecoderConfig,
    Policy,
    abstract_params,
    check_pretrained,
    from_pretrained,
    logits,
    read_config,
    save_pretrained,
)
from jaxgrpo.sharding import MeshConfig, build_mesh

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
SMALL = DecoderConfig(
    vocabulary_size=24, layers=2, hidden_size=16, heads=4, kv_heads=2, head_size=6, mlp_size=20
)
FAMILIES = {
    "LlamaForCausalLM": {},
    "Qwen2ForCausalLM": {"attention_bias": True},
    "Qwen3ForCausalLM": {"qk_norm": True},
}


def policy(**changes):
    config = dataclasses.replace(SMALL, **changes)
    # Every leaf its own random numbers, norms and biases too: a mix-up must show.
    random = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: random.normal(size=leaf.shape).astype(leaf.dtype), abstract_params(config)
    )
    return Policy(config, params)


def assert_same(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.fixture
def saved(tmp_path):
    """A folder to damage: an untied Llama."""
    save_pretrained(policy(tied_embeddings=False), tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_logits_are_those_of_torch(family):
    loaded = from_pretrained(FIXTURES / family, dtype="float32")
    wanted = np.load(FIXTURES / family / "logits.npz")
    tokens, mask = wanted["tokens"], wanted["mask"]
    whole = logits(loaded, tokens)
    np.testing.assert_allclose(whole, wanted["whole"], atol=2e-5, rtol=0)
    padded = np.asarray(logits(loaded, tokens, mask=jnp.asarray(mask)))
    np.testing.assert_allclose(padded[mask], wanted["padded"][mask], atol=2e-5, rtol=0)


def test_a_folder_keeps_its_dtype_unless_told_otherwise():
    own = from_pretrained(FIXTURES / "qwen2")
    assert (own.config.parameter_dtype, own.config.compute_dtype) == ("bfloat16", "bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(own.params)} == {jnp.dtype("bfloat16")}
    wide = from_pretrained(FIXTURES / "qwen2", dtype=jnp.float32)
    assert wide.config.parameter_dtype == "float32"
    assert_same(jax.tree.map(lambda leaf: leaf.astype(jnp.float32), own.params), wide.params)
    with pytest.raises(ValueError, match="got int8"):
        from_pretrained(FIXTURES / "qwen2", dtype="int8")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_round_trip_keeps_every_bit(family, tied, dtype, tmp_path):
    before = policy(
        **FAMILIES[family],
        tied_embeddings=tied,
        parameter_dtype=dtype,
        compute_dtype=dtype,
        rope_theta=1234.5,
        norm_epsilon=3e-5,
    )
    save_pretrained(before, tmp_path / "a")
    values = json.loads((tmp_path / "a" / "config.json").read_text())
    assert values["architectures"] == [family]
    after = from_pretrained(tmp_path / "a")
    assert after.config == before.config
    assert_same(before.params, after.params)
    # The same in files of a few tensors each, of which no half is ever read as the whole.
    save_pretrained(before, tmp_path / "b", max_file_bytes=2000)
    assert len(list((tmp_path / "b").glob("model-*.safetensors"))) > 3
    assert_same(before.params, from_pretrained(tmp_path / "b").params)


def test_parameters_land_in_their_shards():
    mesh = build_mesh(MeshConfig(fsdp=4, model=2))
    whole = from_pretrained(FIXTURES / "qwen3")
    shared = from_pretrained(FIXTURES / "qwen3", mesh=mesh)
    assert_same(whole.params, shared.params)
    wanted = abstract_params(whole.config, mesh)
    jax.tree.map(lambda leaf, want: leaf.sharding == want.sharding or 1 / 0, shared.params, wanted)
    gate = shared.params["blocks"]["gate"]
    assert gate.addressable_shards[0].data.size == gate.size // 8


def test_the_config_says_what_a_reader_needs(tmp_path):
    save_pretrained(policy(), tmp_path / "one", stop_ids=(5,), pad_id=3)
    one = json.loads((tmp_path / "one" / "config.json").read_text())
    assert (one["eos_token_id"], one["pad_token_id"], one["bos_token_id"]) == (5, 3, None)
    assert one["torch_dtype"] == one["dtype"] == "float32"
    save_pretrained(policy(), tmp_path / "two", stop_ids=(5, 6))
    two = json.loads((tmp_path / "two" / "config.json").read_text())
    assert (two["eos_token_id"], two["pad_token_id"]) == ([5, 6], None)


@pytest.mark.parametrize(
    ("changes", "theta"),
    [
        ({"rope_theta": 7.0}, 7.0),
        ({"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 8}}, 8.0),
        ({"rope_theta": 9.0, "rope_scaling": {"type": "default"}}, 9.0),
        ({"rope_theta": None}, 10_000.0),
    ],
)
def test_rotary_bases_are_found_where_each_version_keeps_them(saved, changes, theta):
    edit_config(saved, **changes)
    assert read_config(saved).rope_theta == theta


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["Qwen3MoeForCausalLM"]}, "unsupported architecture Qwen3MoeFor"),
        ({"architectures": None, "model_type": "gemma"}, "model_type 'gemma'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling is not supported"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_parameters is not supported"),
        ({"rope_parameters": {"full_attention": {}}}, "rope_parameters is not supported"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
        ({"attention_bias": True}, "attention_bias is not supported, got True"),
        ({"mlp_bias": True}, "mlp_bias is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act is not supported, got 'gelu'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is not supported"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers must be a positive integer, got '2'"),
        ({"num_key_value_heads": 3}, "kv_heads must divide heads 4"),
        ({"rms_norm_eps": 0}, "rms_norm_eps must be a positive number"),
    ],
)
def test_what_the_decoder_lacks_is_refused_by_name(saved, changes, message):
    edit_config(saved, **changes)
    with pytest.raises(UserError, match=r"config\.json: ") as caught:
        read_config(saved)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"use_sliding_window": False, "sliding_window": 4}, False),
        ({"use_sliding_window": True, "sliding_window": None}, False),
        ({"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2}, False),
        ({"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, True),
        ({"layer_types": ["full_attention", "full_attention"]}, False),
        ({"layer_types": ["full_attention", "sliding_attention"]}, True),
    ],
)
def test_a_sliding_window_is_refused_only_where_it_is_used(tmp_path, changes, refused):
    save_pretrained(policy(qk_norm=True), tmp_path)
    edit_config(tmp_path, **changes)
    if not refused:
        assert read_config(tmp_path) == policy(qk_norm=True).config
        return
    with pytest.raises(UserError, match="sliding_window is not supported"):
        read_config(tmp_path)


def _drop(tensors):
    del tensors["model.layers.1.mlp.up_proj.weight"]


def _add(tensors):
    tensors["model.layers.0.self_attn.o_proj.bias"] = np.zeros(16, np.float32)


def _turn(tensors):
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = np.ascontiguousarray(tensors[name].T)


def _quantise(tensors):
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.int8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop, "tensor model.layers.1.mlp.up_proj.weight is missing"),
        (_add, "tensor model.layers.0.self_attn.o_proj.bias belongs to no parameter"),
        (_turn, "model.layers.1.mlp.up_proj.weight has shape [16, 20], config.json wants [20, 16]"),
        (_quantise, "tensor model.norm.weight has dtype I8"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(saved, change, message):
    edit_tensors(saved, change)
    for load in (from_pretrained, check_pretrained):
        with pytest.raises(UserError) as caught:
            load(saved)
        assert message in str(caught.value)


def test_a_tied_unembedding_may_be_stored_but_must_be_the_embedding(tmp_path):
    before = policy()
    save_pretrained(before, tmp_path)

    def repeat(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(3, np.float32)

    edit_tensors(tmp_path, repeat)
    assert_same(before.params, from_pretrained(tmp_path).params)

    def differ(tensors):
        tensors["lm_head.weight"][3, 2] += 1

    edit_tensors(tmp_path, differ)
    with pytest.raises(UserError, match=r"tensor lm_head\.weight belongs to no parameter"):
        from_pretrained(tmp_path)


def test_missing_and_broken_files_are_named(saved, tmp_path):
    with pytest.raises(UserError, match=r"nowhere/config\.json: cannot be read"):
        from_pretrained(tmp_path / "nowhere")
    whole = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read"):
        from_pretrained(saved)
    (saved / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors or .* there, and 0"):
        from_pretrained(saved)
    (saved / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: not JSON"):
        from_pretrained(saved)

    split = tmp_path / "split"
    shutil.copytree(FIXTURES / "qwen2", split)
    next(split.glob("model-00002-*")).unlink()
    with pytest.raises(UserError, match=r"model-00002-.*missing, though"):
        from_pretrained(split)
    (split / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    with pytest.raises(UserError, match="no weight_map"):
        from_pretrained(split)


def test_nothing_is_written_that_no_architecture_has(tmp_path):
    with pytest.raises(UserError, match="qk_norm=True with attention_bias=True"):
        save_pretrained(policy(qk_norm=True, attention_bias=True), tmp_path / "both")
    with pytest.raises(UserError, match="heads to divide hidden_size 18, got 4"):
        save_pretrained(policy(hidden_size=18), tmp_path / "uneven")
    assert not list(tmp_path.iterdir())


def test_a_model_is_never_overwritten(saved):
    before = (saved / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="there is a model already"):
        save_pretrained(policy(), saved)
    assert (saved / "model.safetensors").read_bytes() == before
