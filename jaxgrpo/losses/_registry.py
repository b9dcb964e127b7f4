"""The registries of policy losses and of penalties towards a reference.

A loss is `f(log_probs, anchor_log_probs, advantages, *, where=None, **options) -> [*B, T]`, a
penalty `f(log_probs, reference_log_probs, *, where=None) -> [*B, T]`. A row penalty is the same of
whole rows: `f(rows [*B, T, V], reference_rows, *, where=None) -> [*B, T]`.
"""

from jaxgrpo.core.registry import Registry

LOSSES = Registry("loss")
PENALTIES = Registry("penalty")
ROW_PENALTIES = Registry("row penalty")
