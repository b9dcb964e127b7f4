"""One Flax decoder with switches; whole sequences, cached decoding, chunked log-probs."""

from jaxgrpo.models.cache import KVCache, decode_step, prefill
from jaxgrpo.models.config import DecoderConfig
from jaxgrpo.models.decoder import Decoder
from jaxgrpo.models.log_probs import row_log_probs, token_log_probs
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

__all__ = [
    "Decoder",
    "DecoderConfig",
    "KVCache",
    "Params",
    "Policy",
    "abstract_params",
    "bind",
    "decode_step",
    "hidden_states",
    "init_params",
    "logits",
    "parameter_count",
    "prefill",
    "row_log_probs",
    "token_log_probs",
]
