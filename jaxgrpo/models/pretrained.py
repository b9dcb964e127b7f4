"""Hugging Face folders in and out, without torch: config.json and *.safetensors."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from safetensors.numpy import save_file

from jaxgrpo.core.errors import UserError
from jaxgrpo.models.architectures import decoder_config, hugging_face_config
from jaxgrpo.models.config import DecoderConfig
from jaxgrpo.models.policy import Params, Policy, abstract_params
from jaxgrpo.models.tensors import Tensor, tensors
from jaxgrpo.models.weights import INDEX, SINGLE, Weights

CONFIG = "config.json"

# Buffers that old checkpoints hold; they follow from the config.
_IGNORED = ".rotary_emb.inv_freq"


def read_config(directory: str | os.PathLike[str]) -> DecoderConfig:
    """The decoder that a folder's config.json describes; its weights are not looked at.

    Raises:
      UserError: there is no such file, or the decoder can't do what it asks for.
    """
    path = pathlib.Path(directory) / CONFIG
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: wanted a JSON object, got {type(values).__name__}")
    return decoder_config(values, source=str(path))


def check_pretrained(directory: str | os.PathLike[str]) -> DecoderConfig:
    """The decoder of a folder whose tensors have been compared with it by name and shape.

    Reads headers only.

    Raises:
      UserError: as `from_pretrained`.
    """
    folder = pathlib.Path(directory)
    config = read_config(folder)
    with Weights(folder) as weights:
        _check(weights, config)
    return config


def from_pretrained(
    directory: str | os.PathLike[str], *, dtype: Any = None, mesh: Mesh | None = None
) -> Policy:
    """The policy in a Hugging Face folder of a Llama, Qwen2 or Qwen3 model.

    Args:
      directory: config.json with model.safetensors, or an index and the files that it names.
      dtype: of parameters and of what is computed with them; None is the folder's own.
      mesh: parameters land in their shards, and each process reads its own only.

    Raises:
      UserError: an architecture or a switch that the decoder lacks; a tensor that is missing, has
        another shape, or belongs to no parameter; a broken file. Names what it is.
      ValueError: `dtype` is none that a decoder may have.
    """
    folder = pathlib.Path(directory)
    config = read_config(folder)
    if dtype is not None:
        config = _with_dtype(config, jnp.dtype(dtype).name)
    params: Params = {}
    with Weights(folder) as weights:
        _check(weights, config)
        abstract = abstract_params(config, mesh)
        for tensor in tensors(config):
            leaf = _leaf(abstract, tensor.path)
            inner = params
            for key in tensor.path[:-1]:
                inner = inner.setdefault(key, {})
            inner[tensor.path[-1]] = _load(weights, config, tensor, leaf)
    return Policy(config, params)


def save_pretrained(
    policy: Policy,
    directory: str | os.PathLike[str],
    *,
    stop_ids: Sequence[int] = (),
    pad_id: int | None = None,
    max_file_bytes: int = 4 * 2**30,
) -> None:
    """Write a policy as a Hugging Face folder that transformers loads, bit for bit.

    Args:
      policy: what to write; all of it must lie on this process's devices.
      directory: made where it doesn't exist; must hold no model yet.
      stop_ids: that end a completion, for the config.
      pad_id: that fills rows up, for the config.
      max_file_bytes: a larger model is split over files with an index.

    Raises:
      UserError: no architecture has the switches of the decoder, or there is a model already.
    """
    values = hugging_face_config(policy.config, stop_ids=stop_ids, pad_id=pad_id)
    folder = pathlib.Path(directory)
    if (folder / CONFIG).exists() or any(folder.glob("*.safetensors*")):
        raise UserError(f"{folder}: there is a model already")
    folder.mkdir(parents=True, exist_ok=True)
    parts = _parts(policy, max_file_bytes)
    file_of: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        split = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
        path = folder / (SINGLE if len(parts) == 1 else split)
        save_file(_on_host(policy, part), path, metadata={"format": "pt"})
        file_of |= {name: path.name for name, _, _ in part}
    if len(parts) > 1:
        total = sum(leaf.nbytes for leaf in jax.tree.leaves(policy.params))
        index = {"metadata": {"total_size": total}, "weight_map": file_of}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    # Last: a folder without it is no model.
    (folder / CONFIG).write_text(json.dumps(values, indent=2) + "\n")


def write_generation_config(
    directory: str | os.PathLike[str], *, stop_ids: Sequence[int], pad_id: int
) -> None:
    """Write generation_config.json, unless a tokenizer has brought its own."""
    path = pathlib.Path(directory) / "generation_config.json"
    if not path.exists():
        # The whole distribution at temperature 1: what the policy was trained as.
        values = {"eos_token_id": list(stop_ids), "pad_token_id": pad_id, "do_sample": True}
        path.write_text(json.dumps(values, indent=2) + "\n")


def _with_dtype(config: DecoderConfig, dtype: str) -> DecoderConfig:
    if dtype not in ("float32", "bfloat16", "float64"):
        raise ValueError(f"dtype must be float32, bfloat16 or float64, got {dtype}")
    return dataclasses.replace(config, compute_dtype=dtype, parameter_dtype=dtype)


def _leaf(tree: Params, path: Sequence[str]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _check(weights: Weights, config: DecoderConfig) -> None:
    """Raise unless the folder holds exactly the decoder's tensors."""
    abstract = abstract_params(config)
    wanted = {
        name: tensor.shape(_leaf(abstract, tensor.path).shape)
        for tensor in tensors(config)
        for name in tensor.names(config)
    }
    found = {name for name in weights.names() if not name.endswith(_IGNORED)}
    if config.tied_embeddings and _repeats_embedding(weights):
        found.discard("lm_head.weight")
    for what, names in (
        ("is missing", wanted.keys() - found),
        ("belongs to no parameter of this model", found - wanted.keys()),
    ):
        if names:
            first, rest = min(names), len(names) - 1
            more = f" (and {rest} more)" if rest else ""
            raise UserError(f"{weights.directory}: tensor {first} {what}{more}")
    for name, shape in wanted.items():
        if weights.shape(name) != shape:
            raise UserError(
                f"{weights.directory}: tensor {name} has shape {list(weights.shape(name))}, "
                f"{CONFIG} wants {list(shape)}"
            )


