"""Rewards -> advantages, by comparison with the other completions of the same prompt."""

from jaxgrpo.advantages._entropy import grpo_s, gtpo
from jaxgrpo.advantages._greedy import remax
from jaxgrpo.advantages._group import group_centred, group_normalised, leave_one_out
from jaxgrpo.advantages._lengths import (
    length_penalised,
    overlong_penalised,
    truncated_penalised,
)
from jaxgrpo.advantages._pass_at_k import best_of_group, pass_at_k_normalised, pass_at_k_rewards
from jaxgrpo.advantages._registry import ADVANTAGE_TRANSFORMS, ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.advantages._scaled import batch_normalised, gpg, leave_one_out_normalised, max_rl
from jaxgrpo.advantages._shaping import (
    clipped,
    informative_groups,
    pruned,
    scaled_by_sign,
    unlikeliness,
)
from jaxgrpo.advantages._tokens import optimal_token_baseline, reinforce_plus_plus
from jaxgrpo.advantages._weighted import (
    filtered_group,
    gdpo,
    optimal_baseline,
    whitened_over_tokens,
)

__all__ = [
    "ADVANTAGES",
    "ADVANTAGE_TRANSFORMS",
    "REWARD_TRANSFORMS",
    "batch_normalised",
    "best_of_group",
    "clipped",
    "filtered_group",
    "gdpo",
    "gpg",
    "group_centred",
    "group_normalised",
    "grpo_s",
    "gtpo",
    "informative_groups",
    "leave_one_out",
    "leave_one_out_normalised",
    "length_penalised",
    "max_rl",
    "optimal_baseline",
    "optimal_token_baseline",
    "overlong_penalised",
    "pass_at_k_normalised",
    "pass_at_k_rewards",
    "pruned",
    "reinforce_plus_plus",
    "remax",
    "scaled_by_sign",
    "truncated_penalised",
    "unlikeliness",
    "whitened_over_tokens",
]
