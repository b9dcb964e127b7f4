"""An endless stream of prompt batches whose position fits into a checkpoint."""

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

_ItemT = TypeVar("_ItemT", covariant=True)


class Indexed(Protocol[_ItemT]):
    """Items by position."""

    def __len__(self) -> int:
        """The number of items."""
        ...

    def __getitem__(self, index: int, /) -> _ItemT:
        """Item `index`, in [0, len)."""
        ...


class PromptBatches(Generic[_ItemT]):
    """What `prompt_batches` returns: an iterator that never ends and can be put back anywhere."""

    def __init__(self, batches: Any, origin: dict[str, int | bool]) -> None:
        self._batches = batches
        self._origin = origin

    def __iter__(self) -> Iterator[list[_ItemT]]:
        return self

    def __next__(self) -> list[_ItemT]:
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        """The position and what it counts in, JSON-able; equal on all processes."""
        return {**self._origin, "position": self._batches.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue exactly where `get_state` was called.

        Raises:
          ValueError: the state was made by batches of another size, order or source, in which the
            same position is another place.
        """
        for name, ours in self._origin.items():
            if state.get(name) != ours:
                theirs = state.get(name)
                raise ValueError(f"the data state has {name}={theirs!r}, this run has {ours!r}")
        self._batches.set_state(state["position"])


def prompt_batches(
    source: Indexed[_ItemT],
    *,
    batch_size: int,
    seed: int,
    shuffle: bool,
    process_index: int = 0,
    process_count: int = 1,
) -> PromptBatches[_ItemT]:
    """Batches without end: epoch after epoch, each in a new order when shuffled.

    Every process walks the same global batches and takes its slice of each, so the slices put
    together in process order are the same batch for any number of processes, and a state saved by
    four processes resumes on two. A batch may span the end of an epoch; no item is dropped.

    Args:
      source: the items, such as an `EncodedSource`.
      batch_size: items in a global batch, a multiple of `process_count`.
      seed: of the order.
      shuffle: reorder each epoch, or keep the source's order.
      process_index: this process.
      process_count: all processes.

    Raises:
      ValueError: a number does not fit the others, or the source is empty.
    """
    if batch_size < 1 or batch_size % process_count:
        raise ValueError(
            f"batch_size must be a positive multiple of process_count, got {batch_size} and "
            f"{process_count}"
        )
    if not 0 <= process_index < process_count:
        raise ValueError(f"process_index must be in [0, {process_count}), got {process_index}")
    if not len(source):
        raise ValueError("the source has no items")
    import grain  # imports jax

    share = batch_size // process_count
    mine = slice(process_index * share, (process_index + 1) * share)
    items: Any = source  # Grain's own protocol wants its parameter called by name
    dataset = grain.MapDataset.source(items).seed(seed)
    if shuffle:
        dataset = dataset.shuffle()
    # An endless dataset has no remainder, but counting it overflows when batch_size is 1.
    dataset = dataset.repeat().batch(batch_size, drop_remainder=True, batch_fn=list)
    dataset = dataset.map(lambda batch: batch[mine])
    # The items lie in memory: threads would only add start-up time and something to shut down.
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    origin = {
        "source_size": len(source),
        "batch_size": batch_size,
        "seed": seed,
        "shuffle": shuffle,
    }
    return PromptBatches(iter(dataset.to_iter_dataset(options)), origin)