def _repeats_embedding(weights: Weights) -> bool:
    """Whether a tied unembedding is stored all the same, and is the embedding."""
    pair = ("lm_head.weight", "model.embed_tokens.weight")
    if not weights.names().issuperset(pair) or weights.shape(pair[0]) != weights.shape(pair[1]):
        return False
    whole = (slice(None), slice(None))
    return bool(np.array_equal(weights.read(pair[0], whole), weights.read(pair[1], whole)))


def _load(weights: Weights, config: DecoderConfig, tensor: Tensor, leaf: Any) -> jax.Array:
    """One parameter, laid out as the abstract `leaf` says; only the shards of this process."""
    names = tensor.names(config)

    def one(name: str, index: Sequence[slice]) -> np.ndarray:
        if tensor.transposed:
            return weights.read(name, index[::-1]).T
        return weights.read(name, index)

    def read(index: Any) -> np.ndarray:
        if tensor.stacked:
            whole = np.stack([one(name, index[1:]) for name in names[index[0]]])
        else:
            whole = np.ascontiguousarray(one(names[0], index))
        return whole.astype(leaf.dtype, copy=False)

    if leaf.sharding is None:
        return jnp.asarray(read((slice(None),) * len(leaf.shape)))
    return jax.make_array_from_callback(leaf.shape, leaf.sharding, read)


# (their name, the parameter, the layer within it)
_Part = list[tuple[str, Tensor, int]]


def _parts(policy: Policy, limit: int) -> list[_Part]:
    """Their tensors in files of at most so many bytes, at least one tensor each."""
    parts: list[_Part] = [[]]
    size = 0
    for tensor in tensors(policy.config):
        names = tensor.names(policy.config)
        each = _leaf(policy.params, tensor.path).nbytes // len(names)
        for layer, name in enumerate(names):
            if parts[-1] and size + each > limit:
                parts.append([])
                size = 0
            parts[-1].append((name, tensor, layer))
            size += each
    return parts


def _on_host(policy: Policy, part: _Part) -> dict[str, np.ndarray]:
    """The tensors of one file, laid out as theirs."""
    arrays: dict[str, np.ndarray] = {}
    path, leaf = (), np.empty(0)
    for name, tensor, layer in part:
        # Those of one parameter follow each other: it is fetched once, and let go of.
        if tensor.path != path:
            path, leaf = tensor.path, np.asarray(_leaf(policy.params, tensor.path))
        array = leaf[layer] if tensor.stacked else leaf
        # safetensors takes the bytes as they lie in memory, whatever the strides say.
        arrays[name] = np.ascontiguousarray(array.T if tensor.transposed else array)
    return arrays
