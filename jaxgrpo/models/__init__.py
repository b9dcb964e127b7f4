"""One Flax decoder with switches: whole sequences, cached decoding, Hugging Face folders."""

from jaxgrpo.models.cache import KVCache, decode_step, prefill
from jaxgrpo.models.config import DecoderConfig
from jaxgrpo.models.decoder import Decoder
from jaxgrpo.models.log_probs import row_log_probs
from jaxgrpo.models.policy import (
    Params,
    Policy,
    abstract_params,
    bind,
    hidden_states,
    init_params,
    logits,
    parameter_count,
)
from jaxgrpo.models.pretrained import (
    check_pretrained,
    from_pretrained,
    read_config,
    save_pretrained,
    write_generation_config,
)
from jaxgrpo.models.token_scores import RowPenalty, TokenScores, score_tokens

__all__ = [
    "Decoder",
    "DecoderConfig",
    "KVCache",
    "Params",
    "Policy",
    "RowPenalty",
    "TokenScores",
    "abstract_params",
    "bind",
    "check_pretrained",
    "decode_step",
    "from_pretrained",
    "hidden_states",
    "init_params",
    "logits",
    "parameter_count",
    "prefill",
    "read_config",
    "row_log_probs",
    "save_pretrained",
    "score_tokens",
    "write_generation_config",
]
