"""The log-softmax rows that sampler and trainer share."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def row_log_probs(
    states: Float[Array, "*B D"], matrix: Float[Array, "D V"], *, temperature: float
) -> Float[Array, "*B V"]:
    """Log-softmax rows, float32 at least: the one formula that sampler and trainer share."""
    dtype = jnp.promote_types(states.dtype, jnp.float32)
    logits = jnp.matmul(states, matrix, preferred_element_type=dtype)
    return jax.nn.log_softmax(logits / temperature, axis=-1)
