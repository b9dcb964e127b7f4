"""What every policy loss keeps to; a new one adds one case here and one row to test_formulas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxgrpo.losses import LOSSES

# One setting of every loss: defaults, or what sends this batch to both sides of its bounds.
CASES = {
    "adrpo": {"beta": 0.5},
    "aspo": {},
    "atr": {"delta": 0.023144},
    "bapo": {},
    "ce_gppo": {"dual_clip": 1.5},
    "cfpo": {},
    "cispo": {"clip_high": 1.3},
    "clip_cov": {"fraction": 0.2, "covariance_low": 0.0},
    "dagrpo": {"tau": 0.2},
    "dppo_kl": {"delta": 0.003},
    "dppo_topk_kl": {"delta": 0.003},
    "dppo_topk_tv": {"delta": 0.03},
    "dppo_tv": {"delta": 0.03},
    "dro": {},
    "erc": {},
    "fipo": {},
    "gmpo": {"clip": 0.2},
    "gpg": {},
    "gppo": {},
    "gspo": {"clip_low": 0.03, "clip_high": 0.03},
    "gspo_token": {"clip_low": 0.03, "clip_high": 0.03},
    "gvpo": {},
    "kl_cov": {"fraction": 0.2},
    "luffy": {},
    "luspo": {},
    "minirl": {},
    "ppo_clip": {"dual_clip": 1.5},
    "real": {},
    "reinforce": {"weight": "ratio"},
    "rpg": {"beta": 0.1, "clipped": True},
    "sapo": {},
    "sequence_budget": {"total": 0.1},
    "topr": {"level": "sequence"},
    "trust_region": {"divergence": "binary_tv", "delta": 0.03},
    "up_grpo": {},
    "vespo": {},
}
# On-policy, these are not the policy gradient at every token; their cards say what they are.
NOT_MINUS_A = {"clip_cov", "dagrpo", "gvpo", "luffy", "real"}
# A penalty, or rewards in the place of advantages, goes on where the advantage is 0.
LIVE_WITHOUT_ADVANTAGE = {"adrpo", "dro", "gvpo", "kl_cov", "real", "rpg"}
# Their value has the gradient that is descended: nothing but advantages and masks is detached.
UNDETACHED = ["adrpo", "atr", "cfpo", "dro", "gmpo", "ppo_clip", "sapo"]
UNDETACHED += ["sequence_budget", "trust_region"]

every = pytest.mark.parametrize("name", CASES)
alone = pytest.mark.parametrize(
    "name", [name for name in CASES if LOSSES.card(name).level in ("token", "sequence")]
)

RANDOM = np.random.default_rng(3)
# As many sequences as tokens: to mistake one axis for the other changes numbers.
SHAPE = (5, 5)
ANCHOR = np.log(RANDOM.uniform(0.05, 0.3, size=SHAPE))
LOG_PROBS = ANCHOR + RANDOM.normal(size=SHAPE) * 0.4
ADVANTAGES = np.array([1.5, -0.7, 0.0, 2.0, -1.2])
WHERE = np.arange(5) < np.array([[5], [3], [4], [0], [2]])
EXTRAS = {
    "group_ids": np.int32([3, 3, -1, -1, 3]),
    "rewards": np.array([1.0, 0.0, 0.0, 1.0, 0.9]),
    "behaviour_log_probs": ANCHOR + RANDOM.normal(size=SHAPE) * 0.1,
    "reference_log_probs": ANCHOR + RANDOM.normal(size=SHAPE) * 0.2,
    "entropies": RANDOM.uniform(0.9, 1.1, size=SHAPE),
    "anchor_entropies": np.ones(SHAPE),
    "off_policy": RANDOM.uniform(size=SHAPE) < 0.3,
    "behaviour_top_log_probs": np.log(RANDOM.uniform(0.3, 0.4, size=(*SHAPE, 1))),
    "top_log_probs": np.log(RANDOM.uniform(0.3, 0.4, size=(*SHAPE, 1))),
}


def inputs(dtype=jnp.float32):
    return tuple(jnp.asarray(x, dtype) for x in (LOG_PROBS, ANCHOR, ADVANTAGES))


def extras(name, dtype=jnp.float32):
    """The batch arrays that a loss needs beyond the three of all losses."""
    found = {}
    for need in LOSSES.card(name).needs:
        if need == "key":
            found[need] = jax.random.key(0)
        else:
            value = jnp.asarray(EXTRAS[need])
            found[need] = value.astype(dtype) if value.dtype.kind == "f" else value
    return found


def loss_of(name, **arrays):
    return functools.partial(LOSSES.bind(name, **CASES[name]), **arrays)


@functools.partial(jax.jit, static_argnames="name")
def value_and_gradients(name, log_probs, anchor, advantages, where, arrays):
    """Values, and the gradients of their sum for log-probs, anchor and advantages."""

    def total(log_probs, anchor, advantages):
        values = loss_of(name, **arrays)(log_probs, anchor, advantages, where=where)
        return values.sum(), values

    (_, values), gradients = jax.value_and_grad(total, (0, 1, 2), has_aux=True)(
        log_probs, anchor, advantages
    )
    return values, *gradients


def each_token(advantages):
    return jnp.repeat(advantages[:, None], SHAPE[1], axis=1)


def test_every_loss_has_a_case():
    assert set(CASES) == set(LOSSES.names())


@pytest.mark.parametrize("name", sorted(set(CASES) - NOT_MINUS_A))
def test_on_policy_the_gradient_is_minus_the_advantage(name):
    log_probs, _, advantages = inputs()
    arrays = extras(name)
    for same in ("behaviour_log_probs", "reference_log_probs"):
        if same in arrays:
            arrays[same] = log_probs
    if name == "erc":
        arrays["entropies"] = arrays["anchor_entropies"]
    where = jnp.ones(SHAPE, bool)
    _, gradient, *_ = value_and_gradients(
        name, log_probs, log_probs, each_token(advantages), where, arrays
    )
    # A mean over a sequence, and a sigmoid's slope, are as exact as their arithmetic.
    exact = LOSSES.card(name).level == "token" and name != "sapo"
    np.testing.assert_allclose(gradient, -each_token(advantages), rtol=0 if exact else 5e-7)


@every
def test_masked_tokens_are_bit_for_bit_without_effect(name):
    log_probs, anchor, advantages = inputs()
    where, arrays = jnp.asarray(WHERE), extras(name)
    spread = each_token(advantages)
    clean = value_and_gradients(name, log_probs, anchor, spread, where, arrays)
    for bad in (np.nan, np.inf, -np.inf, 1e9, -1e9):
        spoilt = {
            key: jnp.where(
                where if value.ndim == 2 else where[..., None],
                value,
                jnp.asarray(bad).astype(value.dtype),
            )
            if value.shape[:2] == SHAPE
            else value
            for key, value in arrays.items()
        }
        if "rewards" in spoilt:  # of the sequence without tokens
            spoilt["rewards"] = spoilt["rewards"].at[3].set(bad)
        for fills in ((bad, bad, bad), (bad, -1.0, bad), (-1.0, bad, bad)):
            filled = [
                jnp.where(where, x, fill)
                for x, fill in zip((log_probs, anchor, spread), fills, strict=True)
            ]
            got = value_and_gradients(name, *filled, where, spoilt)
            for mine, expected in zip(got, clean, strict=True):
                np.testing.assert_array_equal(mine, expected)
                np.testing.assert_array_equal(np.asarray(mine)[~WHERE], 0)


@every
def test_only_the_policy_carries_gradient(name):
    log_probs, anchor, advantages = inputs()
    where, arrays = jnp.asarray(WHERE), extras(name)
    spread = each_token(advantages)
    _, mine, *others = value_and_gradients(name, log_probs, anchor, spread, where, arrays)
    assert np.count_nonzero(mine)
    for gradient in others:
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


@pytest.mark.parametrize("name", sorted(set(CASES) - LIVE_WITHOUT_ADVANTAGE))
def test_no_advantage_means_no_gradient_whatever_the_ratio(name):
    wild = jnp.broadcast_to(jnp.array([200.0, -200.0, jnp.inf, -jnp.inf, 0.0]), SHAPE)
    zeros, where = jnp.zeros(SHAPE), jnp.ones(SHAPE, bool)
    values, gradient, *_ = value_and_gradients(name, wild, zeros, zeros, where, extras(name))
    np.testing.assert_array_equal(values, zeros)
    np.testing.assert_array_equal(gradient, zeros)


@pytest.mark.parametrize(
    "name",
    [
        "atr",
        "bapo",
        "dppo_tv",
        "erc",
        "minirl",
        "ppo_clip",
        "trust_region",
    ],
)
def test_a_clipped_token_has_no_gradient_even_where_its_ratio_overflows(name):
    # Raised beyond float32 for A > 0, abandoned for A < 0.
    log_probs = jnp.broadcast_to(jnp.array([[200.0], [-200.0], [jnp.inf], [-jnp.inf], [0]]), SHAPE)
    advantages = each_token(jnp.array([2.0, -2.0, 2.0, -2.0, 0.0]))
    arrays = extras(name)
    where = jnp.ones(SHAPE, bool)
    values, gradient, *_ = value_and_gradients(
        name, log_probs, jnp.zeros(SHAPE), advantages, where, arrays
    )
    np.testing.assert_array_equal(gradient, np.zeros(SHAPE))
    assert bool(jnp.all(jnp.isfinite(values)))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"gvpo"}))
@pytest.mark.parametrize("log_prob", [-np.inf, -1e4, -200.0])
def test_an_abandoned_token_has_a_gradient(name, log_prob):
    # GVPO's regression on the log-probability of the sequence has none where that is -inf.
    anchor, where = jnp.full(SHAPE, -1.0), jnp.ones(SHAPE, bool)
    log_probs = anchor.at[:, 0].set(log_prob)
    advantages = each_token(jnp.asarray(ADVANTAGES, jnp.float32))
    _, gradient, *_ = value_and_gradients(name, log_probs, anchor, advantages, where, extras(name))
    assert not np.isnan(gradient).any()


@alone
def test_eager_vmap_and_sequence_advantages_agree_with_jit(name):
    log_probs, anchor, advantages = inputs()
    where, arrays = jnp.asarray(WHERE), extras(name)
    expected, *_ = value_and_gradients(
        name, log_probs, anchor, each_token(advantages), where, arrays
    )
    with jax.numpy_dtype_promotion("strict"):
        eager = loss_of(name, **arrays)(log_probs, anchor, advantages, where=where)
    np.testing.assert_allclose(eager, expected, rtol=1e-5, atol=1e-7)

    @jax.jit
    @jax.vmap
    def by_row(log_probs, anchor, advantages, where, arrays):
        return loss_of(name, **arrays)(log_probs, anchor, advantages, where=where)

    by_rows = by_row(log_probs, anchor, advantages, where, arrays)
    np.testing.assert_allclose(by_rows, expected, rtol=1e-5, atol=1e-7)


@every
def test_no_dtype_is_promoted(name):
    # Sums of bfloat16 are taken in float32 on purpose.
    for dtype, promotion in ((jnp.float32, "strict"), (jnp.bfloat16, "standard")):
        with jax.numpy_dtype_promotion(promotion):
            values = jax.eval_shape(
                lambda x, y, a, arrays: loss_of(name, **arrays)(x, y, a, where=jnp.asarray(WHERE)),
                *inputs(dtype),
                extras(name, dtype),
            )
        assert (values.shape, values.dtype) == (SHAPE, dtype)


@every
def test_what_does_not_fit_is_refused(name):
    loss = loss_of(name, **extras(name))
    log_probs, anchor, advantages = inputs()
    with pytest.raises(ValueError, match="shapes must be equal"):
        loss(log_probs, anchor[:, :1], advantages)
    with pytest.raises(ValueError, match=r"advantages must have shape \[5\] or \[5, 5\]"):
        loss(log_probs, anchor, advantages[:, None])
    with pytest.raises(TypeError, match="dtypes must be equal"):
        loss(log_probs, anchor, advantages.astype(jnp.bfloat16))
    with pytest.raises(TypeError, match="where must be a bool array"):
        loss(log_probs, anchor, advantages, where=jnp.ones(SHAPE))


@pytest.mark.parametrize("name", [n for n in CASES if set(LOSSES.card(n).needs) - {"key"}])
def test_a_batch_array_that_does_not_fit_is_refused(name):
    arrays = extras(name)
    for need in set(arrays) - {"key"}:
        loss = loss_of(name, **{**arrays, need: arrays[need][:2]})
        with pytest.raises(ValueError, match="shape"):
            loss(*inputs())


@pytest.mark.parametrize("name", UNDETACHED)
def test_gradients_are_those_of_the_value(name):
    with jax.enable_x64(True):
        log_probs, anchor, advantages = inputs(jnp.float64)
        loss = jax.jit(loss_of(name, **extras(name, jnp.float64)))
        check_grads(lambda x: loss(x, anchor, advantages), (log_probs,), 1, modes=("fwd", "rev"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ppo_clip", {}),
        ("gspo", {}),
        ("sapo", {}),
        ("adrpo", {"beta": 0.5}),
        *[
            ("rpg", {"kind": kind, "beta": 0.3, "estimator": estimator})
            for kind in ("fkl", "rkl", "ufkl", "urkl")
            for estimator in ("reinforce", "differentiable")
        ],
    ],
)
def test_the_expected_gradient_is_the_declared_one(name, options, enumeration):
    # Those whose gradient at every token is -A follow from the first test.
    assert LOSSES.card(name).gradient == "policy_gradient"
    loss = LOSSES.bind(name, **options)

    def token_values(log_probs):
        same = jax.lax.stop_gradient(log_probs)
        arrays = {need: same for need in LOSSES.card(name).needs}
        return loss(log_probs, same, jnp.asarray(enumeration.rewards), **arrays)

    gradient = enumeration.expected_gradient(token_values)
    np.testing.assert_allclose(gradient, -enumeration.policy_gradient(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ppo_clip", {"clip_low": -0.1}, "clip_low must be at least 0"),
        ("ppo_clip", {"clip_high": float("nan")}, "clip_high must be at least 0"),
        ("ppo_clip", {"dual_clip": 1.2}, r"dual_clip must be more than 1 \+ clip_high = 1.2"),
        ("ppo_clip", {"dual_clip": float("nan")}, "dual_clip must be"),
        ("atr", {"delta": -0.01}, "delta must be at least 0"),
        ("trust_region", {"divergence": "tv", "delta": -0.1}, "delta must be at least 0"),
        ("trust_region", {"divergence": "tv", "delta": 0.1, "delta_low": -1.0}, "delta_low must"),
        ("dppo_tv", {"cap": -1.0}, "cap must be at least 0"),
        ("cispo", {"clip_low": 2.0, "clip_high": 1.0}, "clip_high must be at least 2"),
        ("sapo", {"tau_positive": 0.0}, "tau_positive must be more than 0"),
        ("rpg", {"dual_clip": 1.0}, "dual_clip must be more than 1.28"),
        ("bapo", {"low": 0.9}, "low_max must be at least 0.9"),
        ("erc", {"low": 1.1}, "high must be more than 1.1"),
        ("clip_cov", {"covariance_high": 0.5}, "covariance_high must be at least 1"),
    ],
)
def test_options_out_of_range_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        LOSSES.bind(name, **options)(*inputs(), **extras(name))
