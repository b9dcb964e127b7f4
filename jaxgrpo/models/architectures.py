"""A Hugging Face config.json as a `DecoderConfig` and back; what no decoder can do is refused."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jaxgrpo.core.errors import UserError, closest
from jaxgrpo.models.config import DecoderConfig

# Rotary positions have no last one; readers want a number.
_MAX_POSITIONS = 32_768


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """A family of transformers' as switches of ours."""

    name: str
    model_type: str
    qk_norm: bool = False
    attention_bias: bool = False
    head_size: int | None = None
    """Where the config has no `head_dim`; None: the hidden size divided among the heads."""


ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture(name="LlamaForCausalLM", model_type="llama"),
        Architecture(name="Qwen2ForCausalLM", model_type="qwen2", attention_bias=True),
        Architecture(name="Qwen3ForCausalLM", model_type="qwen3", qk_norm=True, head_size=128),
    )
}


def decoder_config(values: Mapping[str, Any], *, source: str) -> DecoderConfig:
    """The decoder that a config.json describes; computes in the dtype that it stores.

    float16 becomes float32, which holds all of its values; so does a dtype that isn't stated.

    Args:
      values: of the config.json.
      source: names it in errors.

    Raises:
      UserError: another architecture, a switch that the decoder lacks, or a size that's missing.
    """
    architecture = _architecture(values, source)
    _refuse_switches(values, architecture, source)
    dtype = _dtype(values, source)
    heads = _size(values, "num_attention_heads", source)
    hidden = _size(values, "hidden_size", source)
    head_size = architecture.head_size or hidden // heads
    try:
        return DecoderConfig(
            vocabulary_size=_size(values, "vocab_size", source),
            layers=_size(values, "num_hidden_layers", source),
            hidden_size=hidden,
            heads=heads,
            kv_heads=_size(values, "num_key_value_heads", source, default=heads),
            head_size=_size(values, "head_dim", source, default=head_size),
            mlp_size=_size(values, "intermediate_size", source),
            rope_theta=_rope_theta(values, source),
            norm_epsilon=_number(values, "rms_norm_eps", source, default=1e-6),
            qk_norm=architecture.qk_norm,
            attention_bias=architecture.attention_bias,
            tied_embeddings=bool(values.get("tie_word_embeddings", False)),
            compute_dtype=dtype,
            parameter_dtype=dtype,
        )
    except ValueError as error:
        raise UserError(f"{source}: {error}") from error


def hugging_face_config(
    config: DecoderConfig, *, stop_ids: Sequence[int] = (), pad_id: int | None = None
) -> dict[str, Any]:
    """The config.json of a decoder, for transformers 4 and 5.

    Raises:
      UserError: no architecture has this combination of switches.
    """
    architecture = architecture_of(config)
    values = {
        "architectures": [architecture.name],
        "model_type": architecture.model_type,
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.mlp_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": _MAX_POSITIONS,
        "tie_word_embeddings": config.tied_embeddings,
        "attention_dropout": 0.0,
        # Stated even where there is none, since Llama's defaults name ids of its own tokenizer.
        "bos_token_id": None,
        "eos_token_id": stop_ids[0] if len(stop_ids) == 1 else list(stop_ids) or None,
        "pad_token_id": pad_id,
        "dtype": config.parameter_dtype,
        "torch_dtype": config.parameter_dtype,
    }
    if architecture.model_type == "llama":
        return values | {"attention_bias": False, "mlp_bias": False}
    if architecture.model_type == "qwen3":
        values["attention_bias"] = False
    return values | {"use_sliding_window": False}


def architecture_of(config: DecoderConfig) -> Architecture:
    """The architecture that has exactly the switches of a decoder.

    Raises:
      UserError: there is none.
    """
    for architecture in ARCHITECTURES.values():
        switches = (architecture.qk_norm, architecture.attention_bias)
        if switches == (config.qk_norm, config.attention_bias):
            if architecture.model_type == "llama" and config.hidden_size % config.heads:
                raise UserError(
                    f"{architecture.name} wants heads to divide hidden_size {config.hidden_size}, "
                    f"got {config.heads}"
                )
            return architecture
    raise UserError(
        f"no Hugging Face architecture has qk_norm={config.qk_norm} with "
        f"attention_bias={config.attention_bias}"
    )


