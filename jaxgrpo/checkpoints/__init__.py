"""Checkpoints of all that a resumed run needs, saved in the background and restored bit for bit."""

from typing import TYPE_CHECKING, Any

from jaxgrpo.checkpoints.config import CheckpointConfig

if TYPE_CHECKING:
    from jaxgrpo.checkpoints.store import Checkpoints, Restored

__all__ = ["CheckpointConfig", "Checkpoints", "Restored"]


def __getattr__(name: str) -> Any:
    # Reading a config must not load Orbax.
    if name in ("Checkpoints", "Restored"):
        from jaxgrpo.checkpoints import store

        return getattr(store, name)
    raise AttributeError(f"module 'jaxgrpo.checkpoints' has no attribute {name!r}")
