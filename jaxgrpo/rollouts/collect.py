"""One rollout: completions of some prompts, their texts, and what the rewards say of them."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from jaxgrpo.data import Prompt
from jaxgrpo.models import Params
from jaxgrpo.rewards import RewardItem, RewardPool, Score, outcome_metrics
from jaxgrpo.rollouts.demonstrations import with_demonstrations
from jaxgrpo.sampling import Completions, Prompts, Sampler, SamplingConfig, StopReason, left_pad
from jaxgrpo.tokenizers import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class DynamicSamplingConfig:
    """DAPO's: groups of equal raw rewards are thrown away, and prompts drawn to replace them."""

    enabled: bool = False
    """Whether to; every batch drawn counts as prompts, tokens and time of the step."""
    max_batches: int = 4
    """Batches of prompts a step draws at most; places left then are filled with groups that train
    nothing."""

    def __post_init__(self) -> None:
        if self.max_batches < 1:
            raise ValueError(f"max_batches must be at least 1, got {self.max_batches}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """How many completions a step learns from, and how they are drawn."""

    prompts_per_step: int = 32
    """Prompts a step, over all processes."""
    group_size: int = 8
    """Completions a prompt, G; advantages compare them with each other, so at least 2."""
    sampling: SamplingConfig = SamplingConfig()
    """The behaviour policy: the policy itself at some temperature."""
    mask_truncated: bool = False
    """Completions cut off at the longest length train nothing; they stay in their group's
    statistics."""
    count_truncated: bool = False
    """With `mask_truncated`: their tokens count in denominators all the same."""
    top_k_rows: int = 0
    """K, so many of the sampler's likeliest tokens are recorded at each position, for losses that
    compare them with the trainer's; DPPO's is 20. 0 records none. It doesn't change what is
    sampled, unlike `sampling.top_k`."""
    demonstrations: int = 0
    """N of the G completions of a prompt are its worked example, scored and compared with the
    sampled ones. Losses that ask for `off_policy` tell them apart; others take them for samples of
    the policy as it was before the step."""
    dynamic_sampling: DynamicSamplingConfig = DynamicSamplingConfig()
    """Drawing more prompts where groups have nothing to tell."""

    def __post_init__(self) -> None:
        if self.prompts_per_step < 1:
            raise ValueError(f"prompts_per_step must be at least 1, got {self.prompts_per_step}")
        if self.group_size < 2:
            raise ValueError(
                f"group_size must be at least 2, got {self.group_size}: a completion is compared "
                "with the others of its prompt"
            )
        if not 0 <= self.top_k_rows < 2**31:
            raise ValueError(f"top_k_rows must not be negative, got {self.top_k_rows}")
        if not 0 <= self.demonstrations < self.group_size:
            raise ValueError(
                f"demonstrations must be at least 0 and less than group_size {self.group_size}, "
                f"got {self.demonstrations}"
            )
        if self.demonstrations and self.top_k_rows:
            raise ValueError(
                "top_k_rows are the sampler's, and demonstrations have no sampler: one must be 0"
            )
        if self.count_truncated and not self.mask_truncated:
            raise ValueError("count_truncated goes with mask_truncated, which is off")
        if self.sampling.truncated:
            raise ValueError(
                "training samples from the whole distribution: set top_k 0, top_p 1, min_p 0 and a "
                "temperature above 0; a truncated one biases every ratio (evaluation may have it)"
            )


@dataclasses.dataclass(frozen=True)
class Rollout:
    """P prompts and their P * G completions, those of one prompt side by side. On the host."""

    prompts: Sequence[Prompt]
    group_size: int
    padded: Prompts
    completions: Completions
    texts: Sequence[str]
    scores: Sequence[Score]
    sampling_seconds: float
    reward_seconds: float
    demonstrations: int = 0
    """The last so many of each group were not sampled."""
    greedy_scores: Sequence[Score] | None = None
    """Of the P greedy completions, one a prompt, if there are such."""

    @property
    def sampled(self) -> Bool[np.ndarray, " B"]:
        """Which rows the policy drew itself."""
        number = np.arange(self.group_size) < self.group_size - self.demonstrations
        return np.tile(number, len(self.prompts))

    @property
    def rewards(self) -> Float[np.ndarray, " B"]:
        """Weighted sum of the reward functions; nan where one failed."""
        return np.array([score.total for score in self.scores], np.float32)

    @property
    def greedy_rewards(self) -> Float[np.ndarray, " B"] | None:
        """For each row, the reward of its prompt's greedy completion."""
        if self.greedy_scores is None:
            return None
        totals = np.array([score.total for score in self.greedy_scores], np.float32)
        return np.repeat(totals, self.group_size)

    @property
    def group_ids(self) -> Int[np.ndarray, " B"]:
        """Which of the rollout's prompts each row belongs to."""
        return np.repeat(np.arange(len(self.prompts), dtype=np.int32), self.group_size)

    def function_rewards(self, names: Sequence[str]) -> Float[np.ndarray, "B F"]:
        """The values of these reward functions, unweighted; nan where one failed."""
        rows = [[score.values.get(name, np.nan) for name in names] for score in self.scores]
        return np.array(rows, np.float32)

    def metrics(self) -> dict[str, float]:
        """What the sampled rows say before any update; fractions of rows, tokens, rewards."""
        sampled = self.sampled
        rewards = self.rewards[sampled].reshape(len(self.prompts), -1)
        scored = ~np.isnan(rewards)
        low = np.where(scored, rewards, np.inf).min(axis=1)
        high = np.where(scored, rewards, -np.inf).max(axis=1)
        lengths = self.completions.lengths[sampled]
        metrics = {
            "reward/mean": _mean(rewards[scored]),
            "reward/std": float(rewards[scored].std()) if scored.any() else float("nan"),
            "reward/groups_informative": float(np.mean(high > low)),
            "reward/failed_fraction": float(1 - scored.mean()),
            "length/mean": float(lengths.mean()),
            "length/max": float(lengths.max()),
            "length/truncated_fraction": float(
                np.mean(self.completions.stop_reasons[sampled] == StopReason.LENGTH)
            ),
        }
        if self.greedy_scores is not None:
            greedy = np.array([score.total for score in self.greedy_scores])
            metrics["reward/greedy_mean"] = _mean(greedy[~np.isnan(greedy)])
        names = sorted({name for score in self.scores for name in score.values})
        for name in names:
            values = self.function_rewards([name])[sampled, 0]
            metrics[f"reward/{name}"] = _mean(values[~np.isnan(values)])
        scored_rows = [score for score, drawn in zip(self.scores, sampled, strict=True) if drawn]
        return metrics | outcome_metrics(scored_rows)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")


def pad_prompts(prompts: Sequence[Prompt], config: SamplingConfig, pad_id: int) -> Prompts:
    """Prompts as the sampler takes them, padded to the bucket of the longest."""
    lengths = np.array([len(prompt.tokens) for prompt in prompts], np.int32)
    width = config.bucket(int(lengths.max()))
    ids = np.array([prompt.example.id for prompt in prompts], np.int32)
    return Prompts(left_pad([prompt.tokens for prompt in prompts], width, pad_id), lengths, ids)


def score_texts(
    pool: RewardPool,
    prompts: Sequence[Prompt],
    texts: Sequence[str],
    on_wait: Callable[[], None] | None = None,
) -> list[Score]:
    """The rewards of completions; row r belongs to prompt r // G."""
    group_size = len(texts) // max(len(prompts), 1)
    examples = [prompt.example for prompt in prompts for _ in range(group_size)]
    items = [
        RewardItem(
            question=example.question,
            completion=text,
            answer=example.answer,
            fields=example.fields,
        )
        for example, text in zip(examples, texts, strict=True)
    ]
    return pool.score(items, on_wait=on_wait)


def collect(
    sampler: Sampler,
    params: Params,
    prompts: Sequence[Prompt],
    tokenizer: Tokenizer,
    pool: RewardPool,
    *,
    key: PRNGKeyArray,
    group_size: int,
    demonstrations: int = 0,
    greedy_sampler: Sampler | None = None,
    on_tick: Callable[[], None] | None = None,
) -> Rollout:
    """Sample `group_size` completions of every prompt and score them.

    Args:
      sampler: draws them.
      params: of the policy.
      prompts: P of them.
      tokenizer: turns tokens into the text that is scored; never back.
      pool: scores it.
      key: of this rollout.
      group_size: G.
      demonstrations: N of the G are the prompt's worked example.
      greedy_sampler: draws one completion a prompt more, whose score is a baseline.
      on_tick: called between chunks of decoding and while rewards are waited for; what it raises
        ends the rollout, and nothing of it is kept.
    """
    start = time.perf_counter()
    padded = pad_prompts(prompts, sampler.config, sampler.pad_id)
    fan = group_size - demonstrations
    completions = sampler(params, padded, key=key, group_size=fan, on_chunk=on_tick)
    greedy: Completions | None = None
    if greedy_sampler is not None:
        greedy = greedy_sampler(params, padded, key=key, group_size=1, on_chunk=on_tick)
    if demonstrations:
        completions = with_demonstrations(completions, prompts, tokenizer, demonstrations)
    sampled = time.perf_counter()
    texts = _decoded(completions, tokenizer)
    scores = score_texts(pool, prompts, texts, on_tick)
    greedy_scores = None
    if greedy is not None:
        greedy_scores = score_texts(pool, prompts, _decoded(greedy, tokenizer), on_tick)
    return Rollout(
        prompts=prompts,
        group_size=group_size,
        padded=padded,
        completions=completions,
        texts=texts,
        scores=scores,
        sampling_seconds=sampled - start,
        reward_seconds=time.perf_counter() - sampled,
        demonstrations=demonstrations,
        greedy_scores=greedy_scores,
    )


def _decoded(completions: Completions, tokenizer: Tokenizer) -> list[str]:
    return [
        tokenizer.decode(row[:length].tolist())
        for row, length in zip(completions.tokens, completions.lengths, strict=True)
    ]
