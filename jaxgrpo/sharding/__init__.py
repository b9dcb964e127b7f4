"""The device mesh and the table from logical axes to mesh axes; no mesh axis is spelt elsewhere."""

from jaxgrpo.sharding.mesh import MeshConfig, build_mesh
from jaxgrpo.sharding.rules import AxisRules, batch_sharding, replicated, row_shards

__all__ = ["AxisRules", "MeshConfig", "batch_sharding", "build_mesh", "replicated", "row_shards"]
