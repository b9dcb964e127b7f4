"""The update step: micro-batched gradients of a loss, and one optimiser step."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from jaxgrpo.losses.objective import Metrics
from jaxgrpo.metrics.mean import Mean
from jaxgrpo.models import Params
from jaxgrpo.training.batch import Batch
from jaxgrpo.training.loss import Loss
from jaxgrpo.training.state import TrainState

UpdateStep = Callable[..., tuple[TrainState, Metrics]]
"""`(state, batch, reference=None)`; the reference's parameters where the loss compares with it."""


def make_update_step(
    loss: Loss, optimizer: optax.GradientTransformation, *, micro_batches: int = 1
) -> UpdateStep:
    """`(state, batch, reference=None) -> (state, metrics)`: one optimiser step on all rows.

    The gradient is that of the whole batch whatever `micro_batches`: every row carries its global
    weight, so the parts add up. Metrics are `Mean`s; nothing is fetched. The reference's parameters
    are frozen, and only for a loss that compares whole distributions with it.

    Args:
      loss: from `make_loss`.
      optimizer: from `make_optimizer`.
      micro_batches: M, parts that the rows are worked on in turn, to save memory; divides B.
    """
    gradient = jax.value_and_grad(loss, has_aux=True)

    def update_step(
        state: TrainState, batch: Batch, reference: Params | None = None
    ) -> tuple[TrainState, Metrics]:
        if micro_batches == 1:
            (total, (parts, metrics)), grads = gradient(state.params, batch, reference)
        else:
            total, parts, metrics, grads = _accumulate(
                gradient, state.params, _split(batch, micro_batches), reference
            )
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        logged = {
            **{name: _once(value) for name, value in parts.items()},
            "loss/total": _once(total),
            "grad/norm": _once(optax.tree.norm(grads)),
            **metrics,
        }
        return TrainState(params, opt_state, state.step + 1), logged

    return update_step


def jit_update(step: UpdateStep, shardings: TrainState) -> UpdateStep:
    """The update step compiled: the old state is donated, the new one laid out as the old one was.

    Left free, the compiler lays the new state out as it likes, and then everything that takes it is
    compiled once more: the next update, the sampler, the scoring.

    Args:
      step: from `make_update_step`.
      shardings: from `state_shardings`.
    """
    return jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))


def _once(value: Array) -> Mean:
    """A number that the whole step has one of, so that steps are averaged evenly."""
    return Mean(total=value, count=jnp.int32(1))


def _split(batch: Batch, micro_batches: int) -> Batch:
    """[B, ...] -> [M, B / M, ...]; part m holds rows m, M + m, ...: devices keep their own."""
    if batch.rows % micro_batches:
        raise ValueError(f"micro_batches must divide {batch.rows} rows, got {micro_batches}")

    def split(leaf: Array) -> Array:
        parts = leaf.reshape(-1, micro_batches, *leaf.shape[1:])
        return jnp.swapaxes(parts, 0, 1)

    return jax.tree.map(split, batch)


def _accumulate(
    gradient: Callable, params: Params, parts: Batch, reference: Params | None
) -> tuple[Array, dict[str, Array], Metrics, Params]:
    """Sums over micro-batches, in float32 at least."""

    def widened(params: Params, batch: Batch) -> tuple:
        (total, (additive, metrics)), grads = gradient(params, batch, reference)
        grads = jax.tree.map(
            lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)), grads
        )
        return total, additive, metrics, grads

    def body(sums: tuple, batch: Batch) -> tuple[tuple, None]:
        return jax.tree.map(jnp.add, sums, widened(params, batch)), None

    first = jax.tree.map(lambda leaf: leaf[0], parts)
    shapes = jax.eval_shape(widened, params, first)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    sums, _ = jax.lax.scan(body, zeros, parts)
    total, additive, metrics, grads = sums
    grads = jax.tree.map(lambda leaf, param: leaf.astype(param.dtype), grads, params)
    return total, additive, metrics, grads
