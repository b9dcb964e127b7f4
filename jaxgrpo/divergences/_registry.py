"""The registry of the sampled-token divergences: `f(sampler, other, *, where=None) -> [*B, T]`."""

from jaxgrpo.core.registry import Registry

DIVERGENCES = Registry("divergence")
