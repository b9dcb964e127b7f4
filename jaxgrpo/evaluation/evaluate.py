"""Completions of every held-out prompt, and the share that a reward function calls right."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import PRNGKeyArray

from jaxgrpo.data import EncodedSource, Prompt
from jaxgrpo.models import Params
from jaxgrpo.rewards import RewardPool
from jaxgrpo.rollouts import collect
from jaxgrpo.sampling import Sampler, SamplingConfig, StopReason
from jaxgrpo.tokenizers import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How often held-out prompts are completed, and from what distribution."""

    every_steps: int = 0
    """GRPO steps between evaluations; 0: before the first and after the last only."""
    samples: int = 1
    """Completions a prompt; accuracy is their mean (avg@k)."""
    batch_size: int = 128
    """Prompts completed at once."""
    sampling: SamplingConfig = SamplingConfig(temperature=0.0)
    """Greedy by default; it may be truncated, since nothing is trained on it."""

    def __post_init__(self) -> None:
        if self.every_steps < 0:
            raise ValueError(f"every_steps must not be negative, got {self.every_steps}")
        for name in ("samples", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclasses.dataclass(frozen=True)
class EvaluatedItem:
    """One completion of a held-out prompt."""

    name: str
    question: str
    answer: str
    completion: str
    reward: float
    correct: bool
    failure: str = ""
    """What could not be scored and why, or nothing."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found."""

    accuracy: float
    """Share of completions that the measuring reward function gives at least 1."""
    reward_mean: float
    """Of the weighted sum, over completions that could be scored."""
    items: Sequence[EvaluatedItem]
    """Prompts in order, a prompt's completions side by side."""
    tokens: int
    """Sampled."""
    truncated_fraction: float
    """Share of completions that ran into `max_new_tokens`."""
    seconds: float
    measure: str
    """The reward function that accuracy is by."""

    @property
    def failed_fraction(self) -> float:
        """Share of completions that some reward function could not score."""
        return sum(bool(item.failure) for item in self.items) / len(self.items)

    @property
    def correct(self) -> int:
        """Correct completions."""
        return sum(item.correct for item in self.items)

    def facts(self) -> dict[str, float]:
        """The numbers of it that a summary keeps."""
        return {
            "accuracy": self.accuracy,
            "correct": self.correct,
            "completions": len(self.items),
            "reward_mean": self.reward_mean,
            "truncated_fraction": self.truncated_fraction,
            "failed_fraction": self.failed_fraction,
        }


def evaluate(
    sampler: Sampler,
    params: Params,
    prompts: EncodedSource,
    tokenizer: Tokenizer,
    pool: RewardPool,
    *,
    measure: str,
    key: PRNGKeyArray,
    samples: int = 1,
    batch_size: int = 128,
    on_tick: Callable[[], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Complete and score every prompt.

    Args:
      sampler: draws completions; its config says how.
      params: of the policy.
      prompts: the held-out set.
      tokenizer: decodes.
      pool: scores.
      measure: the reward function that says what is correct: a value of 1 or more.
      key: of the sampling.
      samples: completions a prompt.
      batch_size: prompts at once; the last batch is filled up, so that one program serves all.
      on_tick: called between chunks; what it raises ends the evaluation.
      on_progress: called with (done, all) prompts after each batch.
    """
    start, total = time.perf_counter(), len(prompts)
    items: list[EvaluatedItem] = []
    rewards: list[float] = []
    tokens = truncated = 0
    for batch in _batches(prompts, batch_size):
        filled = [*batch, *[batch[0]] * (min(batch_size, total) - len(batch))]
        rollout = collect(
            sampler, params, filled, tokenizer, pool, key=key, group_size=samples, on_tick=on_tick
        )
        rows = len(batch) * samples
        for row in range(rows):
            example, score = batch[row // samples].example, rollout.scores[row]
            correct = score.values.get(measure, 0.0) >= 1.0
            items.append(
                EvaluatedItem(
                    name=example.name,
                    question=example.question,
                    answer=example.answer,
                    completion=rollout.texts[row],
                    reward=score.total,
                    correct=correct,
                    failure=score.failure,
                )
            )
        tokens += int(rollout.completions.lengths[:rows].sum())
        truncated += int(np.sum(rollout.completions.stop_reasons[:rows] == StopReason.LENGTH))
        rewards.extend(float(reward) for reward in rollout.rewards[:rows])
        if on_progress is not None:
            on_progress(min(len(items) // samples, total), total)
    scored = [reward for reward in rewards if not np.isnan(reward)]
    return Evaluation(
        accuracy=float(np.mean([item.correct for item in items])),
        reward_mean=float(np.mean(scored)) if scored else float("nan"),
        items=items,
        tokens=tokens,
        truncated_fraction=truncated / len(items),
        seconds=time.perf_counter() - start,
        measure=measure,
    )


def _batches(prompts: EncodedSource, size: int) -> list[list[Prompt]]:
    every = [prompts[index] for index in range(len(prompts))]
    return [every[start : start + size] for start in range(0, len(every), size)]
