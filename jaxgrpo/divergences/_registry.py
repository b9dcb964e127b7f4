"""The registries of divergences, by what they are estimated from.

`DIVERGENCES` are `f(sampler_log_probs, other_log_probs, *, where)`, of the sampled token;
`ROW_DIVERGENCES` are `f(sampler_rows, other_rows, *, where)`, of the whole vocabulary;
`TOP_DIVERGENCES` are `f(sampler_top, other_top, sampler, other, *, where)`, of its likeliest part.
"""

from jaxgrpo.core.registry import Registry

DIVERGENCES = Registry("divergence")
ROW_DIVERGENCES = Registry("row divergence")
TOP_DIVERGENCES = Registry("top-K divergence")
