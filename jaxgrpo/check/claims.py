"""The gradient an operator claims: per token on-policy, and in expectation by enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxgrpo.check.enumeration import Enumerated, enumerate_all, grouped, targets
from jaxgrpo.check.examples import Example, Tree, example, named_arrays
from jaxgrpo.check.properties import Outcome, compared, register
from jaxgrpo.check.subject import Subject

_CLAIMING = ("loss", "penalty", "row-penalty", "divergence")
_BANDIT, _SEQUENCES, _GROUPED = Tree(5, 1), Tree(3, 2), Tree(3, 1)
_SAMPLES = 4096


@register("on-policy gradient is -A", ("loss",))
def on_policy(subject: Subject) -> Outcome:
    """Where the policy is its own anchor, every token's gradient is minus its advantage."""
    if subject.claims != "policy_gradient":
        return Outcome(note=f"claims {subject.claims}")
    batch = example(subject, on_policy=True)
    gradient = np.asarray(batch.gradient(subject))
    return compared(
        gradient,
        -np.broadcast_to(np.asarray(batch.others["advantages"])[:, None], gradient.shape),
        tolerance=1e-9,
        diagnosis=lambda: _on_policy_fault(subject, batch, gradient),
    )


def _on_policy_fault(subject: Subject, batch: Example, gradient: np.ndarray) -> str:
    advantages = np.asarray(batch.others["advantages"])[:, None]
    factors, live = gradient / -advantages, np.asarray(batch.live)
    rows, tokens = factors.shape
    if not gradient.any():
        return "no gradient reaches log_probs: everything is detached"
    if np.allclose(factors, -1):
        return "wrong sign: the loss is maximised, every token is pushed against its advantage"
    for size, what in ((tokens, "T"), (rows, "B"), (rows * tokens, "B T")):
        if np.allclose(factors, 1 / size):
            return f"the gradient is -A / ({what}): a mean where a sum is wanted; don't reduce"
    beside = np.asarray(batch.gradient(subject, batch.live + 1e-6)) / -advantages
    if np.all((factors > 0.1) & (factors < 0.9)) and np.all(
        np.minimum(np.abs(beside), np.abs(beside - 1)) < 1e-3
    ):
        return (
            f"{factors.min():.3g} of the gradient at ratio 1 and all or none of it beside: a tie "
            "of min and clip, as at delta = 0; use a mask"
        )
    if np.allclose(factors, np.exp(live)):
        return "the gradient is scaled by the probability: pi where the ratio pi / anchor is wanted"
    if np.allclose(factors, 1 + live):
        return "the weight is not detached: sign flips below p = 0.37, where 1 + log p is negative"
    if np.allclose(added := gradient + advantages, (gradient + advantages).flat[0]):
        return f"the gradient is -A and {added.flat[0]:.4g} more at every token, whatever A is"
    if np.allclose(factors, factors.flat[0]):
        return f"every token's gradient is -A times {factors.flat[0]:.4g}: a factor too much"
    for side, words in ((advantages > 0, "positive"), (advantages < 0, "negative")):
        if not gradient[side[:, 0]].any():
            return f"no gradient at {words} advantages"
    dead = factors == 0
    if dead.any() and live[dead].max() < live[~dead].min():
        below = np.exp(live[~dead].min())
        return f"a clamp kills the gradient of unlikely tokens: none below p = {below:.3g} or so"
    return f"a token's gradient is -A times {factors.min():.4g} to {factors.max():.4g}"


def _expected(subject: Subject, tree: Tree) -> Outcome:
    if subject.claims == "none":
        return _names_nothing(subject, tree)
    together = grouped(subject)
    found = enumerate_all(subject, _GROUPED if together else tree, drift=False)
    target = found.targets[subject.claims]
    return compared(
        found.gradient,
        target,
        tolerance=1e-9,
        diagnosis=lambda: _expected_fault(subject, found),
        note="over every group of three" if together else "",
    )


