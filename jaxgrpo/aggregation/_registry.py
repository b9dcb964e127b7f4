"""The registry of aggregations: `f(token_losses [B, T], where [B, T], *, ...) -> scalar`."""

from jaxgrpo.core.registry import Registry

AGGREGATIONS = Registry("aggregation")
