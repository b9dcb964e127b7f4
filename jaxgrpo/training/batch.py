"""The batch that crosses from rollouts to training: one frozen pytree of arrays with B rows."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Int, UInt32

from jaxgrpo.losses.objective import TokenInputs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """Prompts, completions and what the sampler and the rewards said of them.

    Lengths and masks come from the sampler as data; nothing is ever read off a token's value, so
    the padding may hold anything.
    """

    prompt_tokens: Int[Array, "B P"]
    """Left-padded: the last slot holds the token before the completion."""
    prompt_lengths: Int[Array, " B"]
    completion_tokens: Int[Array, "B T"]
    """Right-padded."""
    completion_lengths: Int[Array, " B"]
    trainable: Bool[Array, "B T"]
    """Tokens that the loss counts; a subset of the completion."""
    behaviour_log_probs: Float[Array, "B T"]
    """Nats, recorded by the sampler."""
    anchor_log_probs: Float[Array, "B T"] | None = None
    """Where the trust region is centred; None: the live policy, for a single optimiser step."""
    reference_log_probs: Float[Array, "B T"] | None = None
    advantages: Float[Array, " B"] | Float[Array, "B T"]
    group_ids: Int[Array, " B"]
    row_weights: Float[Array, " B"]
    """From `aggregation.row_weights` over the rows of one optimiser step."""
    rewards: Float[Array, " B"] | None = None
    """Weighted sum of the reward functions; nan where one failed."""
    anchor_entropies: Float[Array, "B T"] | None = None
    """Nats, under the anchor policy; for losses that compare entropies."""
    step_seed: UInt32[Array, " B"] | None = None
    """One number for the optimiser step, in every row so that it travels with them."""
    token_weights: Float[Array, "B T"] | None = None
    """Detached, multiplied onto the policy term; 0 drops a token. None: 1 everywhere."""
    dropped: Int[Array, "B T"] | None = None
    """The `Reason` that a token was left out for before the loss, and 0 where it wasn't."""
    counted: Bool[Array, "B T"] | None = None
    """Tokens that denominators count, where these aren't the trainable ones."""
    top_ids: Int[Array, "B T K"] | None = None
    """The sampler's K likeliest tokens at each position."""
    behaviour_top_log_probs: Float[Array, "B T K"] | None = None
    """Nats, under the sampler."""

    off_policy: Bool[Array, "B T"] | None = None
    """Tokens of demonstrations, which nobody sampled. None: there are none."""

    @property
    def rows(self) -> int:
        """B."""
        return self.prompt_tokens.shape[0]

    def token_inputs(self) -> TokenInputs:
        """What the objective reads besides the live log-probs."""
        return TokenInputs(
            behaviour_log_probs=self.behaviour_log_probs,
            anchor_log_probs=self.anchor_log_probs,
            reference_log_probs=self.reference_log_probs,
            advantages=self.advantages,
            where=self.trainable,
            row_weights=self.row_weights,
            group_ids=self.group_ids,
            rewards=self.rewards,
            anchor_entropies=self.anchor_entropies,
            token_weights=self.token_weights,
            dropped=self.dropped,
            off_policy=self.off_policy,
            behaviour_top_log_probs=self.behaviour_top_log_probs,
            key=None if self.step_seed is None else jax.random.key(self.step_seed[0]),
        )

    def take(self, rows: Any) -> "Batch":
        """The batch of some rows, by slice or index."""
        return jax.tree.map(lambda leaf: leaf[rows], self)
