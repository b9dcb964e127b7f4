"""The small batch around the one token that is moved, and what an operator makes of it."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

PROB = 0.1
"""Of the moved token under the policy that sampled it, unless that is an axis."""
_CHUNK = 512  # one compilation serves any number of points
_SHARES = (0.6, 0.3, 0.1)  # of what the moved token leaves, for the three other tokens there are


@dataclasses.dataclass(frozen=True)
class Scene:
    """Rows and tokens of the batch; the first token of the first row is the one that moves."""

    rows: int = 1
    tokens: int = 1
    other_prob: float = PROB
    """Of the tokens that stay."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """Where an operator is evaluated; numbers, or arrays of one length."""

    log_ratio: Any
    """Of the moved token, policy over anchor, in nats."""
    prob: Any = PROB
    entropy_ratio: Any = 1.0
    """Entropy of the policy over that of the anchor, which is 1 nat."""
    advantage: Any = 1.0
    """Of its row; the rows alternate in sign."""
    together: Any = 0.0
    """Share of its log-ratio by which the other tokens of its row move too."""
    off_policy: Any = False
    """Whether someone else wrote the moved token."""


jax.tree_util.register_dataclass(
    Point, [field.name for field in dataclasses.fields(Point)], meta_fields=[]
)


def _entropies(scene: Scene, point: Point, anchor: Array, policy: Array) -> Array:
    return jnp.ones_like(anchor).at[0, 0].set(point.entropy_ratio)


def _tops(log_probs: Array) -> Array:
    """[*B, T, 3]: the token itself and the two likeliest others."""
    return _rows(log_probs)[..., :3]


def _rows(log_probs: Array) -> Array:
    """[*B, T, 4]: the token and three others, which share what it leaves as always."""
    rest = jnp.log(-jnp.expm1(log_probs))
    return jnp.stack([log_probs, *(rest + np.log(share) for share in _SHARES)], axis=-1)


# What each array is on-policy, and how a caption says it.
DEFAULT_ARRAYS: Mapping[str, tuple[Callable[[Scene, Point, Array, Array], Array], str]] = (
    MappingProxyType(
        {
            "behaviour_log_probs": (lambda s, p, anchor, q: anchor, "the sampler is the anchor"),
            "reference_log_probs": (lambda s, p, anchor, q: anchor, "the reference is the anchor"),
            "entropies": (_entropies, "entropies are those of the anchor, 1 nat"),
            "anchor_entropies": (lambda s, p, anchor, q: jnp.ones_like(anchor), ""),
            "group_ids": (
                lambda s, p, anchor, q: jnp.zeros(s.rows, jnp.int32),
                "all rows answer one prompt",
            ),
            "rewards": (
                lambda s, p, anchor, q: (_signs(s, anchor) * p.advantage > 0).astype(anchor.dtype),
                "the reward is 1 where A > 0 and 0 elsewhere",
            ),
            "off_policy": (
                lambda s, p, anchor, q: (
                    jnp.zeros(anchor.shape, bool).at[0, 0].set(p.off_policy > 0)
                ),
                "no token is off-policy where that isn't said",
            ),
            "key": (lambda s, p, anchor, q: jax.random.key(0), "the random key is 0"),
            "top_log_probs": (
                lambda s, p, anchor, q: _tops(q),
                "the top K are the token and two others, with 60 % and 30 % of the rest",
            ),
            "behaviour_top_log_probs": (lambda s, p, anchor, q: _tops(anchor), ""),
        }
    )
)


def evaluate(
    function: Callable, family: str, needs: tuple[str, ...], scene: Scene, points: Point
) -> np.ndarray:
    """An operator's numbers at many points, in float64.

    Args:
      function: the operator, its options bound.
      family: of its registry.
      needs: the arrays it takes by keyword.
      scene: the batch around the token.
      points: arrays of one length n; numbers are the same everywhere.

    Returns:
      [n, c]: of a loss the weight of the token's gradient, -(d loss / d log pi) / A, the losses of
      all tokens added up; of a penalty its value and (d penalty / d log pi); of a divergence its
      value. nan where the policy's probability would be 1 or more.
    """
    length = max(np.size(leaf) for leaf in vars(points).values())
    filled = -(-length // _CHUNK) * _CHUNK
    columns = [np.broadcast_to(np.asarray(leaf, np.float64), length) for leaf in _leaves(points)]
    padded = [np.pad(column, (0, filled - length), mode="edge") for column in columns]
    # float64, where a jump can be told to the last digits; the CPU is where that is exact.
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        chunks = [
            np.asarray(
                _at_points(
                    function, family, needs, scene, *(c[start : start + _CHUNK] for c in padded)
                )
            )
            for start in range(0, filled, _CHUNK)
        ]
    values = np.concatenate(chunks)[:length]
    feasible = columns[1] * np.exp(columns[0]) < 1
    return np.where(feasible[:, None], values, np.nan)


def _leaves(points: Point) -> list[Any]:
    return [getattr(points, field.name) for field in dataclasses.fields(Point)]


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _at_points(
    function: Callable, family: str, needs: tuple[str, ...], scene: Scene, *columns: Array
) -> Array:
    names = [field.name for field in dataclasses.fields(Point)]

    def at(*leaves: Array) -> Array:
        point = Point(**dict(zip(names, leaves, strict=True)))
        return _numbers(function, family, needs, scene, point)

    return jax.vmap(at)(*columns)


def _numbers(
    function: Callable, family: str, needs: tuple[str, ...], scene: Scene, point: Point
) -> Array:
    shape = (scene.rows, scene.tokens)
    anchor = jnp.full(shape, np.log(scene.other_prob)).at[0, 0].set(jnp.log(point.prob))
    moves = jnp.zeros(shape).at[0].set(point.together * point.log_ratio)
    policy = anchor + moves.at[0, 0].set(point.log_ratio)
    where = jnp.ones(shape, bool)
    arrays = {need: DEFAULT_ARRAYS[need][0](scene, point, anchor, policy) for need in needs}
    if family == "loss":
        advantages = _signs(scene, anchor) * point.advantage
        losses, pull = jax.vjp(
            lambda x: function(x, anchor, advantages, where=where, **arrays), policy
        )
        return -pull(jnp.ones_like(losses))[0][0, :1] / point.advantage
    if family == "penalty":
        values, pull = jax.vjp(lambda x: function(x, anchor, where=where, **arrays), policy)
        return jnp.stack([values[0, 0], pull(jnp.ones_like(values))[0][0, 0]])
    inputs = {
        "divergence": (anchor, policy),
        "row divergence": (_rows(anchor), _rows(policy)),
        "top-K divergence": (_tops(anchor), _tops(policy), anchor, policy),
    }[family]
    return function(*inputs, where=where, **arrays)[0, :1]


def _signs(scene: Scene, anchor: Array) -> Array:
    return jnp.where(jnp.arange(scene.rows) % 2 == 0, 1, -1).astype(anchor.dtype)
