"""A run from its YAML: typed, checked, and written back as it was resolved."""

from jaxgrpo.config.experiment import (
    Experiment,
    ModelConfig,
    RunConfig,
    WarmupConfig,
    read_credit,
    read_objective,
    read_weights,
)
from jaxgrpo.config.load import digest, dump, load, parse

__all__ = [
    "Experiment",
    "ModelConfig",
    "RunConfig",
    "WarmupConfig",
    "digest",
    "dump",
    "load",
    "parse",
    "read_credit",
    "read_objective",
    "read_weights",
]
