"""Which tensor of a Hugging Face folder is which parameter of ours, and how it lies there."""

import dataclasses
from collections.abc import Iterator, Sequence

from jaxgrpo.models.config import DecoderConfig

_LAYER = "model.layers.{layer}."


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A parameter of ours, and the name of the tensor, or of one tensor a layer, that it is."""

    path: tuple[str, ...]
    """Keys in the tree of parameters."""
    name: str
    """Theirs; with `{layer}` in it, ours is stacked along its first axis."""
    transposed: bool = False
    """Projections are [out, in] there and [in, out] here."""

    @property
    def stacked(self) -> bool:
        """Whether it is one tensor a layer there."""
        return "{layer}" in self.name

    def names(self, config: DecoderConfig) -> list[str]:
        """Theirs, in the order of the layers."""
        if not self.stacked:
            return [self.name]
        return [self.name.format(layer=layer) for layer in range(config.layers)]

    def shape(self, ours: Sequence[int]) -> tuple[int, ...]:
        """The shape of one tensor of theirs, from the shape of our parameter."""
        one = tuple(ours[1:] if self.stacked else ours)
        return one[::-1] if self.transposed else one


def tensors(config: DecoderConfig) -> Iterator[Tensor]:
    """Every parameter of a decoder.

    Example:
      >>> config = DecoderConfig(vocabulary_size=8, layers=2)
      >>> next(iter(tensors(config))).names(config)
      ['model.embed_tokens.weight']
    """
    yield Tensor(("embedding",), "model.embed_tokens.weight")
    for ours, theirs in _PROJECTIONS.items():
        yield Tensor(("blocks", ours), f"{_LAYER}{theirs}.weight", transposed=True)
    norms = dict(_NORMS)
    if config.qk_norm:
        norms |= {"query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm"}
    for ours, theirs in norms.items():
        yield Tensor(("blocks", ours), f"{_LAYER}{theirs}.weight")
    if config.attention_bias:
        for ours in ("query", "key", "value"):
            yield Tensor(("blocks", f"{ours}_bias"), f"{_LAYER}{_PROJECTIONS[ours]}.bias")
    yield Tensor(("final_norm",), "model.norm.weight")
    if not config.tied_embeddings:
        yield Tensor(("unembedding",), "lm_head.weight", transposed=True)


_PROJECTIONS = {
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_NORMS = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
