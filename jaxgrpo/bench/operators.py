"""`python -m jaxgrpo.bench operators`: every operator's time and memory beside a plain PPO clip.

Value and gradient of each loss, penalty, divergence and weight on one batch in float32. The plain
clip is timed right before each of them, on arrays of as many elements as the operator's largest
input, so that a machine that others use too slows both; a ratio is the median of the ratios of the
rounds. Each row of the JSON's `operators` has

  family, name   of the registry
  ms             median time of a value and gradient
  plain_ms       of the plain clip, in the same rounds
  ratio          median of the quotients; over 3 is marked
  arrays         temporaries of the compiled program, in largest inputs; over 6 is marked
  over           which of the two limits it is over
  reason         why it may be over 3, for those of which that is known
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxgrpo.core.errors import closest
from jaxgrpo.core.registry import Registry
from jaxgrpo.divergences import DIVERGENCES, ROW_DIVERGENCES, TOP_DIVERGENCES
from jaxgrpo.losses import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.ratios import WEIGHTS

MOST_TIME, MOST_ARRAYS = 3.0, 6.0
FAMILIES: tuple[Registry, ...] = (
    LOSSES,
    PENALTIES,
    ROW_PENALTIES,
    DIVERGENCES,
    ROW_DIVERGENCES,
    TOP_DIVERGENCES,
    WEIGHTS,
)
# Without a default, and what lets the batch reach both sides.
_OPTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "adrpo": {"beta": 0.5},
        "trust_region": {"divergence": "kl3", "delta": 0.0231},
    }
)
_ON_ROWS = (*ROW_PENALTIES.names(), *ROW_DIVERGENCES.names(), *TOP_DIVERGENCES.names())
_ROWS = "rows: exponentials and logarithms of every entry, where the clip has one"
# What may be over the limit on time, and why.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "binary_kl": "logarithms of 1 - P and 1 - Q that are exact for small moves",
        "clip_cov": "a random number for every token, and a selection of the largest",
        "kl_cov": "selects the largest of all tokens",
        "second_moment_mask": "sorts all tokens",
        "dppo_topk_kl": _ROWS,
        "dppo_topk_tv": _ROWS,
        **dict.fromkeys(_ON_ROWS, _ROWS),
    }
)


class Case(NamedTuple):
    """A scalar function of its arrays, differentiated for the first of them."""

    function: Callable[..., Array]
    arrays: tuple[Array, ...]

    @property
    def size(self) -> int:
        """Elements of the largest array."""
        return max(array.size for array in self.arrays)


def batch(sequences: int, tokens: int, top: int) -> dict[str, Array]:
    """The arrays that operators take by these names."""
    keys = iter(jax.random.split(jax.random.key(0), 8))
    shape = sequences, tokens
    rows = [
        jax.nn.log_softmax(jax.random.normal(key, (*shape, top)))
        for key in jax.random.split(next(keys))
    ]
    anchor = jnp.log(jax.random.uniform(next(keys), shape, minval=0.05, maxval=0.9))
    moved = anchor + 0.2 * jax.random.normal(next(keys), shape)
    other = anchor + 0.1 * jax.random.normal(next(keys), shape)
    log_probs, behaviour = jnp.minimum(moved, -1e-3), jnp.minimum(other, -1e-3)
    half = jnp.arange(sequences) % 2
    return {
        "log_probs": log_probs,
        "anchor_log_probs": anchor,
        "behaviour_log_probs": behaviour,
        "reference_log_probs": behaviour,
        "sampler_log_probs": anchor,
        "other_log_probs": log_probs,
        "sampler_rows": rows[0],
        "other_rows": rows[1],
        "rows": rows[1],
        "reference_rows": rows[0],
        "sampler_top_log_probs": rows[0] - 1,
        "other_top_log_probs": rows[1] - 1,
        "behaviour_top_log_probs": rows[0] - 1,
        "top_log_probs": rows[1] - 1,
        "advantages": jax.random.normal(next(keys), (sequences,)),
        "rewards": half.astype(jnp.float32),
        "group_ids": jnp.arange(sequences, dtype=jnp.int32) // 8,
        "entropies": 1 + 0.05 * jax.random.normal(next(keys), shape),
        "anchor_entropies": jnp.ones(shape),
        "off_policy": jnp.zeros(shape, bool),
        "key": jax.random.key(1),
        "where": jnp.arange(tokens)[None]
        < jax.random.randint(next(keys), (sequences, 1), 1, tokens),
    }


def plain_clip(log_probs: Array, anchor_log_probs: Array, advantages: Array, where: Array) -> Array:
    """PPO's clip as it is written in most places, summed: what the operators are compared with."""
    ratios = jnp.exp(log_probs - anchor_log_probs)
    first, second = ratios * advantages, jnp.clip(ratios, 0.8, 1.2) * advantages
    return -jnp.where(where, jnp.minimum(first, second), 0).sum()


