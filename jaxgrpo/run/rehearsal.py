"""What a config names as `module:function`, called once on next to nothing before a run begins."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.advantages.credit import Credit, batch_arrays
from jaxgrpo.config import Experiment
from jaxgrpo.core.errors import UserError
from jaxgrpo.losses.objective import Objective
from jaxgrpo.losses.weighting import TokenWeight

# As many rows as no completion has tokens: one axis can't be taken for the other.
_ROWS, _TOKENS, _TOPS = 4, 3, 2
_MOST_COMPLETIONS = 1024


def rehearse(
    experiment: Experiment,
    objective: Objective,
    credit: Credit,
    weights: Sequence[TokenWeight] = (),
) -> None:
    """Check that every operator takes what a run gives it and returns what the run expects.

    Loss, penalty and weights are traced on shapes alone; nothing is compiled.

    Raises:
      UserError: one of them raises, or returns no array of the right shape.
    """
    by_token = _rehearse_credit(experiment, credit)
    tokens = jax.ShapeDtypeStruct((_ROWS, _TOKENS), jnp.float32)
    rows = jax.ShapeDtypeStruct((_ROWS,), jnp.float32)
    tops = jax.ShapeDtypeStruct((_ROWS, _TOKENS, _TOPS), jnp.float32)
    where = jax.ShapeDtypeStruct(tokens.shape, jnp.bool_)
    advantages = tokens if by_token else rows
    supplied = {
        "anchor_entropies": tokens,
        "behaviour_log_probs": tokens,
        "behaviour_top_log_probs": tops,
        "entropies": tokens,
        "group_ids": jax.ShapeDtypeStruct((_ROWS,), jnp.int32),
        "key": jax.eval_shape(lambda: jax.random.key(0)),
        "off_policy": where,
        "reference_log_probs": tokens,
        "rewards": rows,
        "top_log_probs": tops,
    }
    needed = {name: supplied[name] for name in objective.needs}

    def traced(function: Callable[..., Any], *arrays: Any, **keywords: Any) -> Any:
        return jax.eval_shape(lambda x, y: function(*x, **y), arrays, keywords)

    _check(
        f"loss {experiment.loss.name!r}",
        lambda: traced(objective.policy_loss, tokens, tokens, advantages, where=where, **needed),
        tokens.shape,
    )
    for penalty, shapes in ((objective.penalty, tokens), (objective.row_penalty, tops)):
        if penalty is None:
            continue
        _check(
            f"penalty {experiment.loss.penalty.name!r}",
            lambda penalty=penalty, x=shapes: traced(penalty, x, x, where=where),
            tokens.shape,
        )
    for weight in weights:
        _check(
            f"weight {weight.name!r}",
            lambda weight=weight: traced(
                weight.function,
                tokens,
                tokens,
                where=where,
                **({"advantages": advantages} if weight.needs else {}),
            ),
            tokens.shape,
        )


def _rehearse_credit(experiment: Experiment, credit: Credit) -> bool:
    """Try rewards to advantages; whether these are one a token."""
    # Called on the host in a run, so that NumPy will do; in groups of the run's own size, which an
    # option may depend on.
    fan = min(experiment.rollout.group_size, _MOST_COMPLETIONS)
    rewards = np.arange(2 * fan, dtype=np.float32) % 3
    group_ids = np.repeat(np.arange(2, dtype=np.int32), fan)
    by_token = (len(rewards), _TOKENS)
    functions = experiment.rewards.functions
    arrays = batch_arrays(
        where=np.ones(by_token, bool),
        group_ids=group_ids,
        truncated=np.zeros(len(rewards), bool),
        lengths=np.full(len(rewards), _TOKENS, np.int32),
        behaviour_log_probs=np.full(by_token, -1, np.float32),
        function_rewards=np.repeat(rewards[:, None], len(functions), axis=1),
        weights=np.array([function.weight for function in functions], np.float32),
        entropies=np.ones(by_token, np.float32),
        squared_probs=np.ones(by_token, np.float32),
        greedy_rewards=np.zeros(len(rewards), np.float32),
    )
    shaped = rewards
    for transform in credit.reward_transforms:
        shaped = _check(
            transform.who,
            lambda shaped=shaped, f=transform: f(shaped, group_ids, **arrays),
            rewards.shape,
        )
    found = _check(
        credit.advantage.who,
        lambda: credit.advantage(shaped, group_ids, **arrays),
        rewards.shape,
        by_token,
    )
    for transform in credit.advantage_transforms:
        shape = found.shape
        found = _check(transform.who, lambda found=found, f=transform: f(found, **arrays), shape)
    return found.ndim == 2


def _check(who: str, call: Callable[[], Any], *shapes: tuple[int, ...]) -> Any:
    try:
        returned = call()
    except Exception as error:  # a user's function may fail in any way
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{who}: {type(error).__name__}: {reason}") from error
    dtype: Any = getattr(returned, "dtype", None)
    if getattr(returned, "shape", None) in shapes and jnp.issubdtype(dtype, jnp.floating):
        return returned
    wanted = " or ".join(
        f"{'[B, T]' if len(shape) == 2 else '[B]'}, here {list(shape)}" for shape in shapes
    )
    found = f"{dtype}{list(returned.shape)}" if dtype is not None else type(returned).__name__
    raise UserError(f"{who} must return floats {wanted}; it returned {found}")
