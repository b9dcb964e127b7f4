"""Prompts to completions: prefill, cached decoding, and the log-probs of what was sampled."""

from jaxgrpo.sampling.config import SamplingConfig
from jaxgrpo.sampling.sampler import Completions, Prompts, Sampler, StopReason, left_pad, row_keys
from jaxgrpo.sampling.transforms import draw, min_p, top_k, top_p, transform

__all__ = [
    "Completions",
    "Prompts",
    "Sampler",
    "SamplingConfig",
    "StopReason",
    "draw",
    "left_pad",
    "min_p",
    "row_keys",
    "top_k",
    "top_p",
    "transform",
]