def _names_nothing(subject: Subject, tree: Tree) -> Outcome:
    """A card that claims nothing is still told what there is."""
    if grouped(subject):
        return Outcome(note="claims none")
    found = enumerate_all(subject, tree, drift=False)
    if float(np.max(np.abs(found.gradient))) < 1e-12:
        return Outcome(note="claims none; the expected gradient is zero")
    match = _match(found)
    return Outcome(
        note=f"claims none; the expected gradient is {match}" if match else "claims none"
    )


def _expected_fault(subject: Subject, found: Enumerated) -> str:
    if float(np.max(np.abs(found.gradient))) < 1e-12:
        return (
            "the expected gradient is zero: k1 used as a loss; it regularises nothing. Use "
            "reverse_kl, or k2"
            if subject.claims != "policy_gradient"
            else "the expected gradient is zero: nothing is learnt"
        )
    target = found.targets[subject.claims]
    if factor := _factor(found.gradient, target):
        size = f"{factor:.4g} times " if factor > 0 else "minus "
        scaled = f" times {-factor:.4g}" if factor < 0 and not np.isclose(factor, -1) else ""
        reason = "a scale that the learning rate would hide" if factor > 0 else "wrong sign"
        return f"the expected gradient is {size}that of {_WORDS[subject.claims]}{scaled}: {reason}"
    match = _match(found)
    if match:
        return f"the expected gradient is {match}, and not that of {_WORDS[subject.claims]}"
    cosine = found.gradient @ target / np.linalg.norm(found.gradient) / np.linalg.norm(target)
    return (
        f"the expected gradient is that of no known objective; its cosine with that of "
        f"{_WORDS[subject.claims]} is {cosine:.4f}"
    )


_WORDS = {
    "policy_gradient": "minus the expected reward",
    "reverse_kl": "KL(policy || reference)",
    "forward_kl": "KL(reference || policy), the forward KL",
}


def _match(found: Enumerated) -> str:
    """Which named objective the gradient is that of, up to a factor."""
    for name, target in found.targets.items():
        if factor := _factor(found.gradient, target):
            if factor < 0:
                size = "" if np.isclose(factor, -1) else f" times {-factor:.4g}"
                return f"minus that of {_WORDS[name]}{size}: wrong sign"
            size = "" if np.isclose(factor, 1) else f"{factor:.4g} times "
            return f"{size}that of {_WORDS[name]}"
    return ""


def _factor(gradient: np.ndarray, target: np.ndarray) -> float:
    """By what the target is to be multiplied to be the gradient; 0 where no number will do."""
    factor = float(gradient @ target / (target @ target))
    return factor if np.allclose(gradient, factor * target, atol=1e-9) else 0.0


@register("expected gradient, one step", _CLAIMING)
def expected_one_step(subject: Subject) -> Outcome:
    """Enumerated over a softmax of five outcomes, sampled from itself."""
    return _expected(subject, _BANDIT)


@register("expected gradient, two steps", _CLAIMING)
def expected_two_steps(subject: Subject) -> Outcome:
    """Enumerated over all sequences of two tokens of an autoregressive policy."""
    return _expected(subject, _SEQUENCES)


@register("expected gradient, off-policy", ("loss", "penalty", "row-penalty"))
def expected_off_policy(subject: Subject) -> Outcome:
    """A penalty times the detached ratio has its gradient; a loss ascends the expected reward."""
    if subject.claims == "none" or subject.level in ("group", "batch"):
        return Outcome(note="claims nothing here")
    if subject.family.name == "penalty":
        return _penalty_off_policy(subject)
    found = enumerate_all(subject, _BANDIT, drift=True)
    if subject.family.name == "row-penalty":  # whichever token was sampled, it sees all of them
        return compared(
            found.gradient,
            found.targets[subject.claims],
            tolerance=1e-9,
            diagnosis=lambda: _expected_fault(subject, found),
        )
    target = found.targets["policy_gradient"]
    gap = float(np.max(np.abs(found.gradient - target)))
    if not found.gradient.any():
        return Outcome(error=gap, note="everything is cut so far from the anchor")
    cosine = found.gradient @ target / np.linalg.norm(found.gradient) / np.linalg.norm(target)
    if not cosine > 0:
        return Outcome(
            error=gap,
            diagnosis="off-policy the expected step lowers the expected reward "
            f"(cosine {cosine:.3f}): is the ratio upside down?",
        )
    exact = gap < 1e-9
    return Outcome(
        error=gap,
        note="the policy gradient, exactly" if exact else f"cosine {cosine:.4f} with it",
    )


