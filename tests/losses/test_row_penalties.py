"""What every penalty on whole rows keeps to; a new one adds one golden row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses import ROW_PENALTIES
from jaxgrpo.losses.config import LossConfig, PenaltyConfig, make_objective
from jaxgrpo.losses.token_inputs import TokenInputs

# [B 2, T 2, V 3]
P = np.array([[[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]], [[0.1, 0.6, 0.3], [0.25, 0.5, 0.25]]])
R = np.array([[[0.25, 0.25, 0.5], [0.9, 0.09, 0.01]], [[0.2, 0.2, 0.6], [0.5, 0.25, 0.25]]])
REVERSE = (P * np.log(P / R)).sum(-1)
# Value, and its derivative for the policy's logits.
GOLDEN = {
    "exact_reverse_kl": (REVERSE, P * (np.log(P / R) - REVERSE[..., None])),
    "exact_forward_kl": ((R * np.log(R / P)).sum(-1), P - R),
}
WHERE = np.array([[True, False], [False, True]])
every = pytest.mark.parametrize("name", ROW_PENALTIES.names())


def inputs(dtype=jnp.float32):
    return jnp.asarray(np.log(P), dtype), jnp.asarray(np.log(R), dtype)


def value_and_gradient(name, logits, reference, where=None):
    def total(logits):
        values = ROW_PENALTIES[name](jax.nn.log_softmax(logits), reference, where=where)
        return values.sum(), values

    (_, values), gradient = jax.value_and_grad(total, has_aux=True)(logits)
    return values, gradient


def test_every_penalty_has_its_row():
    assert set(ROW_PENALTIES.names()) == set(GOLDEN)


@every
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 1e-6), (jnp.float64, 1e-14)])
def test_golden_values_and_gradients(name, dtype, tolerance):
    with jax.enable_x64(True):
        got = value_and_gradient(name, *inputs(dtype))
    for mine, expected in zip(got, GOLDEN[name], strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance)


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9])
def test_masked_tokens_are_bit_for_bit_without_effect(name, bad):
    rows, reference = inputs()
    where = jnp.asarray(WHERE)

    def both(rows, reference):
        def total(rows):
            values = ROW_PENALTIES[name](rows, reference, where=where)
            return values.sum(), values

        return jax.value_and_grad(total, has_aux=True)(rows)

    (_, values), gradient = both(rows, reference)
    spoilt = [jnp.where(where[..., None], x, bad) for x in (rows, reference)]
    (_, same_values), same_gradient = both(*spoilt)
    for mine, expected in ((same_values, values), (same_gradient, gradient)):
        np.testing.assert_array_equal(mine, expected)
        np.testing.assert_array_equal(np.asarray(mine)[~WHERE], 0)


@every
def test_the_reference_carries_no_gradient(name):
    rows, reference = inputs()
    gradient = jax.grad(lambda q: ROW_PENALTIES[name](rows, q).sum())(reference)
    np.testing.assert_array_equal(gradient, np.zeros_like(P))


@every
def test_at_the_reference_there_is_nothing_to_pay(name):
    rows, _ = inputs()
    np.testing.assert_array_equal(ROW_PENALTIES[name](rows, rows), np.zeros_like(REVERSE))


@every
def test_jit_and_vmap(name):
    penalty, arguments = ROW_PENALTIES[name], inputs()
    eager = penalty(*arguments)
    np.testing.assert_allclose(jax.jit(penalty)(*arguments), eager, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jax.vmap(penalty)(*arguments), eager, rtol=1e-6, atol=1e-7)


@every
def test_what_does_not_fit_is_refused(name):
    rows, reference = inputs()
    with pytest.raises(ValueError, match="shape"):
        ROW_PENALTIES[name](rows, reference[:1])
    with pytest.raises(TypeError, match="where must be a bool array"):
        ROW_PENALTIES[name](rows, reference, where=jnp.ones((2, 2)))


@every
def test_the_gradient_is_the_declared_one_of_all_sequences(name, enumeration):
    """Positions are independent here, so the KL of sequences is the sum of the tokens' own."""

    def total(logits):
        rows = jax.nn.log_softmax(logits)
        reference = jax.nn.log_softmax(jnp.asarray(enumeration.reference_logits))
        return ROW_PENALTIES[name](rows, reference).sum()

    first = ROW_PENALTIES.card(name).gradient == "reverse_kl"
    got = jax.grad(total)(jnp.asarray(enumeration.logits))
    np.testing.assert_allclose(got, enumeration.kl_gradient(first), rtol=1e-12, atol=1e-15)


