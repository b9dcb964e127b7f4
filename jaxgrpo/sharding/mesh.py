"""One named mesh for the whole program, also when it is a single device."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh

from jaxgrpo.core.errors import UserError

AXES = ("data", "fsdp", "model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """How many devices each mesh axis spans; one axis may be -1, for all the devices left over."""

    data: int = 1
    """Replicas of the parameters; each works on its share of the rows."""
    fsdp: int = -1
    """Shards of parameters and optimizer state; each works on its share of the rows too."""
    model: int = 1
    """Shards of heads, feed-forward width and vocabulary."""

    def __post_init__(self) -> None:
        sizes = {axis: getattr(self, axis) for axis in AXES}
        bad = [axis for axis, size in sizes.items() if size != -1 and size < 1]
        if bad:
            raise ValueError(f"{bad[0]} must be -1 or at least 1, got {sizes[bad[0]]}")
        if sum(size == -1 for size in sizes.values()) > 1:
            raise ValueError(f"only one mesh axis may be -1, got {sizes}")

    def shape(self, device_count: int) -> tuple[int, int, int]:
        """Sizes of (data, fsdp, model) on that many devices.

        Raises:
          UserError: the axes don't multiply to the number of devices.

        Example:
          >>> MeshConfig(data=2).shape(8)
          (2, 4, 1)
        """
        sizes = [getattr(self, axis) for axis in AXES]
        known = math.prod(size for size in sizes if size != -1)
        if -1 in sizes and device_count % known == 0:
            sizes[sizes.index(-1)] = device_count // known
        if math.prod(sizes) != device_count:
            wanted = ", ".join(f"{axis} {size}" for axis, size in zip(AXES, sizes, strict=True))
            raise UserError(f"mesh: {wanted} does not fit {device_count} devices")
        return sizes[0], sizes[1], sizes[2]


def build_mesh(config: MeshConfig, devices: Sequence[Any] | None = None) -> Mesh:
    """The mesh over `devices` (all of them by default), its axes propagated by the compiler.

    Raises:
      UserError: the axes don't multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else list(devices)
    shape = config.shape(len(devices))
    # Stated, since jax.make_mesh builds Explicit axes unless told otherwise.
    return jax.make_mesh(shape, AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=devices)
