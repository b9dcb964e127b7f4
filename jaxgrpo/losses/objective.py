"""A policy loss, a penalty and an aggregation composed into the scalar that a step descends."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.core.masking import masked_sum, zero_where_masked
from jaxgrpo.losses.measures import Metrics, measure
from jaxgrpo.losses.reasons import Reason, reasons_of
from jaxgrpo.losses.token_inputs import SUPPLIED, TokenInputs

__all__ = ["SUPPLIED", "Metrics", "Objective", "Penalty", "PolicyLoss", "Reason", "TokenInputs"]

PolicyLoss = Callable[..., Float[Array, "B T"]]
Penalty = Callable[..., Float[Array, "B T"]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """Sum over rows of row weight times the row's token losses: parts of a batch simply add up.

    Detached token weights multiply the policy term alone; the penalty, the entropy bonus and the
    likelihood of positive rows are of all trainable tokens. All of them share the row weights.

    The penalty is weighted by the detached ratio of the policy to the behaviour policy, so that its
    expected gradient stays the declared one after the policy has moved away from its samples. A
    penalty on rows is a sum over the policy's own distribution, whichever token was sampled: it has
    no such weight. That prefixes came from the behaviour policy is corrected in neither.
    """

    policy_loss: PolicyLoss
    needs: tuple[str, ...] = ()
    """Names of batch arrays that the policy loss takes as keywords."""
    level: str = "token"
    """What one value of the policy loss depends on; see `Card.level`."""
    penalty: Penalty | None = None
    row_penalty: Penalty | None = None
    """Of whole distributions, instead of `penalty`; worked out where the logits are."""
    penalty_coefficient: float = 0.0
    entropy_bonus: float = 0.0
    """What the mean entropy is multiplied with before it is taken off the loss."""
    positive_nll: float = 0.0
    """What -log p at the tokens of rows with a reward above 0 is multiplied with."""
    measures_reference: bool = False
    """Whether divergences from a reference are logged although nothing else reads it."""
    measures_rows: bool = False
    """Whether the exact KL to it is, too."""

    @property
    def uses_reference(self) -> bool:
        """Whether a reference policy must be kept."""
        return self.uses_reference_log_probs or self.compares_rows

    @property
    def compares_rows(self) -> bool:
        """Whether the loss must be given the reference's parameters, to compare whole rows."""
        return self.row_penalty is not None or self.measures_rows

    @property
    def uses_reference_log_probs(self) -> bool:
        """Whether the batch must hold log-probs under a reference policy."""
        used = self.penalty is not None or "reference_log_probs" in self.needs
        return used or self.measures_reference

    @property
    def uses_tops(self) -> bool:
        """Whether the live policy is scored at the sampler's likeliest tokens."""
        return "top_log_probs" in self.needs

    def __call__(
        self,
        log_probs: Float[Array, "B T"],
        entropies: Float[Array, "B T"],
        inputs: TokenInputs,
        *,
        row_penalties: Float[Array, "B T"] | None = None,
    ) -> tuple[Float[Array, ""], tuple[dict[str, Array], Metrics]]:
        """The loss of these rows, and what to log about them.

        Args:
          log_probs: [B, T], nats, of the tokens under the policy; gradients flow through it.
          entropies: [B, T], nats; for metrics, and for losses that need them.
          inputs: the rest of the batch.
          row_penalties: [B, T], what `row_penalty` gave; gradients flow through it.

        Returns:
          The scalar, and (parts, metrics): parts add up over micro-batches as the scalar does.
        """
        inputs = inputs.as_dtype(log_probs.dtype)
        losses, pull = jax.vjp(lambda x: self._token_losses(x, entropies, inputs), log_probs)
        policy = _weighted(_times_weights(losses, inputs), inputs)
        parts = {"loss/policy": policy}
        total = policy
        detached = jax.lax.stop_gradient(log_probs)
        if self._penalised:
            penalty = self._penalty(log_probs, inputs, row_penalties)
            parts["loss/penalty"] = self.penalty_coefficient * _weighted(penalty, inputs)
            total = total + parts["loss/penalty"]
        if self.entropy_bonus:
            parts["loss/entropy"] = -self.entropy_bonus * _weighted(entropies, inputs)
            total = total + parts["loss/entropy"]
        if self.positive_nll:
            parts["loss/positive_nll"] = self.positive_nll * _positive_nll(log_probs, inputs)
            total = total + parts["loss/positive_nll"]
        weights = -jax.lax.stop_gradient(pull(_cotangents(losses, inputs))[0])
        metrics = measure(detached, jax.lax.stop_gradient(entropies), weights, inputs)
        return total, (parts, metrics)

    def gradient_weights(
        self, log_probs: Float[Array, "B T"], entropies: Float[Array, "B T"], inputs: TokenInputs
    ) -> tuple[Float[Array, "B T"], Int[Array, "B T"]]:
        """What multiplies each token's grad log p when the loss is descended, and the `Reason`.

        At ratio 1 the weight is the advantage. From autodiff of the policy loss itself, penalty and
        aggregation left out.
        """
        inputs = inputs.as_dtype(log_probs.dtype)
        losses, pull = jax.vjp(lambda x: self._token_losses(x, entropies, inputs), log_probs)
        weights = -pull(_cotangents(losses, inputs))[0]
        return weights, reasons_of(weights, log_probs, inputs)

    def _token_losses(self, log_probs: Array, entropies: Array, inputs: TokenInputs) -> Array:
        if inputs.token_weights is not None and self.level == "token":
            # No gradient of a dropped token, not even that of an infinite ratio times 0.
            kept = inputs.token_weights != 0
            log_probs = jnp.where(kept, log_probs, jax.lax.stop_gradient(log_probs))
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
            inputs.anchor_of(log_probs),
            inputs.advantages,
            where=inputs.where,
            **{name: supplied[name] for name in self.needs},
        )

    @property
    def _penalised(self) -> bool:
        given = self.penalty is not None or self.row_penalty is not None
        return given and self.penalty_coefficient != 0

    def _penalty(self, log_probs: Array, inputs: TokenInputs, rows: Array | None) -> Array:
        if self.row_penalty is not None:
            if rows is None:
                raise ValueError("the penalty needs row_penalties, got None")
            return zero_where_masked(rows, inputs.where)
        if inputs.reference_log_probs is None or self.penalty is None:
            raise ValueError("the penalty needs reference_log_probs, got None")
        penalty = self.penalty(log_probs, inputs.reference_log_probs, where=inputs.where)
        moved = zero_where_masked(log_probs - inputs.behaviour_log_probs, inputs.where)
        return jax.lax.stop_gradient(jnp.exp(moved)) * penalty


def _positive_nll(log_probs: Array, inputs: TokenInputs) -> Array:
    if inputs.rewards is None:
        raise ValueError("positive_nll needs rewards, got None")
    positive = jnp.broadcast_to((inputs.rewards > 0)[:, None], log_probs.shape)
    return _weighted(jnp.where(positive, -log_probs, 0), inputs)


def _times_weights(losses: Array, inputs: TokenInputs) -> Array:
    weights = inputs.token_weights
    if weights is None:
        return losses
    # Selected, since the loss of a dropped token may be anything.
    return jnp.where(weights != 0, losses, 0) * zero_where_masked(weights, inputs.where)


def _cotangents(losses: Array, inputs: TokenInputs) -> Array:
    """What the token losses are summed with, row weights aside."""
    return _times_weights(jnp.ones_like(losses), inputs)


def _weighted(losses: Array, inputs: TokenInputs) -> Array:
    rows = masked_sum(losses, inputs.where, axis=-1)
    # Selected, since a row of weight 0 may be anything.
    return jnp.sum(jnp.where(inputs.row_weights > 0, rows * inputs.row_weights, 0))
