"""What an objective reads of a batch besides live log-probs, and what losses may ask for of it."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenInputs:
    """Everything but the live log-probs that the objective reads; none of it carries gradient."""

    behaviour_log_probs: Float[Array, "B T"]
    anchor_log_probs: Float[Array, "B T"] | None
    """None: the anchor is the live policy itself, so that every ratio is exactly 1."""
    reference_log_probs: Float[Array, "B T"] | None
    advantages: Float[Array, " B"] | Float[Array, "B T"]
    where: Bool[Array, "B T"]
    """Trainable tokens."""
    row_weights: Float[Array, " B"]
    """From `aggregation.row_weights`, made over the whole optimiser step."""
    group_ids: Int[Array, " B"]
    rewards: Float[Array, " B"] | None = None
    anchor_entropies: Float[Array, "B T"] | None = None
    """None, as for the anchor: those of the live policy."""
    key: PRNGKeyArray | None = None
    """Of this optimiser step, for losses that choose tokens at random."""
    token_weights: Float[Array, "B T"] | None = None
    """What the policy term of each token is multiplied with; 0 drops it. None: 1 everywhere."""
    dropped: Int[Array, "B T"] | None = None
    """The `Reason` that a token was left out for before the loss, and 0 where it wasn't."""
    behaviour_top_log_probs: Float[Array, "B T K"] | None = None
    """Nats, of the sampler's K likeliest tokens at each position."""
    top_log_probs: Float[Array, "B T K"] | None = None
    """Those tokens under the live policy."""
    off_policy: Bool[Array, "B T"] | None = None
    """Tokens of demonstrations; None: there are none."""
    reference_kl: Float[Array, "B T"] | None = None
    """KL(policy || reference) over the whole vocabulary; to be logged."""

    @property
    def token_advantages(self) -> Float[Array, "B T"]:
        """The advantages, one a token."""
        if self.advantages.ndim == self.where.ndim:
            return self.advantages
        return jnp.broadcast_to(self.advantages[:, None], self.where.shape)

    def anchor_of(self, log_probs: Float[Array, "B T"]) -> Float[Array, "B T"]:
        """The anchor's log-probs, which may be the live policy's own."""
        if self.anchor_log_probs is None:
            return jax.lax.stop_gradient(log_probs)
        return self.anchor_log_probs

    def as_dtype(self, dtype: jnp.dtype) -> "TokenInputs":
        """The floating arrays in that of the live log-probs: a sampler may have recorded less."""

        def cast(leaf: Array) -> Array:
            return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

        return jax.tree.map(cast, self)


# What `needs` may name: the fields above, and the live policy's entropies.
SUPPLIED = frozenset(
    {
        "anchor_entropies",
        "behaviour_log_probs",
        "behaviour_top_log_probs",
        "entropies",
        "group_ids",
        "key",
        "off_policy",
        "reference_log_probs",
        "rewards",
        "top_log_probs",
    }
)
