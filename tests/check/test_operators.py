"""What the package ships has every property, or says which it hasn't."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.check import (
    FAMILIES,
    PROPERTIES,
    all_subjects,
    check,
    check_all,
    function_subject,
    measure,
    subject,
)
from jaxgrpo.core.errors import UserError

EVERY = [(each.family.name, each.name) for each in all_subjects()]
# Kinds that have properties of their own, so that every property is measured in every run.
SOME = [
    ("loss", "atr"),
    ("loss", "gvpo"),
    ("divergence", "binary_kl"),
    ("top-divergence", "topk_tv"),
    ("weight", "truncated_weights"),
]


@pytest.mark.parametrize(("family", "name"), SOME)
def test_one_of_a_family_has_every_property(family, name):
    report = check(subject(name, family))
    assert not [(finding.name, finding.diagnosis) for finding in report.failures]
    assert len(report.findings) >= 14


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_third_of_the_operators_have_every_property():
    # `jaxgrpo check` goes through all of them.
    rest = [each for each in all_subjects() if (each.family.name, each.name) not in SOME][::3]
    reports = list(check_all(rest))
    assert sorted(report.name for report in reports) == sorted(each.name for each in rest)
    failures = [(r.name, f.name, f.diagnosis) for r in reports for f in r.failures]
    assert not failures


def test_every_family_and_every_registered_operator_is_there():
    assert {family for family, _ in EVERY} == set(FAMILIES)
    for kind in FAMILIES.values():
        assert {name for family, name in EVERY if family == kind.name} == set(kind.registry.names())


def test_every_exception_names_a_property():
    for each in all_subjects():
        assert set(each.exceptions) <= set(PROPERTIES), each.name


def test_an_exception_that_holds_after_all_is_a_failure():
    finding = measure(subject("dro"), "A = 0")
    assert finding.passed and finding.note.startswith("declared: ")
    card = subject("atr").card
    stale = subject("atr")
    object.__setattr__(stale, "card", card.__class__(**{**vars(card), "exceptions": {"jit": ""}}))
    assert measure(stale, "jit").diagnosis == "declared as an exception, and yet it holds"


def test_the_map_of_atr_ends_at_its_interval():
    report = check(subject("atr", options={"delta": 0.023144}))
    quiet = {region.advantage: region for region in report.regions if region.flow == "none"}
    np.testing.assert_allclose(quiet["A > 0"].low, 1.23084, rtol=1e-5)
    np.testing.assert_allclose(quiet["A < 0"].high, 0.8, rtol=1e-5)


def test_a_function_of_ones_own_passes():
    def soft(log_probs, anchor_log_probs, advantages, *, where=None, temperature: float = 2.0):
        shift = jnp.where(where, log_probs - anchor_log_probs, 0)
        gate = 4 * jax.nn.sigmoid(temperature * shift) / temperature
        return jnp.where(where, -gate * jax.lax.stop_gradient(advantages[:, None]), 0)

    report = check(function_subject(soft))
    # 4 sigmoid(t x) / t has the slope 1 at x = 0.
    assert report.passed, report.failures


def fading(log_probs, anchor_log_probs, advantages, *, where=None):
    """Its weight, 1 - tanh^2, is 0 by rounding from a ratio of 6 on."""
    live = where & (advantages[:, None] != 0)
    shift = jnp.where(live, log_probs - anchor_log_probs, 0)
    values = jnp.tanh(4 * jnp.expm1(jnp.minimum(shift, 9))) / 4
    return jnp.where(live, -advantages[:, None] * values, 0)


def test_what_fades_out_is_no_clip():
    assert measure(function_subject(fading), "clip side").passed


def test_a_loss_is_as_good_as_the_divergence_it_is_given():
    options = {"divergence": "tests.check.zoo:not_zero", "delta": 0.1}
    found = measure(subject("trust_region", options=options), "its divergence")
    assert "from itself is not 0" in found.diagnosis
    good = {**options, "divergence": "kl3"}
    assert measure(subject("trust_region", options=good), "its divergence").passed


def no_mask(sampler_log_probs, other_log_probs):
    return other_log_probs - sampler_log_probs


def test_a_function_without_a_mask_is_told_so():
    with pytest.raises(UserError, match="takes no `where`"):
        subject(f"{__name__}:no_mask", "divergence")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("art",), "no operator 'art'; did you mean 'atr'?"),
        (("atr", "losses"), "no family 'losses'"),
        (("divergences",), "the family is called 'divergence': `jaxgrpo check divergence`"),
        (
            ("tests.check.zoo:half_kl3",),
            "takes 2 arrays by position, and a loss takes 3: log_probs, anchor_log_probs, "
            "advantages; if it is something else, say so: --as divergence",
        ),
        (("os:getcwd_", "loss"), "'getcwd_' is not in that module"),
        (("no_such_module:f",), "cannot be imported"),
    ],
)
def test_what_there_is_not_is_one_line(arguments, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        subject(*arguments)


def test_claims_and_options_are_checked():
    with pytest.raises(UserError, match="claims must be one of policy_gradient, "):
        subject("atr", claims="truth")
    with pytest.raises(UserError, match="no option detla; did you mean 'delta'"):
        subject("atr", options={"detla": 0.1})
