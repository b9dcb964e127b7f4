"""From the rewards of a step to its advantages: transforms, a baseline, transforms; all by name."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxgrpo.advantages._registry import ADVANTAGE_TRANSFORMS, ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.core.choice import Choice
from jaxgrpo.core.registry import Registry

# What `needs` may name, besides `where`: the trainable tokens.
SUPPLIED = frozenset(
    {
        "behaviour_log_probs",
        "entropies",
        "function_rewards",
        "greedy_rewards",
        "group_ids",
        "lengths",
        "sequence_log_probs",
        "squared_probs",
        "truncated",
        "weights",
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator with its options, and the arrays of the batch that it takes by keyword."""

    who: str
    """Family and name, for messages."""
    function: Callable[..., Any]
    needs: tuple[str, ...]
    """`where` too, if it takes that."""

    def __call__(self, *arrays: Any, **batch: Any) -> np.ndarray:
        """Its value as float32 on the host; of the batch it is passed what it needs."""
        return np.asarray(self.function(*arrays, **{n: batch[n] for n in self.needs}), np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credit:
    """Reward transforms in order, the advantage, advantage transforms in order."""

    reward_transforms: tuple[Operator, ...] = ()
    advantage: Operator
    advantage_transforms: tuple[Operator, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """Names of all arrays that any of them takes."""
        operators = (*self.reward_transforms, self.advantage, *self.advantage_transforms)
        return frozenset(name for operator in operators for name in operator.needs)

    def shaped(self, rewards: Float[np.ndarray, " B"], **batch: Any) -> Float[np.ndarray, " B"]:
        """The rewards that the advantage is made from; nan stays nan. `batch`: `batch_arrays`."""
        for transform in self.reward_transforms:
            rewards = transform(rewards, batch["group_ids"], **batch)
        return rewards

    def advantages(
        self, shaped: Float[np.ndarray, " B"], **batch: Any
    ) -> Float[np.ndarray, " B"] | Float[np.ndarray, "B T"]:
        """One a completion, or one a token."""
        values = self.advantage(shaped, batch["group_ids"], **batch)
        for transform in self.advantage_transforms:
            values = transform(values, **batch)
        return values


def batch_arrays(
    *,
    where: Bool[np.ndarray, "B T"],
    group_ids: Int[np.ndarray, " B"],
    lengths: Int[np.ndarray, " B"],
    truncated: Bool[np.ndarray, " B"],
    behaviour_log_probs: Float[np.ndarray, "B T"],
    function_rewards: Float[np.ndarray, "B F"],
    weights: Float[np.ndarray, " F"],
    entropies: Float[np.ndarray, "B T"] | None = None,
    squared_probs: Float[np.ndarray, "B T"] | None = None,
    greedy_rewards: Float[np.ndarray, " B"] | None = None,
) -> Mapping[str, Any]:
    """Everything that operators may need, by name.

    Args:
      where: [B, T] bool. The completions' tokens.
      group_ids: [B] int. Which prompt each completion answers.
      lengths: [B]. Tokens of each completion.
      truncated: [B] bool. Cut off at the longest length.
      behaviour_log_probs: [B, T], nats. As the sampler recorded them.
      function_rewards: [B, F]. Of each reward function; nan where one failed.
      weights: [F]. Of the reward functions.
      entropies: [B, T], nats. Of the policy before the step, if something needs them.
      squared_probs: [B, T]. Its squared probabilities summed over the vocabulary, if so.
      greedy_rewards: [B]. Of the prompt's greedy completion, if so.
    """
    kept = np.where(where, behaviour_log_probs, 0)
    return {
        "where": where,
        "group_ids": group_ids,
        "lengths": lengths,
        "truncated": truncated,
        "behaviour_log_probs": behaviour_log_probs,
        "sequence_log_probs": kept.sum(axis=1, dtype=np.float64).astype(np.float32),
        "function_rewards": function_rewards,
        "weights": weights,
        "entropies": entropies,
        "squared_probs": squared_probs,
        "greedy_rewards": greedy_rewards,
    }


def make_credit(
    reward_transforms: Sequence[Choice], advantage: Choice, advantage_transforms: Sequence[Choice]
) -> Credit:
    """The operators of a config, every name found and every option checked.

    Raises:
      LookupError: no operator has that name, or it needs an array that a run does not have.
      TypeError: an option is unknown, missing or of the wrong type.

    Example:
      >>> credit = make_credit([], Choice(name="optimal_baseline"), [Choice(name="clipped")])
      >>> credit.needs
      frozenset({'lengths'})
    """
    credit = Credit(
        reward_transforms=tuple(_bound(REWARD_TRANSFORMS, choice) for choice in reward_transforms),
        advantage=_bound(ADVANTAGES, advantage),
        advantage_transforms=tuple(
            _bound(ADVANTAGE_TRANSFORMS, choice) for choice in advantage_transforms
        ),
    )
    if reward_transforms and "function_rewards" in credit.advantage.needs:
        raise LookupError(
            f"{credit.advantage.who} takes the reward functions one by one: it would not see what "
            f"{credit.reward_transforms[0].who} makes of their sum"
        )
    return credit


def _bound(registry: Registry, choice: Choice) -> Operator:
    function = registry.bind(choice.name, **choice.options)
    needs = registry.needs(choice.name)
    who = f"{registry.family} {choice.name!r}"
    if unknown := set(needs) - SUPPLIED:
        raise LookupError(
            f"{who} needs {', '.join(sorted(unknown))}, which a run does not have; it has "
            f"{', '.join(sorted(SUPPLIED | {'where'}))}"
        )
    if "where" in inspect.signature(function).parameters:
        needs = (*needs, "where")
    return Operator(who=who, function=function, needs=needs)