def _penalty_off_policy(subject: Subject) -> Outcome:
    tree, seed = _BANDIT, 5
    theta, reference = tree.parameters(seed), tree.parameters(seed + 2)
    sampler = tree.parameters(seed + 1, near=theta)
    other = tree.log_probs(jnp.asarray(reference))
    weights = jnp.exp(tree.log_probs(jnp.asarray(sampler)))
    moved = jnp.exp(tree.log_probs(jnp.asarray(theta)) - tree.log_probs(jnp.asarray(sampler)))
    where = jnp.ones(other.shape, bool)

    @jax.jit
    @jax.grad
    def mean(parameters: Array) -> Array:
        values = subject(tree.log_probs(parameters), {"reference_log_probs": other}, where)
        return jnp.sum(weights * moved * values)

    probabilities = np.exp(np.asarray(tree.log_probs(jnp.asarray(theta)))[:, 0])
    zeros = np.zeros(len(probabilities))
    known = targets(tree, theta, reference, probabilities, zeros)
    return compared(
        mean(jnp.asarray(theta)),
        known[subject.claims],
        tolerance=1e-9,
        diagnosis=f"times the detached ratio, it is not the gradient of {_WORDS[subject.claims]}",
    )


@register("Monte Carlo", ("loss", "penalty"))
def monte_carlo(subject: Subject) -> Outcome:
    """The mean gradient of sampled sequences is the enumerated one, within 4 standard errors."""
    if subject.level == "batch" or grouped(subject):
        return Outcome(note="rows of a batch are not independent")
    tree, seed = _SEQUENCES, 5
    theta = tree.parameters(seed)
    loss = subject.family.name == "loss"
    reference = theta if loss else tree.parameters(seed + 2, near=theta)
    rewards = np.random.default_rng(seed).normal(size=len(tree.sequences))
    probabilities = np.exp(np.asarray(tree.log_probs(jnp.asarray(theta))).sum(1))
    drawn = np.random.default_rng(17).choice(len(probabilities), size=_SAMPLES, p=probabilities)
    rows = np.asarray(tree.rows(jnp.asarray(theta)))[drawn]
    batch = named_arrays(
        subject,
        policy=rows,
        anchor=rows,
        reference=np.asarray(tree.rows(jnp.asarray(reference)))[drawn],
        tokens=tree.sequences[drawn],
        advantages=(rewards - probabilities @ rewards)[drawn],
        rewards=(rewards[drawn] > 0) * 1.0,
        group_ids=np.arange(_SAMPLES),
        off_policy=np.zeros((_SAMPLES, tree.steps), bool),
        where=np.ones((_SAMPLES, tree.steps), bool),
    )
    pull = np.asarray(batch.gradient(subject))
    scores = np.asarray(jax.jacobian(tree.log_probs)(jnp.asarray(theta)))[drawn]
    each = np.einsum("bt,btn->bn", pull, scores)
    exact = enumerate_all(subject, tree, drift=False, seed=seed).gradient
    errors = each.std(0, ddof=1) / np.sqrt(_SAMPLES)
    away = np.abs(each.mean(0) - exact) / np.maximum(errors, 1e-9)
    worst = float(away.max())
    return Outcome(
        error=worst,
        tolerance=4.0,
        diagnosis=""
        if worst <= 4
        else "sampling does not give the enumerated gradient: a row's gradient depends on others",
        note="standard errors",
    )
