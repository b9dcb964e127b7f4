"""GRPO training in JAX: divergence and clipping operators, a sharded update step, a sampler.

Rooms load when they are first touched, so `import jaxgrpo` costs nothing, initialises no device,
and a reward worker never loads JAX.

Example:
  >>> import jaxgrpo as jg
  >>> low, high = jg.clipping.ratio_interval("kl3", 0.023144)
  >>> f"{low:.4f} {high:.4f}"
  '0.8000 1.2308'
"""

import importlib
import types

__version__ = "0.1.0"

_ROOMS = (
    "advantages",
    "aggregation",
    "answers",
    "atlas",
    "check",
    "checkpoints",
    "clipping",
    "config",
    "core",
    "data",
    "divergences",
    "evaluation",
    "losses",
    "metrics",
    "models",
    "ratios",
    "rewards",
    "rollouts",
    "run",
    "sampling",
    "sharding",
    "tokenizers",
    "training",
)

__all__ = [*_ROOMS, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> types.ModuleType:
    if name in _ROOMS:
        return importlib.import_module(f"jaxgrpo.{name}")
    raise AttributeError(f"module 'jaxgrpo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ROOMS])
