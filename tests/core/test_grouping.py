import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.core.grouping import over_group


@pytest.mark.parametrize("rows", [1, 5, 1024, 1025, 2500])
def test_each_row_gets_its_own_group(rows):
    random = np.random.default_rng(rows)
    ids = random.integers(-3, 40, rows)
    values = random.integers(-9, 9, rows)
    where = random.random(rows) < 0.8
    for reduce, initial in ((jnp.sum, 0), (jnp.min, 99), (jnp.max, -99)):
        got = jax.jit(lambda v, i, w, r=reduce, n=initial: over_group(r, v, i, where=w, initial=n))(
            jnp.asarray(values), jnp.asarray(ids), jnp.asarray(where)
        )
        expected = [
            getattr(np, reduce.__name__)(values[(ids == mine) & where], initial=initial)
            for mine in ids
        ]
        np.testing.assert_array_equal(got, expected)


def test_memory_does_not_grow_with_the_square():
    rows = 8192
    shapes = (jax.ShapeDtypeStruct((rows,), jnp.float32), jax.ShapeDtypeStruct((rows,), jnp.int32))
    compiled = jax.jit(lambda v, i: over_group(jnp.sum, v, i, initial=0)).lower(*shapes).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < rows * rows
