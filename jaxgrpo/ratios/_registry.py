"""The registries of log-ratios (live) and of weights (detached)."""

from jaxgrpo.core.registry import Registry

RATIOS = Registry("ratio")
WEIGHTS = Registry("weight")