# In the objective.

COEFFICIENT = 0.3
SAMPLED = {"exact_reverse_kl": "reverse_kl", "exact_forward_kl": "k3"}


def objective(name):
    penalty = PenaltyConfig(name=name, coefficient=COEFFICIENT)
    return make_objective(LossConfig(name="reinforce", penalty=penalty))


def penalty_gradient(name, logits, reference, behaviour, token, where=True):
    """For the logits of one prefix, of the penalty alone: the advantage is 0."""

    def loss(logits):
        rows = jax.nn.log_softmax(logits)
        exact = name in ROW_PENALTIES.names()
        inputs = TokenInputs(
            behaviour_log_probs=behaviour[token].reshape(1, 1),
            anchor_log_probs=None,
            reference_log_probs=None if exact else reference[token].reshape(1, 1),
            advantages=jnp.zeros(1),
            where=jnp.full((1, 1), where),
            row_weights=jnp.ones(1),
            group_ids=jnp.zeros(1, jnp.int32),
        )
        penalties = ROW_PENALTIES[name](rows[None, None], reference[None, None]) if exact else None
        log_prob = rows[token].reshape(1, 1)
        total, (parts, _) = objective(name)(
            log_prob, jnp.ones((1, 1)), inputs, row_penalties=penalties
        )
        return total, parts

    return jax.grad(loss, has_aux=True)(logits)


@every
def test_no_ratio_goes_with_an_exact_penalty(name):
    """Whatever the sampler drew, and from what: every token has the gradient of the mean.

    A sampled penalty has that gradient on average over the sampler's tokens, by its ratio; the
    exact one would be wrong with it.
    """
    random = np.random.default_rng(0)
    with jax.enable_x64(True):
        logits, reference, behaviour = jnp.asarray(random.normal(size=(3, 5)))
        reference, behaviour = jax.nn.log_softmax(reference), jax.nn.log_softmax(behaviour)
        p, r = np.exp(jax.nn.log_softmax(logits)), np.exp(reference)
        kl = (p * np.log(p / r)).sum()
        wanted = {"exact_reverse_kl": p * (np.log(p / r) - kl), "exact_forward_kl": p - r}[name]
        mean = np.zeros(5)
        for token in range(5):
            got, parts = penalty_gradient(name, logits, reference, behaviour, token)
            np.testing.assert_allclose(got, COEFFICIENT * wanted, rtol=1e-12, atol=1e-15)
            value = {"exact_reverse_kl": kl, "exact_forward_kl": (r * np.log(r / p)).sum()}[name]
            np.testing.assert_allclose(parts["loss/penalty"], COEFFICIENT * value, rtol=1e-12)
            one, _ = penalty_gradient(SAMPLED[name], logits, reference, behaviour, token)
            mean += np.exp(behaviour[token]) * one
        np.testing.assert_allclose(mean, COEFFICIENT * wanted, rtol=1e-12, atol=1e-15)


@every
def test_masked_tokens_pay_nothing_whatever_their_penalty(name):
    inputs = TokenInputs(
        behaviour_log_probs=jnp.full((2, 2), -1.0),
        anchor_log_probs=None,
        reference_log_probs=None,
        advantages=jnp.ones(2),
        where=jnp.asarray(WHERE),
        row_weights=jnp.ones(2),
        group_ids=jnp.zeros(2, jnp.int32),
    )

    def loss(penalties):
        log_probs = jnp.full((2, 2), -1.0)
        return objective(name)(log_probs, log_probs, inputs, row_penalties=penalties)[0]

    fine = jnp.asarray([[1.0, 0.0], [0.0, 2.0]])
    spoilt = jnp.where(jnp.asarray(WHERE), fine, jnp.nan)
    (one, d_one), (other, d_other) = (jax.value_and_grad(loss)(x) for x in (fine, spoilt))
    assert one == other
    np.testing.assert_array_equal(d_one, COEFFICIENT * WHERE.astype(np.float32))
    np.testing.assert_array_equal(d_one, d_other)
    with pytest.raises(ValueError, match="the penalty needs row_penalties, got None"):
        loss(None)
