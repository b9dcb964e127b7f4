import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxgrpo.metrics.mean import Max, Mean, as_floats, merge

# XLA flushes subnormals to zero.
finite = st.floats(-100, 100, width=32, allow_subnormal=False)
values_and_masks = hnp.array_shapes(max_dims=2, max_side=6).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float32, shape, elements=finite),
        hnp.arrays(np.bool_, shape),
    )
)


def test_mean_is_the_sum_over_the_count_not_the_mean_of_means():
    short, long = Mean.of(jnp.array([6.0])), Mean.of(jnp.array([1.0, 2.0, 3.0]))
    assert float((short + long).value()) == 3.0  # (6 + 1 + 2 + 3) / 4, where means give 4


@pytest.mark.parametrize("hidden", [np.nan, np.inf, -np.inf])
def test_what_the_mask_hides_changes_nothing(hidden):
    values = jnp.array([[1.0, hidden], [hidden, 5.0]])
    where = jnp.array([[True, False], [False, True]])
    assert float(Mean.of(values, where).value()) == 3.0
    assert float(Max.of(values, where).value()) == 5.0


def test_a_nan_that_counts_is_shown():
    values = jnp.array([1.0, jnp.nan])
    assert np.isnan(Mean.of(values).value())
    assert np.isnan(Max.of(values).value())


@pytest.mark.parametrize("kind", [Mean, Max])
def test_nothing_counted_is_nan_and_merges_as_nothing(kind):
    nothing = kind.of(jnp.array([7.0]), jnp.array([False]))
    assert np.isnan(nothing.value())
    assert float((nothing + kind.of(jnp.array([2.0]))).value()) == 2.0


@given(values_and_masks)
def test_parts_merge_into_the_whole(case):
    values, where = case
    whole = merge([{"m": Mean.of(values, where), "x": Max.of(values, where)}])
    parts = merge(
        {"m": Mean.of(row, keep), "x": Max.of(row, keep)}
        for row, keep in zip(values, where, strict=True)
    )
    assert int(parts["m"].count) == int(whole["m"].count) == where.sum()
    expected = values[where].astype(np.float64)
    if expected.size:
        np.testing.assert_allclose(parts["m"].value(), expected.mean(), rtol=1e-5, atol=1e-4)
        assert float(parts["x"].value()) == expected.max()
    else:
        assert np.isnan(parts["m"].value()) and np.isnan(parts["x"].value())


def test_half_precision_is_summed_in_float32():
    # In bfloat16 itself a running count stops at 256.
    assert float(Mean.of(jnp.ones(4096, jnp.bfloat16)).total) == 4096.0
    assert Mean.of(jnp.ones(3, jnp.float16)).total.dtype == jnp.float32


def test_integers_and_bools_are_numbers():
    assert float(Mean.of(jnp.array([1, 2])).value()) == 1.5
    assert float(Mean.of(jnp.array([True, False, False, False])).value()) == 0.25


def test_counts_stay_exact_past_float32():
    big = Mean(total=jnp.float32(2**24), count=jnp.int32(2**24))
    assert int((big + Mean.of(jnp.array([1.0]))).count) == 2**24 + 1


def test_metrics_leave_jit_and_scan_as_pytrees():
    def body(running, row):
        return running + Mean.of(row), None

    def total(rows):
        return jax.lax.scan(body, Mean.of(jnp.zeros((0,))), rows)[0]

    assert float(jax.jit(total)(jnp.arange(6.0).reshape(3, 2)).value()) == 2.5


def test_merge_takes_names_that_only_some_parts_have():
    parts = [{"a": Mean.of(jnp.array([1.0]))}, {"a": Mean.of(jnp.array([3.0])), "b": Max.of(2.0)}]
    assert as_floats(merge(parts)) == {"a": 2.0, "b": 2.0}


def test_merge_refuses_two_kinds_under_one_name():
    with pytest.raises(TypeError, match="'a' is a Mean in one part and a Max in another"):
        merge([{"a": Mean.of(jnp.array([1.0]))}, {"a": Max.of(jnp.array([1.0]))}])


def test_as_floats_takes_plain_scalars_too():
    assert as_floats({"a": 1, "b": jnp.float32(0.5), "c": Mean.of(jnp.ones(2))}) == {
        "a": 1.0,
        "b": 0.5,
        "c": 1.0,
    }


def test_masks_are_checked():
    with pytest.raises(TypeError, match="where must be bool, got float32"):
        Mean.of(jnp.ones(2), jnp.ones(2))
    with pytest.raises(ValueError, match=r"got values \[2, 3\], where \[3\]"):
        Max.of(jnp.ones((2, 3)), jnp.ones(3, bool))
