"""Rows of one token each, at chosen probabilities: where the map of a loss is drawn from."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgrpo.check.examples import Example
from jaxgrpo.check.subject import Subject

# Of what the sampled token leaves, the part that the likeliest other token has.
_LARGEST_OTHER = 0.6


def single_tokens(
    subject: Subject,
    log_probs: Float[np.ndarray, " N"],
    anchor_log_probs: Float[np.ndarray, " N"],
    advantages: Float[np.ndarray, " N"],
) -> Example:
    """N rows of one token. What else the operator needs says that nothing else has moved."""
    live, anchor = (jnp.asarray(x)[:, None] for x in (log_probs, anchor_log_probs))
    named: dict[str, Array] = {
        "log_probs": live,
        "anchor_log_probs": anchor,
        "advantages": jnp.asarray(advantages),
        "behaviour_log_probs": anchor,
        "reference_log_probs": live,
        "entropies": jnp.ones(live.shape),
        "anchor_entropies": jnp.ones(live.shape),
        "rewards": jnp.asarray((advantages > 0) * 1.0),
        "group_ids": jnp.arange(len(advantages), dtype=jnp.int32),
        "off_policy": jnp.zeros(live.shape, bool),
        "key": jax.random.key(0),
        "top_log_probs": _others(live),
        "behaviour_top_log_probs": _others(anchor),
    }
    wanted = {*subject.family.arguments, *subject.needs} - {"log_probs"}
    return Example(
        live=live,
        others={name: named[name] for name in wanted},
        where=jnp.ones(live.shape, bool),
    )


def weights(
    subject: Subject,
    log_probs: Float[np.ndarray, " N"],
    anchor_log_probs: Float[np.ndarray, " N"],
    advantages: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """What multiplies grad log p at each token when the loss is descended."""
    batch = single_tokens(subject, log_probs, anchor_log_probs, advantages)
    return -np.asarray(batch.gradient(subject))[:, 0]


def _others(log_probs: Array) -> Array:
    """[N, 1, 1]: the likeliest token besides the sampled one."""
    rest = jnp.log1p(-jnp.exp(jnp.minimum(log_probs, -1e-9)))
    return (rest + np.log(_LARGEST_OTHER))[..., None]
