"""What a config names as `module:function`, called once on next to nothing before a run begins."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.config import Experiment
from jaxgrpo.core.errors import UserError
from jaxgrpo.losses.objective import Objective

# As many rows as no completion has tokens: one axis can't be taken for the other.
_ROWS, _TOKENS = 4, 3
_MOST_COMPLETIONS = 1024


def rehearse(experiment: Experiment, objective: Objective, advantages: Callable[..., Any]) -> None:
    """Check that loss, penalty and advantages take what a run gives and return what it expects.

    Loss and penalty are traced on shapes alone; nothing is compiled.

    Raises:
      UserError: one of them raises, or returns no array of the right shape.
    """
    tokens = jax.ShapeDtypeStruct((_ROWS, _TOKENS), jnp.float32)
    rows = jax.ShapeDtypeStruct((_ROWS,), jnp.float32)
    where = jax.ShapeDtypeStruct(tokens.shape, jnp.bool_)
    supplied = {
        "anchor_entropies": tokens,
        "behaviour_log_probs": tokens,
        "entropies": tokens,
        "group_ids": jax.ShapeDtypeStruct((_ROWS,), jnp.int32),
        "key": jax.eval_shape(lambda: jax.random.key(0)),
        "reference_log_probs": tokens,
        "rewards": rows,
    }
    needed = {name: supplied[name] for name in objective.needs}

    def traced(function: Callable[..., Any], *arrays: Any, **keywords: Any) -> Any:
        return jax.eval_shape(lambda x, y: function(*x, **y), arrays, keywords)

    _check(
        f"loss {experiment.loss.name!r}",
        lambda: traced(objective.policy_loss, tokens, tokens, rows, where=where, **needed),
        tokens.shape,
    )
    if objective.penalty is not None:
        penalty = objective.penalty
        _check(
            f"penalty {experiment.loss.penalty.name!r}",
            lambda: traced(penalty, tokens, tokens, where=where),
            tokens.shape,
        )
    # Called on the host in a run, so that NumPy will do; in groups of the run's own size, which an
    # option may depend on.
    fan = min(experiment.rollout.group_size, _MOST_COMPLETIONS)
    rewards = np.arange(2 * fan, dtype=np.float32) % 3
    group_ids = np.repeat(np.arange(2, dtype=np.int32), fan)
    _check(
        f"advantages {experiment.advantages.name!r}",
        lambda: np.asarray(advantages(rewards, group_ids), np.float32),
        rewards.shape,
    )


def _check(who: str, call: Callable[[], Any], shape: tuple[int, ...]) -> None:
    try:
        returned = call()
    except Exception as error:  # a user's function may fail in any way
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{who}: {type(error).__name__}: {reason}") from error
    dtype: Any = getattr(returned, "dtype", None)
    if getattr(returned, "shape", None) == shape and jnp.issubdtype(dtype, jnp.floating):
        return
    axes = "[B, T]" if len(shape) == 2 else "[B]"
    found = f"{dtype}{list(returned.shape)}" if dtype is not None else type(returned).__name__
    raise UserError(f"{who} must return floats {axes}, here {list(shape)}; it returned {found}")