def case_of(registry: Registry, name: str, arrays: Mapping[str, Array]) -> Case:
    """An operator on the batch; what is differentiated comes first."""
    function = registry.bind(name, **_OPTIONS.get(name, {}))
    named = {
        LOSSES.family: ("log_probs", "anchor_log_probs", "advantages"),
        PENALTIES.family: ("log_probs", "reference_log_probs"),
        ROW_PENALTIES.family: ("rows", "reference_rows"),
        DIVERGENCES.family: ("sampler_log_probs", "other_log_probs"),
        ROW_DIVERGENCES.family: ("sampler_rows", "other_rows"),
        TOP_DIVERGENCES.family: (
            "sampler_top_log_probs",
            "other_top_log_probs",
            "sampler_log_probs",
            "other_log_probs",
        ),
        WEIGHTS.family: ("log_probs", "behaviour_log_probs"),
    }[registry.family]
    live = 0 if named[0] in ("log_probs", "rows") else 1
    needs = (*registry.card(name).needs, "where")

    def total(first: Array, others: tuple[Array, ...], keywords: dict[str, Array]) -> Array:
        positional = [*others[:live], first, *others[live:]]
        return function(*positional, **keywords).sum()

    others = tuple(arrays[other] for other in named if other != named[live])
    keywords = {need: arrays[need] for need in needs}

    def flat(first: Array, *rest: Array) -> Array:
        names = dict(zip(keywords, rest[len(others) :], strict=True))
        return total(first, rest[: len(others)], names)

    return Case(flat, (arrays[named[live]], *others, *keywords.values()))


def measure(
    sequences: int, tokens: int, top: int, repeats: int, names: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """The figures of one operator after the other: of those named, or of all."""
    arrays = batch(sequences, tokens, top)
    plain = {
        size: _plain(sequences, size) for size in (sequences * tokens, arrays["sampler_rows"].size)
    }
    for registry in FAMILIES:
        for name in registry.names():
            if names and name not in names:
                continue
            case = case_of(registry, name, arrays)
            compiled = _compiled(case)
            pairs = []
            for _ in range(repeats):
                pairs.append((_seconds(plain[case.size]), _seconds((compiled, case.arrays))))
            temporaries = compiled.memory_analysis().temp_size_in_bytes / (4 * case.size)
            ratio = statistics.median(mine / theirs for theirs, mine in pairs)
            over = [
                limit
                for limit, passed in (
                    ("time", ratio > MOST_TIME),
                    ("arrays", temporaries > MOST_ARRAYS),
                )
                if passed
            ]
            yield {
                "family": registry.family,
                "name": name,
                "ms": round(1e3 * statistics.median(mine for _, mine in pairs), 3),
                "plain_ms": round(1e3 * statistics.median(theirs for theirs, _ in pairs), 3),
                "ratio": round(ratio, 2),
                "arrays": round(temporaries, 2),
                "over": over,
                "reason": REASONS.get(name, ""),
            }


def _plain(sequences: int, size: int) -> tuple[Callable, tuple[Array, ...]]:
    arrays = batch(sequences, size // sequences, 1)
    names = ("log_probs", "anchor_log_probs", "advantages", "where")
    log_probs, anchor, advantages, where = (arrays[name] for name in names)
    case = Case(plain_clip, (log_probs, anchor, advantages[:, None], where))
    return _compiled(case), case.arrays


def _compiled(case: Case) -> Any:
    compiled = jax.jit(jax.value_and_grad(case.function)).lower(*case.arrays).compile()
    jax.block_until_ready(compiled(*case.arrays))
    return compiled


def _seconds(call: tuple[Callable, tuple[Array, ...]]) -> float:
    function, arrays = call
    start = time.perf_counter()
    jax.block_until_ready(function(*arrays))
    return time.perf_counter() - start


def main(words: Sequence[str]) -> int:
    """Measure all operators, print a table, and write the figures where asked."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxgrpo.bench operators",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators; none for all")
    parser.add_argument("--sequences", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--top", type=int, default=20, help="entries of the operators on rows")
    parser.add_argument("--repeats", type=int, default=25, help="rounds")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    arguments = parser.parse_args(words)
    known = {name for registry in FAMILIES for name in registry.names()}
    for name in arguments.names:
        if name not in known:
            parser.error(f"no operator {name!r}{closest(name, known)}")
    print(f"{'family':<17} {'name':<26} {'ms':>9} {'plain':>8} {'ratio':>7} {'arrays':>7}")
    found = []
    shape = arguments.sequences, arguments.tokens, arguments.top
    for figures in measure(*shape, arguments.repeats, arguments.names):
        found.append(figures)
        mark = f"  ! {', '.join(figures['over'])}" if figures["over"] else ""
        reason = f" ({figures['reason']})" if mark and figures["reason"] else ""
        print(
            f"{figures['family']:<17} {figures['name']:<26} {figures['ms']:>9.3f} "
            f"{figures['plain_ms']:>8.3f} {figures['ratio']:>7.2f} {figures['arrays']:>7.2f}"
            f"{mark}{reason}",
            flush=True,
        )
    if arguments.json is not None:
        whole = {
            "bench": "operators",
            "jax": jax.__version__,
            "devices": f"{jax.device_count()} {jax.devices()[0].device_kind}",
            "shape": list(shape),
            "repeats": arguments.repeats,
            "operators": found,
        }
        arguments.json.write_text(json.dumps(whole, indent=2) + "\n")
    return 0
