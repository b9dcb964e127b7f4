"""A policy loss, a penalty and an aggregation composed into the scalar that a step descends."""

import dataclasses
import enum
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxgrpo.core.masking import masked_sum, zero_where_masked
from jaxgrpo.divergences import kl1, kl3
from jaxgrpo.metrics.mean import Mean

PolicyLoss = Callable[..., Float[Array, "B T"]]
Penalty = Callable[..., Float[Array, "B T"]]
Metrics = dict[str, Mean]


class Reason(enum.IntEnum):
    """What became of a token's gradient; the order is that of the recorded files, append only.

    A token without gradient was clipped high (A > 0, the ratio above 1), clipped low (A < 0,
    below 1), dual-clipped (A < 0, above 1), or cut by something else. A sequence gate, a mismatch
    mask and truncation are for masks made before the loss.
    """

    PADDING = 0
    KEPT = 1
    CLIPPED_HIGH = 2
    CLIPPED_LOW = 3
    DUAL = 4
    SEQUENCE_GATE = 5
    MISMATCH_MASK = 6
    TRUNCATED = 7
    ZERO_VARIANCE = 8
    CUT = 9


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenInputs:
    """Everything but the live log-probs that the objective reads; none of it carries gradient."""

    behaviour_log_probs: Float[Array, "B T"]
    anchor_log_probs: Float[Array, "B T"] | None
    """None: the anchor is the live policy itself, so that every ratio is exactly 1."""
    reference_log_probs: Float[Array, "B T"] | None
    advantages: Float[Array, " B"]
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


