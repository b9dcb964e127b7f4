"""Rewards -> advantages, by comparison with the other completions of the same prompt."""

from jaxgrpo.advantages._group import group_centred, group_normalised, leave_one_out
from jaxgrpo.advantages._registry import ADVANTAGES

__all__ = ["ADVANTAGES", "group_centred", "group_normalised", "leave_one_out"]
