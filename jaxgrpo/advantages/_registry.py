"""The registries of advantages, and of what is done to rewards before and advantages after.

The first two are `f(rewards [B], group_ids [B], **options) -> [B]`, float32; an advantage may be
[B, T]. A reward transform makes rewards of rewards, before a baseline is taken off. An advantage
transform is `f(advantages, **options)`, of any shape, and keeps it.
"""

from jaxgrpo.core.registry import Registry

ADVANTAGES = Registry("advantage")
REWARD_TRANSFORMS = Registry("reward transform")
ADVANTAGE_TRANSFORMS = Registry("advantage transform")