def _architecture(values: Mapping[str, Any], source: str) -> Architecture:
    types = {a.model_type: name for name, a in ARCHITECTURES.items()}
    names = values.get("architectures") or [types.get(str(values.get("model_type")))]
    known = ", ".join(ARCHITECTURES)
    if not isinstance(names, list) or len(names) != 1 or names[0] not in ARCHITECTURES:
        found = names[0] if isinstance(names, list) else names
        near = closest(str(found), ARCHITECTURES)
        if found is None:
            found = f"model_type {values.get('model_type')!r}"
        raise UserError(f"{source}: unsupported architecture {found}{near} (supported: {known})")
    return ARCHITECTURES[names[0]]


def _refuse_switches(values: Mapping[str, Any], architecture: Architecture, source: str) -> None:
    """Raise on what would change the numbers and the decoder doesn't do."""
    layers = values.get("num_hidden_layers")
    # In Llama and Qwen3 this puts a bias on the output projection too; Qwen2 doesn't read it.
    bias = bool(values.get("attention_bias")) and not architecture.attention_bias
    sliding = values.get("use_sliding_window") and values.get("sliding_window") is not None
    windows = [kind for kind in values.get("layer_types") or [] if kind != "full_attention"]
    if sliding and values.get("layer_types") is None and isinstance(layers, int):
        windows = ["sliding_attention"] * (layers - values.get("max_window_layers", 28))
    unsupported = {
        "attention_bias": bias,
        "mlp_bias": values.get("mlp_bias"),
        "sliding_window": windows and architecture.model_type != "llama",
        "hidden_act": values.get("hidden_act", "silu") not in ("silu", "swish"),
        "quantization_config": values.get("quantization_config"),
    }
    for name, used in unsupported.items():
        if used:
            shown = values.get(name, "layer_types")
            raise UserError(f"{source}: {name} is not supported, got {shown!r}")


def _rope_theta(values: Mapping[str, Any], source: str) -> float:
    """The base of the rotary wavelengths; transformers 5 keeps it in `rope_parameters`."""
    theta: Any = values
    for name in ("rope_scaling", "rope_parameters"):
        rope = values.get(name)
        if not rope:
            continue
        kind = rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, dict) else ""
        nested = isinstance(rope, dict) and any(isinstance(x, dict) for x in rope.values())
        if kind != "default" or nested:
            raise UserError(f"{source}: {name} is not supported, got {rope!r}")
        if "rope_theta" in rope:
            theta = rope
        if rope.get("partial_rotary_factor", 1.0) != 1.0:
            raise UserError(f"{source}: partial_rotary_factor is not supported, got {rope!r}")
    if values.get("partial_rotary_factor", 1.0) != 1.0:
        raise UserError(
            f"{source}: partial_rotary_factor is not supported, "
            f"got {values['partial_rotary_factor']!r}"
        )
    return _number(theta, "rope_theta", source, default=10_000.0)


def _dtype(values: Mapping[str, Any], source: str) -> Literal["float32", "bfloat16", "float64"]:
    stated = values.get("dtype") or values.get("torch_dtype") or "float32"
    match str(stated).removeprefix("torch."):
        case "float32" | "float16":
            return "float32"
        case "bfloat16":
            return "bfloat16"
        case "float64":
            return "float64"
    raise UserError(
        f"{source}: dtype must be float32, bfloat16, float16 or float64, got {stated!r}"
    )


def _size(values: Mapping[str, Any], name: str, source: str, *, default: int | None = None) -> int:
    value = values.get(name)
    value = default if value is None else value
    if value is None:
        raise UserError(f"{source}: {name} is missing")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{source}: {name} must be a positive integer, got {value!r}")
    return value


def _number(values: Mapping[str, Any], name: str, source: str, *, default: float) -> float:
    value = values.get(name)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise UserError(f"{source}: {name} must be a positive number, got {value!r}")
    return float(value)
