import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.core import checks

X = jnp.zeros((2, 3))


def test_equal_arrays_pass():
    checks.per_token(a=X, b=np.zeros((2, 3), np.float32), where=jnp.ones((2, 3), bool))
    checks.per_token(a=jnp.zeros(3))
    # NumPy's float64 becomes float32 inside JAX, so it is no mixture.
    checks.per_token(a=X, b=np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"a": X, "b": jnp.zeros((2, 4))}, ValueError, r"got a \[2, 3\], b \[2, 4\]"),
        ({"a": X, "b": jnp.zeros((3,))}, ValueError, r"got a \[2, 3\], b \[3\]"),
        ({"a": X, "b": jnp.zeros((2, 1))}, ValueError, "shapes must be equal"),
        ({"a": X, "where": jnp.ones((2, 1), bool)}, ValueError, r"where \[2, 1\]"),
        ({"a": jnp.zeros(())}, ValueError, "token axis"),
        ({"a": X, "b": X.astype(jnp.bfloat16)}, TypeError, "a float32, b bfloat16"),
        ({"a": X.astype(int)}, TypeError, r"a must be a floating-point array, got int32 \[2, 3\]"),
        ({"a": [[1.0]]}, TypeError, "a must be a floating-point array, got list"),
        ({"a": X, "where": jnp.ones((2, 3))}, TypeError, "where must be a bool array, got float32"),
    ],
)
def test_what_does_not_fit_is_named(arrays, error, message):
    with pytest.raises(error, match=message):
        checks.per_token(**arrays)


def test_checks_raise_while_tracing():
    with pytest.raises(ValueError, match="shapes must be equal"):
        jax.jit(lambda a, b: checks.per_token(a=a, b=b))(X, jnp.zeros((2, 4)))


def test_mixed_precision_is_seen_under_64_bits():
    with jax.enable_x64(True), pytest.raises(TypeError, match="a float32, b float64"):
        checks.per_token(a=jnp.zeros(2, jnp.float32), b=np.zeros(2))


@pytest.mark.parametrize("value", [0, 0.5, np.float32(2), float("inf")])
def test_static_numbers_pass(value):
    checks.static_number(minimum=0, delta=value)


@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("-inf")])
def test_numbers_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match="delta must be at least 0"):
        checks.static_number(minimum=0, delta=value)


def test_a_lower_end_can_be_left_out():
    with pytest.raises(ValueError, match="cap must be more than 1, got 1"):
        checks.static_number(above=1, cap=1)
    checks.static_number(above=1, cap=1.01)


@pytest.mark.parametrize("value", [True, "1", None, jnp.float32(1)])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match="delta must be a Python number"):
        checks.static_number(delta=value)


def test_a_traced_number_is_refused():
    with pytest.raises(TypeError, match="delta must be a Python number"):
        jax.jit(lambda delta: checks.static_number(delta=delta))(1.0)


def test_shapes_may_leave_a_size_open():
    checks.shape((None, 3), a=X)
    with pytest.raises(ValueError, match=r"a must have shape \[any, 4\], got \[2, 3\]"):
        checks.shape((None, 4), a=X)
    with pytest.raises(ValueError, match=r"a must have shape \[2\]"):
        checks.shape((2,), a=X)
