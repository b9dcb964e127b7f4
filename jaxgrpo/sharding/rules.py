"""Logical axis names of arrays, mapped to mesh axes in one table."""

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType

from jax.sharding import Mesh, NamedSharding, PartitionSpec

MeshAxes = str | tuple[str, ...] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AxisRules:
    """From logical to mesh axes. Models name logical axes only: a layout is changed here alone."""

    batch: MeshAxes = ("data", "fsdp")
    """Rows of a batch: every device that holds a parameter shard works on its own rows."""
    layers: MeshAxes = None
    """The stacked layers, scanned over: never split."""
    embed: MeshAxes = "fsdp"
    """The model dimension: split to share out parameters, gathered where it is used."""
    heads: MeshAxes = "model"
    """Query heads times head size."""
    kv_heads: MeshAxes = "model"
    """Key and value heads times head size."""
    mlp: MeshAxes = "model"
    """Width of the feed-forward block."""
    vocabulary: MeshAxes = "model"
    """Rows of the embedding and columns of the unembedding."""
    norm: MeshAxes = None
    """Scales of the norms: small, on every device."""

    def spec(self, logical: tuple[str | None, ...]) -> PartitionSpec:
        """The mesh axes of an array with these logical axes.

        Raises:
          LookupError: a logical axis has no rule.
          ValueError: one mesh axis would split two axes of the array.

        Example:
          >>> tuple(AxisRules().spec(("layers", "embed", "mlp")))
          (None, 'fsdp', 'model')
        """
        known = {field.name for field in dataclasses.fields(self)}
        owner: dict[str, str] = {}
        entries: list[MeshAxes] = []
        for name in logical:
            if name is not None and name not in known:
                raise LookupError(f"no rule for logical axis {name!r}; known: {sorted(known)}")
            entry: MeshAxes = getattr(self, name) if name is not None else None
            for axis in (entry,) if isinstance(entry, str) else entry or ():
                if axis in owner:
                    raise ValueError(
                        f"mesh axis {axis!r} would split {owner[axis]!r} and {name!r} of {logical}"
                    )
                owner[axis] = str(name)
            entries.append(entry)
        return PartitionSpec(*entries)

    def sharding(
        self,
        mesh: Mesh,
        logical: tuple[str | None, ...],
        shape: tuple[int, ...],
        units: Mapping[str, int] = MappingProxyType({}),
    ) -> NamedSharding:
        """The sharding of an array; an axis that its mesh axes don't divide stays whole.

        Args:
          mesh: the mesh.
          logical: the array's axes.
          shape: their sizes.
          units: how many pieces an axis has that must not be cut, where that isn't its size. A
            model with 2 key heads thus keeps both on each of 4 `model` shards.
        """
        entries = [
            entry if units.get(str(name), size) % _shards(mesh, entry) == 0 else None
            for name, entry, size in zip(logical, self.spec(logical), shape, strict=True)
        ]
        return NamedSharding(mesh, PartitionSpec(*entries))


def _shards(mesh: Mesh, entry: MeshAxes) -> int:
    axes = (entry,) if isinstance(entry, str) else entry or ()
    return math.prod(mesh.shape[axis] for axis in axes)


def batch_sharding(mesh: Mesh, rules: AxisRules | None = None) -> NamedSharding:
    """Rows split over every device that holds its own rows, the other axes whole."""
    return NamedSharding(mesh, (rules or AxisRules()).spec(("batch",)))


def row_shards(mesh: Mesh, rules: AxisRules | None = None) -> int:
    """The number of parts that the rows of a batch are split into."""
    return _shards(mesh, (rules or AxisRules()).batch)


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on every device."""
    return NamedSharding(mesh, PartitionSpec())
