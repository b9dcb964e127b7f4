"""Prompts to completions to rewards to a batch, worked examples to a batch, and the record."""

from jaxgrpo.rollouts.batches import minibatches, whole_batch
from jaxgrpo.rollouts.collect import (
    DynamicSamplingConfig,
    Rollout,
    RolloutConfig,
    collect,
    pad_prompts,
    score_texts,
)
from jaxgrpo.rollouts.demonstrations import worked_tokens
from jaxgrpo.rollouts.records import SCHEMA_VERSION, finite, read_record, write_record
from jaxgrpo.rollouts.worked import worked_batch

__all__ = [
    "SCHEMA_VERSION",
    "DynamicSamplingConfig",
    "Rollout",
    "RolloutConfig",
    "collect",
    "finite",
    "minibatches",
    "pad_prompts",
    "read_record",
    "score_texts",
    "whole_batch",
    "worked_batch",
    "worked_tokens",
    "write_record",
]
