"""The registry of advantages: `f(rewards [B], group_ids [B], **options) -> [B]`, float32."""

from jaxgrpo.core.registry import Registry

ADVANTAGES = Registry("advantage")
