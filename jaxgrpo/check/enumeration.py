"""An operator's exact mean gradient over everything that a small policy can do."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgrpo.check.examples import Example, Tree, named_arrays
from jaxgrpo.check.subject import Subject

GROUP = 3


def grouped(subject: Subject) -> bool:
    """Whether its rows mean something only together with others."""
    return subject.level == "group" or "group_ids" in subject.needs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Enumerated:
    """An operator's exact mean gradient over everything a small policy can do."""

    gradient: Float[np.ndarray, " N"]
    targets: dict[str, Float[np.ndarray, " N"]]
    """Gradients of named objectives, to be minimised."""


def enumerate_all(subject: Subject, tree: Tree, *, drift: bool, seed: int = 5) -> Enumerated:
    """The mean gradient over all sequences of a tree, or over all groups of three of them.

    Args:
      subject: the operator.
      tree: of the policy; its sequences are drawn from it, or with `drift` from one nearby.
      drift: whether the policy has moved away from the sampler.
      seed: of policies and rewards.
    """
    theta = tree.parameters(seed)
    sampler = tree.parameters(seed + 1, near=theta) if drift else theta
    # A loss that has a penalty of its own claims the policy gradient at its reference.
    loss = subject.family.name == "loss"
    reference = theta if loss else tree.parameters(seed + 2, near=theta)
    random = np.random.default_rng(seed)
    rewards = random.normal(size=len(tree.sequences))
    together = grouped(subject)
    picks = _groups(tree) if together else np.arange(len(tree.sequences))
    probabilities = np.exp(np.asarray(tree.log_probs(jnp.asarray(sampler))).sum(1))
    weights = (
        np.repeat(probabilities[picks.reshape(-1, GROUP)].prod(1), GROUP)
        if together
        else probabilities
    )
    advantages = rewards - probabilities @ rewards
    policy_rows = np.asarray(tree.rows(jnp.asarray(theta)))
    batch = named_arrays(
        subject,
        policy=policy_rows[picks],
        anchor=np.asarray(tree.rows(jnp.asarray(sampler)))[picks],
        reference=np.asarray(tree.rows(jnp.asarray(reference)))[picks],
        tokens=tree.sequences[picks],
        advantages=advantages[picks],
        rewards=(rewards[picks] > 0) * 1.0,
        group_ids=np.arange(len(picks)) // GROUP if together else np.arange(len(picks)),
        off_policy=np.zeros((len(picks), tree.steps), bool),
        where=np.ones((len(picks), tree.steps), bool),
    )
    batch = _as_policy(subject, batch, np.asarray(tree.log_probs(jnp.asarray(reference)))[picks])

    @jax.jit
    @jax.grad
    def mean(parameters: Array) -> Array:
        values = _policy_values(subject, batch, tree, parameters, picks)
        return jnp.sum(jnp.asarray(weights)[:, None] * values)

    return Enumerated(
        gradient=np.asarray(mean(jnp.asarray(theta))),
        targets=targets(tree, theta, reference, probabilities, rewards),
    )


def _as_policy(subject: Subject, batch: Example, reference: np.ndarray) -> Example:
    """A divergence's claim is about its first argument: the policy is what was sampled from."""
    if subject.family.name != "divergence":
        return batch
    return batch.replace(live=jnp.asarray(reference))


def _policy_values(
    subject: Subject, batch: Example, tree: Tree, parameters: Array, picks: np.ndarray
) -> Array:
    """The values as a function of the policy's parameters."""
    if subject.family.live == "rows":
        return subject(tree.rows(parameters)[picks], batch.others, batch.where)
    log_probs = tree.log_probs(parameters)[picks]
    if subject.family.name == "divergence":
        return subject(batch.live, {"sampler_log_probs": log_probs}, batch.where)
    return subject(log_probs, batch.others, batch.where)


def targets(
    tree: Tree,
    theta: np.ndarray,
    reference: np.ndarray,
    probabilities: np.ndarray,
    rewards: np.ndarray,
) -> dict[str, np.ndarray]:
    """Exact gradients: of minus the expected reward, and of the KL at every prefix that occurs."""
    other = tree.rows(jnp.asarray(reference))

    def reward(parameters: Array) -> Array:
        return -jnp.sum(jnp.exp(tree.log_probs(parameters).sum(1)) * rewards)

    def kl(parameters: Array, *, policy_first: bool) -> Array:
        rows = tree.rows(parameters)
        p, q = (rows, other) if policy_first else (other, rows)
        # Every sequence brings the rows that it passes, with its probability under the sampler.
        return jnp.sum(probabilities[:, None] * jnp.sum(jnp.exp(p) * (p - q), axis=-1))

    at = jnp.asarray(theta)
    return {
        "policy_gradient": np.asarray(jax.grad(reward)(at)),
        "reverse_kl": np.asarray(jax.grad(lambda x: kl(x, policy_first=True))(at)),
        "forward_kl": np.asarray(jax.grad(lambda x: kl(x, policy_first=False))(at)),
    }


def _groups(tree: Tree) -> np.ndarray:
    """Indices of the rows of every group of sequences there is, one group after the other."""
    count = len(tree.sequences)
    return np.stack(np.unravel_index(np.arange(count**GROUP), (count,) * GROUP), 1).ravel()
