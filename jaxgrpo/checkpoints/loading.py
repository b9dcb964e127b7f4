"""The arrays of a verified checkpoint, all of them or some."""

import pathlib
import re
from collections.abc import Mapping

from orbax.checkpoint import v1 as ocp

from jaxgrpo.checkpoints import fit
from jaxgrpo.checkpoints.fit import PyTree
from jaxgrpo.core.errors import UserError

ARRAYS = "arrays"


def load_arrays(
    folder: pathlib.Path, abstract: PyTree, saved: Mapping[str, str], *, partial: bool = False
) -> PyTree:
    """The arrays in the folder of a checkpoint, on the shardings of the abstract tree.

    Args:
      folder: of the checkpoint.
      abstract: what to load, and where to.
      saved: dtype and shape of each array that is there, from the manifest.
      partial: whether to read no more than `abstract` names; whatever object the tree was saved
        as, it is written in nested dicts then.

    Raises:
      UserError: the tree doesn't fit what was saved; names the leaves.
    """
    target = fit.placed(abstract)
    wanted = fit.described(target)
    if partial:
        saved = {_as_dicts(name): value for name, value in saved.items()}
        saved = {name: value for name, value in saved.items() if name in wanted}
    if differences := fit.differences(saved, wanted):
        raise UserError(f"checkpoint {folder} does not fit this config: {differences}")
    context = ocp.Context()
    context.pytree_options.loading.partial_load = partial
    with context:
        return ocp.load(str(folder / ARRAYS), target)


def _as_dicts(name: str) -> str:
    """A path in a tree as if every object in it were a dict.

    Example:
      >>> _as_dicts("['state'].params['blocks']['key']")
      "['state']['params']['blocks']['key']"
    """
    return re.sub(r"\.(\w+)", r"['\1']", name)