# What `needs` may name: the fields above, and the live policy's entropies.
SUPPLIED = frozenset(
    {
        "anchor_entropies",
        "behaviour_log_probs",
        "entropies",
        "group_ids",
        "key",
        "reference_log_probs",
        "rewards",
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """Sum over rows of row weight times the row's token losses: parts of a batch simply add up.

    The penalty is weighted by the detached ratio of the policy to the behaviour policy, so that its
    expected gradient stays the declared one after the policy has moved away from its samples.
    """

    policy_loss: PolicyLoss
    needs: tuple[str, ...] = ()
    """Names of batch arrays that the policy loss takes as keywords."""
    level: str = "token"
    """What one value of the policy loss depends on; see `Card.level`."""
    penalty: Penalty | None = None
    penalty_coefficient: float = 0.0

    @property
    def uses_reference(self) -> bool:
        """Whether the batch must hold log-probs under a reference policy."""
        return self.penalty is not None or "reference_log_probs" in self.needs

    def __call__(
        self, log_probs: Float[Array, "B T"], entropies: Float[Array, "B T"], inputs: TokenInputs
    ) -> tuple[Float[Array, ""], tuple[dict[str, Array], Metrics]]:
        """The loss of these rows, and what to log about them.

        Args:
          log_probs: [B, T], nats, of the tokens under the policy; gradients flow through it.
          entropies: [B, T], nats; for metrics, and for losses that need them.
          inputs: the rest of the batch.

        Returns:
          The scalar, and (parts, metrics): parts add up over micro-batches as the scalar does.
        """
        inputs = _as_dtype(inputs, log_probs.dtype)
        losses, pull = jax.vjp(lambda x: self._token_losses(x, entropies, inputs), log_probs)
        policy = _weighted(losses, inputs)
        parts = {"loss/policy": policy}
        total = policy
        detached = jax.lax.stop_gradient(log_probs)
        if self.penalty is not None and self.penalty_coefficient:
            penalty = self._penalty(log_probs, inputs)
            parts["loss/penalty"] = self.penalty_coefficient * _weighted(penalty, inputs)
            total = total + parts["loss/penalty"]
        weights = -jax.lax.stop_gradient(pull(jnp.ones_like(losses))[0])
        metrics = _metrics(detached, jax.lax.stop_gradient(entropies), weights, inputs)
        return total, (parts, metrics)

    def gradient_weights(
        self, log_probs: Float[Array, "B T"], entropies: Float[Array, "B T"], inputs: TokenInputs
    ) -> tuple[Float[Array, "B T"], Int[Array, "B T"]]:
        """What multiplies each token's grad log p when the loss is descended, and the `Reason`.

        At ratio 1 the weight is the advantage. From autodiff of the policy loss itself, penalty and
        aggregation left out.
        """
        inputs = _as_dtype(inputs, log_probs.dtype)
        losses, pull = jax.vjp(lambda x: self._token_losses(x, entropies, inputs), log_probs)
        weights = -pull(jnp.ones_like(losses))[0]
        return weights, _reasons(weights, log_probs, inputs)

    def _token_losses(self, log_probs: Array, entropies: Array, inputs: TokenInputs) -> Array:
        live = jax.lax.stop_gradient(entropies)
        supplied = {
            **vars(inputs),
            "entropies": entropies,
            "anchor_entropies": live
            if inputs.anchor_entropies is None
            else inputs.anchor_entropies,
        }
        missing = [name for name in self.needs if supplied[name] is None]
        if missing:
            raise ValueError(f"the policy loss needs {missing[0]}, got None")
        return self.policy_loss(
            log_probs,
            _anchor(log_probs, inputs),
            inputs.advantages,
            where=inputs.where,
            **{name: supplied[name] for name in self.needs},
        )

    def _penalty(self, log_probs: Array, inputs: TokenInputs) -> Array:
        if inputs.reference_log_probs is None or self.penalty is None:
            raise ValueError("the penalty needs reference_log_probs, got None")
        penalty = self.penalty(log_probs, inputs.reference_log_probs, where=inputs.where)
        moved = zero_where_masked(log_probs - inputs.behaviour_log_probs, inputs.where)
        return jax.lax.stop_gradient(jnp.exp(moved)) * penalty


def _anchor(log_probs: Array, inputs: TokenInputs) -> Array:
    if inputs.anchor_log_probs is None:
        return jax.lax.stop_gradient(log_probs)
    return inputs.anchor_log_probs


def _weighted(losses: Array, inputs: TokenInputs) -> Array:
    rows = masked_sum(losses, inputs.where, axis=-1)
    # Selected, since a row of weight 0 may be anything.
    return jnp.sum(jnp.where(inputs.row_weights > 0, rows * inputs.row_weights, 0))


def _as_dtype(inputs: TokenInputs, dtype: jnp.dtype) -> TokenInputs:
    """The floating arrays in the dtype of the live log-probs: a sampler may have recorded less."""

    def cast(leaf: Array) -> Array:
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, inputs)


def _metrics(log_probs: Array, entropies: Array, weights: Array, inputs: TokenInputs) -> Metrics:
    where = inputs.where
    anchor, behaviour = _anchor(log_probs, inputs), inputs.behaviour_log_probs
    reasons = _reasons(weights, log_probs, inputs)
    # Tokens without an advantage have no gradient to clip: they are in no clip fraction.
    moving = where & (inputs.advantages != 0)[:, None]

    def fraction(reason: Reason) -> Mean:
        return Mean.of(reasons == reason, moving)

    metrics = {
        "divergence/anchor_kl3": Mean.of(kl3(anchor, log_probs, where=where), where),
        "clip/fraction_low": fraction(Reason.CLIPPED_LOW),
        "clip/fraction_high": fraction(Reason.CLIPPED_HIGH),
        "clip/fraction_dual": fraction(Reason.DUAL),
        "entropy/mean": Mean.of(entropies, where),
        "mismatch/mean_abs": Mean.of(jnp.abs(kl1(behaviour, log_probs, where=where)), where),
        "mismatch/kl3": Mean.of(kl3(behaviour, log_probs, where=where), where),
    }
    if inputs.reference_log_probs is not None:
        reference = kl3(log_probs, inputs.reference_log_probs, where=where)
        metrics["divergence/reference_kl3"] = Mean.of(reference, where)
    return metrics


def _reasons(weights: Array, log_probs: Array, inputs: TokenInputs) -> Array:
    """The reason of each token, read off its gradient weight and its side of the anchor."""
    advantages = jnp.broadcast_to(inputs.advantages[:, None], log_probs.shape)
    anchor = _anchor(log_probs, inputs)
    further, nearer = log_probs > anchor, log_probs < anchor
    clipped = (weights == 0) & (advantages != 0)
    cases = [
        (~inputs.where, Reason.PADDING),
        (advantages == 0, Reason.ZERO_VARIANCE),
        (clipped & further & (advantages > 0), Reason.CLIPPED_HIGH),
        (clipped & nearer & (advantages < 0), Reason.CLIPPED_LOW),
        (clipped & further, Reason.DUAL),
        (clipped, Reason.CUT),
    ]
    conditions = [condition for condition, _ in cases]
    values = [jnp.full(log_probs.shape, reason, jnp.int8) for _, reason in cases]
    return jnp.select(conditions, values, jnp.int8(Reason.KEPT))
