import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.data import prompt_batches

ITEMS = [f"item {i}" for i in range(10)]


def batches(count, **arguments):
    arguments = {"batch_size": 4, "seed": 3, "shuffle": True, **arguments}
    return list(itertools.islice(prompt_batches(ITEMS, **arguments), count))


def test_unshuffled_batches_run_through_the_source_and_over_its_end():
    flat = [item for batch in batches(5, shuffle=False) for item in batch]
    assert flat == ITEMS + ITEMS


def test_every_epoch_holds_every_item_in_a_new_order():
    flat = [item for batch in batches(15) for item in batch]
    epochs = [flat[start : start + 10] for start in range(0, 60, 10)]
    assert all(sorted(epoch) == ITEMS for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 6


def test_the_seed_decides_the_order():
    assert batches(5) == batches(5)
    assert batches(5) != batches(5, seed=4)


def test_a_batch_may_be_larger_than_the_source():
    (batch,) = batches(1, batch_size=30)
    assert sorted(batch) == sorted(ITEMS * 3)


@pytest.mark.parametrize("count", [2, 4])
def test_slices_of_all_processes_make_the_same_global_batch(count):
    parts = [batches(6, process_index=i, process_count=count) for i in range(count)]
    joined = [[*itertools.chain(*slices)] for slices in zip(*parts, strict=True)]
    assert joined == batches(6)


@given(st.integers(0, 12), st.integers(1, 7), st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_state_resumes_exactly(position, batch_size, shuffle):
    arguments = {"batch_size": batch_size, "seed": 0, "shuffle": shuffle}
    stream = prompt_batches(ITEMS, **arguments)
    for _ in range(position):
        next(stream)
    state = json.loads(json.dumps(stream.get_state()))
    expected = [next(stream) for _ in range(8)]
    fresh = prompt_batches(ITEMS, **arguments)
    fresh.set_state(state)
    assert [next(fresh) for _ in range(8)] == expected
    stream.set_state(state)
    assert next(stream) == expected[0]


def test_a_state_resumes_on_another_number_of_processes():
    whole = prompt_batches(ITEMS, batch_size=4, seed=3, shuffle=True)
    next(whole)
    second = prompt_batches(
        ITEMS, batch_size=4, seed=3, shuffle=True, process_index=1, process_count=2
    )
    second.set_state(whole.get_state())
    assert next(second) == next(whole)[2:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 2}, "batch_size=4, this run has 2"),
        ({"seed": 9}, "seed=3, this run has 9"),
        ({"shuffle": False}, "shuffle=True, this run has False"),
    ],
)
def test_a_state_of_another_stream_is_refused(change, message):
    arguments = {"batch_size": 4, "seed": 3, "shuffle": True}
    state = prompt_batches(ITEMS, **arguments).get_state()
    with pytest.raises(ValueError, match=message):
        prompt_batches(ITEMS, **{**arguments, **change}).set_state(state)
    with pytest.raises(ValueError, match="source_size=10, this run has 9"):
        prompt_batches(ITEMS[:9], **arguments).set_state(state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 4, "process_count": 3}, "multiple of process_count, got 4 and 3"),
        ({"process_index": 2, "process_count": 2}, "process_index must be in"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        batches(1, **arguments)


def test_an_empty_source_is_refused():
    with pytest.raises(ValueError, match="no items"):
        prompt_batches([], batch_size=1, seed=0, shuffle=False)
