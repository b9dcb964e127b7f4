"""Expected gradients by enumeration: every sequence of a small softmax policy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

LENGTH, VOCABULARY = 2, 4
SEQUENCES = np.array(list(itertools.product(range(VOCABULARY), repeat=LENGTH)))


class Enumeration:
    """All sequences of two tokens out of four, under a policy with independent positions."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        self.logits = random.normal(size=(LENGTH, VOCABULARY))
        self.reference_logits = random.normal(size=(LENGTH, VOCABULARY))
        self.rewards = random.normal(size=len(SEQUENCES))

    def log_probs(self, logits):
        """[S, T]: each token of each sequence."""
        rows = jax.nn.log_softmax(jnp.asarray(logits), axis=-1)
        return jnp.stack([rows[t][SEQUENCES[:, t]] for t in range(LENGTH)], axis=-1)

    def expected_gradient(self, token_values):
        """The mean over sampled sequences of the gradient of the token values' sum."""

        def mean(logits):
            log_probs = self.log_probs(logits)
            probabilities = jax.lax.stop_gradient(jnp.exp(log_probs.sum(-1)))
            return jnp.sum(probabilities * token_values(log_probs).sum(-1))

        return jax.jit(jax.grad(mean))(jnp.asarray(self.logits))

    def policy_gradient(self):
        """The gradient of the expected reward."""
        return jax.grad(lambda z: jnp.sum(jnp.exp(self.log_probs(z).sum(-1)) * self.rewards))(
            jnp.asarray(self.logits)
        )

    def kl_gradient(self, policy_first):
        """The gradient of KL(policy || reference), or with the two swapped, from whole rows."""

        def kl(logits):
            rows = (
                jax.nn.log_softmax(logits),
                jax.nn.log_softmax(jnp.asarray(self.reference_logits)),
            )
            p, q = rows if policy_first else rows[::-1]
            return jnp.sum(jnp.exp(p) * (p - q))

        return jax.grad(kl)(jnp.asarray(self.logits))


@pytest.fixture
def enumeration():
    with jax.enable_x64(True):
        yield Enumeration()
