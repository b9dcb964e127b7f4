"""What every penalty keeps to; a new one adds one golden row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses import PENALTIES, reverse_kl

P = np.array([[0.5, 0.2, 0.9], [0.3, 0.04, 0.6]])
Q = np.array([[0.25, 0.4, 0.9], [0.6, 0.02, 0.1]])
K = np.log(P / Q)
# Value, and its derivative for the policy's log-prob.
GOLDEN = {
    "reverse_kl": (Q / P - 1 + K, K),
    "k1": (K, np.ones_like(K)),
    "k2": (K**2 / 2, K),
    "k3": (Q / P - 1 + K, 1 - Q / P),
    "k1_score": (K, K + 1),
    "k3_score": (Q / P - 1 + K, K),
    "absolute": (np.abs(K), np.sign(K)),
}
WHERE = np.array([[True, False, True], [False, True, False]])
every = pytest.mark.parametrize("name", PENALTIES.names())


def inputs(dtype=jnp.float32):
    return jnp.asarray(np.log(P), dtype), jnp.asarray(np.log(Q), dtype)


def value_and_gradient(name, log_probs, reference, where=None):
    def total(log_probs):
        values = PENALTIES[name](log_probs, reference, where=where)
        return values.sum(), values

    (_, values), gradient = jax.value_and_grad(total, has_aux=True)(log_probs)
    return values, gradient


def test_every_penalty_has_its_row():
    assert set(PENALTIES.names()) == set(GOLDEN)


@every
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 2e-6), (jnp.float64, 1e-14)])
def test_golden_values_and_gradients(name, dtype, tolerance):
    with jax.enable_x64(True):
        got = value_and_gradient(name, *inputs(dtype))
    for mine, expected in zip(got, GOLDEN[name], strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance)


@every
def test_the_expected_gradient_is_the_declared_one(name, enumeration):
    kls = {
        "reverse_kl": enumeration.kl_gradient(policy_first=True),
        "forward_kl": enumeration.kl_gradient(policy_first=False),
    }
    reference = enumeration.log_probs(enumeration.reference_logits)
    gradient = enumeration.expected_gradient(
        lambda log_probs: PENALTIES[name](log_probs, reference)
    )
    declared = PENALTIES.card(name).gradient
    if declared in kls:
        np.testing.assert_allclose(gradient, kls[declared], rtol=1e-10, atol=1e-14)
    elif name == "k1":
        np.testing.assert_allclose(gradient, np.zeros((2, 4)), atol=1e-14)
    else:
        assert not any(np.allclose(gradient, kl, rtol=0.05) for kl in kls.values())


@every
def test_descending_a_penalty_that_regularises_lowers_the_kl(name, enumeration):
    # Added, not subtracted: the sign that was shipped wrong elsewhere.
    gradient = enumeration.expected_gradient(
        lambda log_probs: PENALTIES[name](
            log_probs, enumeration.log_probs(enumeration.reference_logits)
        )
    )
    slope = float(jnp.sum(gradient * enumeration.kl_gradient(policy_first=True)))
    assert abs(slope) < 1e-14 if name == "k1" else slope > 0.01


@every
def test_at_the_reference_there_is_nothing_to_pay(name):
    log_probs, _ = inputs()
    values, gradient = value_and_gradient(name, log_probs, log_probs)
    np.testing.assert_array_equal(values, np.zeros_like(P))
    np.testing.assert_array_equal(
        gradient, np.full_like(P, 1.0 if name in ("k1", "k1_score") else 0.0)
    )


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9, -1e9])
def test_masked_tokens_are_bit_for_bit_without_effect(name, bad):
    log_probs, reference = inputs()
    where = jnp.asarray(WHERE)
    clean = value_and_gradient(name, log_probs, reference, where)
    for fills in ((bad, bad), (bad, -1.0), (-1.0, bad)):
        spoilt = [
            jnp.where(where, x, f) for x, f in zip((log_probs, reference), fills, strict=True)
        ]
        for mine, expected in zip(value_and_gradient(name, *spoilt, where), clean, strict=True):
            np.testing.assert_array_equal(mine, expected)
            np.testing.assert_array_equal(np.asarray(mine)[~WHERE], 0)


@every
def test_the_reference_carries_no_gradient(name):
    log_probs, reference = inputs()
    gradient = jax.grad(lambda q: PENALTIES[name](log_probs, q).sum())(reference)
    np.testing.assert_array_equal(gradient, np.zeros_like(P))


@every
def test_jit_vmap_and_strict_dtypes(name):
    penalty, arguments = PENALTIES[name], inputs()
    eager = penalty(*arguments)
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_allclose(jax.jit(penalty)(*arguments), eager, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jax.vmap(penalty)(*arguments), eager, rtol=1e-6, atol=1e-7)


@every
def test_what_does_not_fit_is_refused(name):
    log_probs, reference = inputs()
    with pytest.raises(ValueError, match="shapes must be equal"):
        PENALTIES[name](log_probs, reference[:1])
    with pytest.raises(TypeError, match="where must be a bool array"):
        PENALTIES[name](log_probs, reference, where=jnp.ones((2, 3)))


def test_an_abandoned_token_still_has_a_finite_gradient():
    log_probs, reference = jnp.array([-200.0]), jnp.array([-1.0])
    values, gradient = value_and_gradient("reverse_kl", log_probs, reference)
    assert values[0] == jnp.inf
    assert gradient[0] == -199


def test_the_value_is_untouched_by_the_straight_through_term():
    log_probs, reference = inputs()
    np.testing.assert_array_equal(
        reverse_kl(log_probs, reference), PENALTIES["k3"](log_probs, reference)
    )
