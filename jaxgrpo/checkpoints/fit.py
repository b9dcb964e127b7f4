"""Whether a tree of arrays can be saved, and whether a saved one fits the tree that is wanted."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

PyTree = Any


def described(tree: PyTree) -> dict[str, str]:
    """Dtype and shape of each leaf, by its path in the tree.

    Raises:
      TypeError: a leaf is neither an array nor a `jax.ShapeDtypeStruct`.

    Example:
      >>> described({"w": np.zeros((2, 3), np.float32)})
      {"['w']": 'float32[2, 3]'}
    """
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path)
        if not isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
            raise TypeError(
                f"leaves must be jax or numpy arrays, got {type(leaf).__name__} at {name}; "
                "what is not an array belongs in meta"
            )
        found[name] = f"{leaf.dtype}{list(leaf.shape)}"
    return found


def placed(tree: PyTree) -> PyTree:
    """The tree as Orbax wants it: structs without a sharding get the first device."""
    first = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])

    def place(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding or first)

    return jax.tree.map(place, tree)


def differences(saved: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """What differs between two descriptions, as a clause that names the first three; or nothing.

    Orbax itself would cast a dtype without a word.

    Example:
      >>> differences({"w": "float32[2]"}, {"w": "bfloat16[2]", "b": "float32[1]"})
      'w is float32[2] there, bfloat16[2] here; b is missing there, float32[1] here'
    """
    names = [name for name in {**saved, **wanted} if saved.get(name) != wanted.get(name)]
    listed = [
        f"{name} is {saved.get(name, 'missing')} there, {wanted.get(name, 'missing')} here"
        for name in names[:3]
    ]
    return "; ".join([*listed, f"and {len(names) - 3} more"] if len(names) > 3 else listed)
