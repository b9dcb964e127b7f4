"""The registries of advantages and of reward transforms.

Both are `f(rewards [B], group_ids [B], **options) -> [B]`, float32. A transform makes rewards of
rewards, before a baseline is taken off.
"""

from jaxgrpo.core.registry import Registry

ADVANTAGES = Registry("advantage")
REWARD_TRANSFORMS = Registry("reward transform")
