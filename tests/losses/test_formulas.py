"""Every loss against its formula: value and gradient weight worked out in NumPy and float64.

The first argument of each formula is a `Batch`; it returns the values of the tokens and what
multiplies each token's grad log pi, that is minus the gradient of the values' sum.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.losses import LOSSES

RANDOM = np.random.default_rng(23)
SHAPE = (6, 5)
LENGTHS = [5, 3, 4, 0, 2, 5]


def make_batch():
    anchor = np.log(RANDOM.uniform(0.05, 0.4, size=SHAPE))
    # Ratios of 6.7 for A > 0, 18 and 6 for A < 0: beyond each cap.
    anchor[0, 0], anchor[1, 1], anchor[4, 0] = np.log([0.1, 0.05, 0.05])
    log_probs = np.minimum(anchor + RANDOM.normal(size=SHAPE) * 0.5, -0.02)
    log_probs[0, 0], log_probs[1, 1], log_probs[4, 0] = np.log([0.67, 0.9, 0.3])
    # And ratios between the bounds that BAPO searches.
    for place, ratio in {(5, 0): 1.27, (5, 1): 1.42, (1, 0): 0.72, (4, 1): 0.63}.items():
        log_probs[place] = anchor[place] + np.log(ratio)
    where = np.arange(5) < np.array(LENGTHS)[:, None]
    advantages = np.array([1.5, -0.7, 0.0, 2.0, -1.2, 0.8])
    x = types.SimpleNamespace(
        log_probs=log_probs,
        anchor_log_probs=anchor,
        advantages=advantages,
        where=where,
        a=np.repeat(advantages[:, None], 5, 1) * where,
        d=np.where(where, log_probs - anchor, 0),
        n=np.maximum(where.sum(-1, keepdims=True), 1),
        group_ids=np.int32([3, 3, -1, -1, 3, -1]),
        rewards=np.array([1.0, 0.0, 0.0, 1.0, 0.9, 1.0]),
        behaviour_log_probs=anchor + RANDOM.normal(size=SHAPE) * 0.2,
        reference_log_probs=anchor + RANDOM.normal(size=SHAPE) * 0.3,
        entropies=RANDOM.uniform(0.9, 1.1, size=SHAPE),
        anchor_entropies=RANDOM.uniform(0.95, 1.05, size=SHAPE),
        off_policy=RANDOM.uniform(size=SHAPE) < 0.4,
        behaviour_top_log_probs=np.log(RANDOM.uniform(0.41, 0.45, size=(*SHAPE, 1))),
        top_log_probs=np.log(RANDOM.uniform(0.01, 0.1, size=(*SHAPE, 1))),
    )
    x.lp = np.where(where, log_probs, 0)
    x.r = np.exp(x.d)
    x.mean = x.d.sum(-1, keepdims=True) / x.n + 0 * x.d
    return x


X = make_batch()


def weighted(weights):
    """-w A log pi."""
    return -weights * X.a * X.lp, weights * X.a


def surrogate(weights, values=None):
    """-w A, where clipped tokens have another value and weight 0."""
    return -(weights if values is None else values) * X.a, weights * X.a


def outward(distance, delta, delta_low):
    too_far = distance > np.where(X.a < 0, delta_low, delta)
    return too_far & ((X.a > 0) & (X.r > 1) | (X.a < 0) & (X.r < 1))


def ppo(r, low, high, dual=None, a=None):
    a = X.a if a is None else a
    clipped = (a > 0) & (r > 1 + high) | (a < 0) & (r < 1 - low)
    ends = np.where(a > 0, 1 + high, 1 - low)
    if dual is not None:
        over = (a < 0) & (r > dual)
        clipped, ends = clipped | over, np.where(over, dual, ends)
    return -np.where(clipped, ends, r) * a, np.where(clipped, 0, r) * a


def topr(level):
    log_ratio = {"token": X.d, "sequence": X.mean * X.n, "sequence_mean": X.mean}[level]
    return weighted(np.where(X.rewards[:, None] > 0, 1, np.minimum(np.exp(log_ratio), 1)))


def vespo():
    log_w = np.clip(np.clip(X.d, -20, 20).sum(-1, keepdims=True), np.log(1e-8), 20)
    k, lam = np.where(X.a < 0, 3, 2), np.where(X.a < 0, 2, 3)
    return weighted(np.exp(lam + k * log_w - lam * np.exp(log_w)))


def gmpo(clip):
    up, down = (X.a > 0) & (X.d > clip), (X.a < 0) & (X.d < -clip)
    c = np.where(up, clip, np.where(down, -clip, X.d))
    row = np.exp(c.sum(-1, keepdims=True) / X.n)
    return -row * X.a, np.where(up | down, 0, row) * X.a


def sapo():
    tau = np.where(X.a > 0, 1.0, 1.05)
    gate = 1 / (1 + np.exp(-tau * (X.r - 1)))
    return -(4 / tau) * gate * X.a, 4 * gate * (1 - gate) * X.r * X.a


def cfpo(epsilon):
    values = -X.r * X.a + np.abs(X.a) * (X.r - 1) ** 2 / (2 * epsilon)
    return values, X.r * (X.a - np.abs(X.a) * (X.r - 1) / epsilon)


def preserving(b1, b2, dual):
    weights = np.where((X.a > 0) & (X.r > 1.2), b2 * 1.2, X.r)
    weights = np.where((X.a < 0) & (X.r < 0.8), b1 * 0.8, weights)
    over = (X.a < 0) & (X.r > dual)
    return surrogate(np.where(over, 0, weights), np.where(over, dual, weights))


def aspo():
    w = np.where(X.a > 0, 1 / X.r, X.r)
    cut = (X.a > 0) & (X.r > 1.2) | (X.a < 0) & (X.r < 0.8)
    values = -np.where(cut, np.where(X.a > 0, 1 / 1.2, 0.8), w) * X.a
    soft = (w > 3) & ~cut
    values = np.where(soft, -3 * X.a * X.lp, values)
    return values, np.where(cut, 0, np.minimum(w, 3)) * X.a


def up_grpo():
    values, weights = ppo(X.r, 0.2, 0.2, 3.0)
    return np.where(X.a > 0, -X.a, values), np.where(X.a > 0, X.a, weights)


def luffy():
    p = np.exp(X.lp)
    values, weights = ppo(X.r, 0.2, 0.2)
    off = X.off_policy & X.where
    return (
        np.where(off, -p / (p + 0.1) * X.a, values),
        np.where(off, 0.1 * p / (p + 0.1) ** 2 * X.a, weights),
    )


def gvpo(beta):
    values, weights = np.zeros(SHAPE), np.zeros(SHAPE)
    for group in (3, -1):
        rows = [i for i in range(6) if X.group_ids[i] == group and LENGTHS[i]]
        implied, rewards = beta * X.d.sum(-1)[rows], X.advantages[rows]
        e = implied - implied.mean() - (rewards - rewards.mean())
        for i, row in enumerate(rows):
            values[row] = e[i] ** 2 / (2 * (len(rows) - 1)) / LENGTHS[row]
            weights[row] = -beta * e[i] / (len(rows) - 1)
    return values, weights


def real(tau):
    values, weights = np.zeros(SHAPE), np.zeros(SHAPE)
    for group in (3, -1):
        rows = [i for i in range(6) if X.group_ids[i] == group and LENGTHS[i]]
        for sign in (1, -1):
            mine = [i for i in rows if (X.rewards[i] > 0) == (sign > 0)]
            exponentials = np.exp([-sign * X.mean[i, 0] / tau for i in mine])
            values[rows] += np.log(1 + exponentials.sum())
            for i, e in zip(mine, exponentials, strict=True):
                weights[i] = sign * len(rows) / tau * e / (1 + exponentials.sum())
    return values, weights


def dagrpo(tau):
    own_values, own_weights = ppo(X.r, 0.2, 0.2)
    values = np.where(X.off_policy, -X.a, own_values)
    weights = np.where(X.off_policy, X.a, own_weights)
    for i in range(6):
        for j in range(6):
            rivals = X.group_ids[i] == X.group_ids[j] and X.a[i, 0] * X.a[j, 0] < 0
            if rivals and abs(X.rewards[i] - X.rewards[j]) < tau:
                values[i], weights[i] = 0, 0
    return values, weights


def rpg(kind, estimator, b, clipped=False):
    r, d, a, lp = X.r, X.d, X.a, X.lp
    if clipped and estimator == "differentiable":
        regularised = {"rkl": a - b * (d + 1), "urkl": a - b * d}.get(kind, a)
        return ppo(r, 0.2, 0.28, 3.0, a=np.where(X.where, regularised, 0))
    part = {"fkl": 1, "ufkl": -(r - 1), "rkl": -r * (d + 1), "urkl": -r * d}[kind]
    weights = np.where(X.where, r * a + b * part, 0)
    if clipped:
        positive = a + b * part / r >= 0
        live = np.where(positive, r < 1.28, (r > 0.8) & (r < 3.0))
        weights = np.where(live, weights, 0)
    if estimator == "reinforce":
        return -weights * lp, weights
    values = {
        "fkl": -r * a - b * lp,
        "rkl": r * (-a + b * d),
        "ufkl": -r * a + b * (r - d - 1),
        "urkl": -r * a + b * (r * d - r),
    }[kind]
    return values, weights


def kl_cov(count, coefficient):
    flat = X.where
    covariance = (X.a - X.a[flat].mean()) * (X.lp - X.lp[flat].mean())
    kth = np.sort(covariance[flat])[-count]
    held = flat & (covariance >= kth)
    return (
        -X.r * X.a + coefficient * np.abs(X.d) * held,
        X.r * X.a - coefficient * np.sign(X.d) * held,
    )


def bapo(path, target):
    for low, high in path:
        positive = (np.minimum(X.r, high) * np.maximum(X.a, 0)).sum()
        negative = (np.maximum(X.r, low) * np.maximum(-X.a, 0)).sum()
        if positive >= target * negative:
            break
    return ppo(X.r, 1 - low, high - 1, 3.0)


LOWS = [(low, 1.2) for low in (0.6, 0.65, 0.7, 0.75, 0.8)]
HIGHS = [(0.8, 1.2 + 0.05 * i) for i in range(1, 17)]


def fipo():
    values, weights = ppo(X.r, 0.2, 0.28, 10.0)
    f = np.ones(SHAPE)
    counted = np.where(X.r > 10, 0, X.d)
    for t in range(5):
        tail = sum(2 ** (-(k - t) / 4) * counted[:, k] for k in range(t, 5))
        held = (X.a[:, t] < 0) & (X.r[:, t] > 4)
        f[:, t] = np.clip(np.exp(tail), np.where(held, 0.8, 1), np.where(held, 1, 1.2))
    return f * values, f * weights


def adrpo(beta, beta_min):
    values, weights = ppo(X.r, 0.2, 0.2)
    y = np.exp(np.where(X.where, X.reference_log_probs - X.log_probs, 0))
    c = np.maximum(beta - X.a, beta_min)
    return values + c * (y - 1 - np.log(y)), weights - c * (1 - y)


def erc(base):
    values, weights = base
    rho = (X.entropies + 1e-8) / (X.anchor_entropies + 1e-8)
    return values, np.where((rho > 0.95) & (rho < 1.05), weights, 0)


P, Q = np.exp(X.anchor_log_probs), np.exp(X.log_probs)
BINARY_KL = P * np.log(P / Q) + (1 - P) * np.log((1 - P) / (1 - Q))
# The likeliest token, the sampled one, which is another, and the rest.
SLOTS = [
    np.stack([own, np.exp(likeliest[..., 0]), 1 - own - np.exp(likeliest[..., 0])])
    for own, likeliest in ((P, X.behaviour_top_log_probs), (Q, X.top_log_probs))
]
SLOTS[1] = np.maximum(SLOTS[1], 1e-15)
TOP_TV = np.abs(SLOTS[0] - SLOTS[1]).sum(0) / 2
TOP_KL = (SLOTS[0] * np.log(SLOTS[0] / SLOTS[1])).sum(0)
TO_SAMPLER = np.exp(X.log_probs - X.behaviour_log_probs)
ROWS = [
    ("reinforce", {}, weighted(1.0)),
    (
        "reinforce",
        {"weight": "ratio", "cap": 1.2, "low": 0.7, "high": 2.0},
        weighted(np.where((X.r >= 0.7) & (X.r <= 2), np.minimum(X.r, 1.2), 0)),
    ),
    ("gpg", {}, weighted(1.0)),
    (
        "dppo_tv",
        {"delta": 0.03, "delta_low": 0.01, "cap": 1.3},
        weighted(np.where(outward(np.abs(P - Q), 0.03, 0.01), 0, np.minimum(X.r, 1.3))),
    ),
    ("dppo_kl", {"delta": 0.01}, weighted(np.where(outward(BINARY_KL, 0.01, 0.01), 0, X.r))),
    (
        "dppo_topk_tv",
        {"delta": 0.4, "cap": 1.3},
        weighted(np.where(outward(TOP_TV, 0.4, 0.4), 0, np.minimum(X.r, 1.3))),
    ),
    ("dppo_topk_kl", {"delta": 0.5}, weighted(np.where(outward(TOP_KL, 0.5, 0.5), 0, X.r))),
    ("cispo", {}, weighted(np.minimum(X.r, 5))),
    ("cispo", {"clip_low": 0.8, "clip_high": 1.3}, weighted(np.clip(X.r, 0.8, 1.3))),
    (
        "minirl",
        {"cap": 1.5},
        weighted(np.where(ppo(X.r, 0.2, 0.28)[1] != 0, np.minimum(TO_SAMPLER, 1.5), 0)),
    ),
    *[("topr", {"level": level}, topr(level)) for level in ("token", "sequence", "sequence_mean")],
    ("vespo", {}, vespo()),
    *[
        (name, {"clip_low": 0.05, "clip_high": 0.04}, ppo(np.exp(X.mean), 0.05, 0.04))
        for name in ("gspo", "gspo_token", "luspo")
    ],
    ("gmpo", {}, gmpo(0.4)),
    ("sapo", {}, sapo()),
    ("cfpo", {}, cfpo(0.2)),
    ("gppo", {"dual_clip": 10.0}, preserving(1.0, 1.0, 10.0)),
    ("ce_gppo", {"dual_clip": 1.5, "beta_high": 0.5}, preserving(0.75, 0.5, 1.5)),
    ("aspo", {}, aspo()),
    ("up_grpo", {}, up_grpo()),
    ("luffy", {}, luffy()),
    ("dro", {}, (-X.a * X.lp + 0.05 * X.d**2, X.a - 0.1 * X.d)),
    ("gvpo", {"beta": 0.2}, gvpo(0.2)),
    ("real", {}, real(0.5)),
    ("dagrpo", {"tau": 0.2}, dagrpo(0.2)),
    *[
        (
            "rpg",
            {"kind": kind, "estimator": estimator, "beta": 0.3},
            rpg(kind, estimator, 0.3),
        )
        for kind in ("fkl", "rkl", "ufkl", "urkl")
        for estimator in ("reinforce", "differentiable")
    ],
    *[
        (
            "rpg",
            {"kind": k, "estimator": e, "beta": 0.3, "clipped": True, "dual_clip": 3.0},
            rpg(k, e, 0.3, clipped=True),
        )
        for k, e in [("fkl", "reinforce"), ("urkl", "reinforce"), ("rkl", "differentiable")]
    ],
    ("kl_cov", {"fraction": 0.2, "coefficient": 0.5}, kl_cov(3, 0.5)),
    ("bapo", {}, bapo(LOWS + HIGHS, 1.0)),
    ("bapo", {"target": 0.48}, bapo(LOWS + HIGHS, 0.48)),
    (
        "bapo",
        {"target": 0.442, "first": "high", "high_max": 1.3},
        bapo([(0.6, 1.2), (0.6, 1.25), (0.6, 1.3)] + [(low, 1.3) for low, _ in LOWS[1:]], 0.442),
    ),
    ("fipo", {"half_life": 4.0}, fipo()),
    ("adrpo", {"beta": 0.5}, adrpo(0.5, 0.0)),
    ("adrpo", {"beta": 0.5, "beta_min": -float("inf")}, adrpo(0.5, -np.inf)),
    ("erc", {}, erc(ppo(X.r, 0.2, 0.2))),
    (
        "erc",
        {"base": "ppo_clip", "base_options": {"clip_high": 0.28, "dual_clip": 1.5}},
        erc(ppo(X.r, 0.2, 0.28, 1.5)),
    ),
]


def sequence_budget(total, shares):
    shares = np.where(X.where, shares, 0)
    budgets = total * shares / np.maximum(shares.sum(-1, keepdims=True), 1e-9)
    cut = outward(X.r - 1 - X.d, budgets, budgets)
    return surrogate(np.where(cut, 0, X.r), np.where(cut, 1, X.r))


ROWS += [
    ("sequence_budget", {}, sequence_budget(0.5, X.entropies)),
    ("sequence_budget", {"total": 0.2, "by": "tokens"}, sequence_budget(0.2, np.ones(SHAPE))),
]
RATIO_TABLES = {"ppo_clip", "atr", "trust_region"}  # in test_golden


def ids(row):
    return "-".join([row[0], *map(str, row[1].values())])


def run(name, options, **arrays):
    """Values and weights of the batch in float64."""
    with jax.enable_x64(True):
        named = {
            need: jnp.asarray(getattr(X, need)) for need in LOSSES.card(name).needs if need != "key"
        }
        loss = LOSSES.bind(name, **options)

        @jax.jit
        def both(log_probs):
            values, pull = jax.vjp(
                lambda x: loss(
                    x,
                    jnp.asarray(X.anchor_log_probs),
                    jnp.asarray(X.advantages),
                    where=jnp.asarray(X.where),
                    **named,
                    **arrays,
                ),
                log_probs,
            )
            return values, -pull(jnp.ones_like(values))[0]

        return [np.asarray(x) for x in both(jnp.asarray(X.log_probs))]


def test_every_loss_has_a_formula():
    covered = {name for name, *_ in ROWS} | RATIO_TABLES | {"clip_cov"}
    assert covered == set(LOSSES.names())


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_value_and_gradient_are_the_formulas(row):
    name, options, expected = row
    for mine, formula in zip(run(name, options), expected, strict=True):
        np.testing.assert_allclose(mine, np.where(X.where, formula, 0), rtol=1e-9, atol=1e-12)


def test_the_batch_reaches_every_branch():
    # Both ends of PPO's clip, the caps of 3 on either side, and 4 and 10 of FIPO.
    clipped = ppo(X.r, 0.2, 0.2)[1] == 0
    assert (clipped & (X.a > 0)).any() and (clipped & (X.a < 0)).any()
    assert ((X.a < 0) & (X.r > 10)).any() and ((X.a > 0) & (X.r > 5)).any()
    assert ((X.a < 0) & (X.r > 4) & (X.r < 10)).any() and ((X.a > 0) & (X.r < 0.7)).any()
    assert not np.array_equal(*[run("bapo", {"target": t})[1] for t in (1.0, 0.442)])


def test_clip_cov_drops_the_asked_number_of_candidates():
    options = {"fraction": 0.11, "covariance_low": 0.0, "clip_low": 1.0, "clip_high": 20.0}
    base, base_weights = surrogate(X.r)
    covariance = (X.a - X.a[X.where].mean()) * (X.lp - X.lp[X.where].mean())
    candidates = X.where & (covariance > 0) & (covariance < 5)
    found = set()
    for seed in range(6):
        values, weights = run("clip_cov", options, key=jax.random.key(seed))
        dropped = X.where & (weights == 0) & (base_weights != 0)
        assert not (dropped & ~candidates).any()
        np.testing.assert_array_equal(values[dropped], 0)
        rest = X.where & ~dropped
        np.testing.assert_allclose(values[rest], base[rest], rtol=1e-12)
        np.testing.assert_allclose(weights[rest], base_weights[rest], rtol=1e-12)
        found.add((int(dropped.sum()), tuple(np.flatnonzero(dropped))))
    # floor(0.11 * 19) of the trainable tokens, though a choice with A = 0 cannot be seen.
    assert max(count for count, _ in found) == 2
    assert len(found) > 2


def test_erc_wraps_a_function_with_its_options_and_arrays():
    by_name = run("erc", {"base": "dppo_tv", "base_options": {"delta": 0.03}})
    by_function = run("erc", {"base": LOSSES["dppo_tv"], "base_options": {"delta": 0.03}})
    for mine, other in zip(by_name, by_function, strict=True):
        np.testing.assert_array_equal(mine, other)
    rewards = jnp.asarray(X.rewards)
    values, _ = run("erc", {"base": "topr", "base_options": {"level": "sequence"}}, rewards=rewards)
    np.testing.assert_allclose(values, np.where(X.where, topr("sequence")[0], 0), rtol=1e-6)
    with pytest.raises(TypeError, match="loss 'dppo_tv' has no option detla"):
        run("erc", {"base": "dppo_tv", "base_options": {"detla": 0.03}})
    with pytest.raises(TypeError, match="the base of erc has no option detla"):
        run("erc", {"base": LOSSES["dppo_tv"], "base_options": {"detla": 0.03}})


def test_groups_of_gvpo_do_not_depend_on_the_order_of_rows():
    order = np.array([4, 2, 5, 0, 3, 1])
    log_probs, anchor = jnp.asarray(X.log_probs), jnp.asarray(X.anchor_log_probs)

    def total(log_probs, rows):
        values = LOSSES["gvpo"](
            log_probs[rows],
            anchor[rows],
            jnp.asarray(X.advantages, log_probs.dtype)[rows],
            where=jnp.asarray(X.where)[rows],
            group_ids=jnp.asarray(X.group_ids)[rows],
        )
        return values.sum()

    gradient = jax.jit(jax.grad(total))
    mine, permuted = (gradient(log_probs, rows) for rows in (np.arange(6), order))
    np.testing.assert_allclose(mine, permuted, rtol=1e-5, atol=1e-7)


def test_a_lone_sequence_of_gvpo_has_no_loss():
    ones = jnp.ones((1, 3))
    values = LOSSES["gvpo"](ones, 0 * ones, jnp.ones(1), group_ids=jnp.zeros(1, int))
    np.testing.assert_array_equal(values, np.zeros((1, 3)))
