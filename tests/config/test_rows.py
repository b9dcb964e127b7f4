"""Rows of whole distributions: what a config must say before a loss or a penalty can have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.config import parse, read_objective
from jaxgrpo.core.errors import UserError
from jaxgrpo.losses import ROW_PENALTIES

MINIMAL = """\
model: {decoder: {layers: 1}}
data: {train: {task: arithmetic}}
rewards: {}
run: {directory: somewhere}
"""
ROWS = "--rollout.top_k_rows"
ANCHOR = "--training.anchor"


def refused(*overrides):
    with pytest.raises(UserError) as caught:
        parse(MINIMAL, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ["dppo_topk_tv", "dppo_topk_kl"])
def test_a_loss_of_top_rows_needs_them_recorded(name):
    message = refused("--loss.name", name, ANCHOR, "behaviour")
    assert f"loss '{name}'" in message
    assert "rollout.top_k_rows must be at least 1, got 0" in message
    experiment = parse(MINIMAL, ["--loss.name", name, ANCHOR, "behaviour", ROWS, "20"])
    assert read_objective(experiment).uses_tops


@pytest.mark.parametrize("anchor", ["auto", "proximal"])
@pytest.mark.parametrize("minibatches", ["1", "2"])
def test_its_anchor_is_the_sampler_and_said_to_be(anchor, minibatches):
    message = refused(
        *("--loss.name", "dppo_topk_tv", ROWS, "20"),
        *(ANCHOR, anchor, "--training.minibatches", minibatches),
    )
    assert f"training.anchor must be 'behaviour', got '{anchor}'" in message


@pytest.mark.parametrize("name", ["dppo_tv", "dppo_kl"])
def test_the_binary_ones_want_their_anchor_said(name):
    message = refused("--loss.name", name)
    assert f"loss '{name}'" in message
    assert "training.anchor must be 'behaviour'" in message
    for anchor in ("behaviour", "proximal"):
        assert parse(MINIMAL, ["--loss.name", name, ANCHOR, anchor]).training.anchor == anchor


def test_rows_may_be_recorded_for_any_loss():
    experiment = parse(MINIMAL, [ROWS, "4"])
    assert experiment.rollout.top_k_rows == 4
    assert not read_objective(experiment).uses_tops


def test_fewer_than_none_is_refused():
    assert "top_k_rows must not be negative, got -1" in refused(ROWS, "-1")
    assert "top_k_rows" in refused(ROWS, "2.5")


PENALTY = "--loss.penalty.name"
COEFFICIENT = "--loss.penalty.coefficient"
MEASURE = "--loss.penalty.measure_exact"


@pytest.mark.parametrize(
    ("overrides", "kept", "log_probs", "rows"),
    [
        ([], False, False, False),
        ([PENALTY, "exact_reverse_kl"], False, False, False),
        ([PENALTY, "exact_reverse_kl", COEFFICIENT, "0.1"], True, False, True),
        ([PENALTY, "exact_forward_kl", COEFFICIENT, "0.1"], True, False, True),
        ([PENALTY, "k3", COEFFICIENT, "0.1"], True, True, False),
        ([PENALTY, "k3", COEFFICIENT, "0.1", MEASURE, "true"], True, True, True),
        ([MEASURE, "true"], True, False, True),
    ],
)
def test_the_reference_is_kept_for_what_reads_it(overrides, kept, log_probs, rows):
    objective = read_objective(parse(MINIMAL, overrides))
    assert objective.uses_reference == kept
    assert objective.uses_reference_log_probs == log_probs
    assert objective.compares_rows == rows
    exact = any(name in overrides for name in ROW_PENALTIES.names())
    assert (objective.row_penalty is not None) == (exact and rows)


def test_a_penalty_that_there_is_not_is_named_with_the_nearest_of_both_kinds():
    message = refused(PENALTY, "exact_revers_kl")
    assert "no penalty named 'exact_revers_kl'; did you mean 'exact_reverse_kl'?" in message
    assert "Known: reverse_kl, k1," in message
    option = ["--loss.penalty.options", "{delta: 1.0}"]
    assert "has no option delta" in refused(PENALTY, "exact_reverse_kl", *option)


def test_a_divergence_of_rows_is_a_penalty_towards_the_reference():
    overrides = [PENALTY, "renyi", COEFFICIENT, "0.1", "--loss.penalty.options", "{alpha: 2.0}"]
    penalty = read_objective(parse(MINIMAL, overrides)).row_penalty
    policy, reference = (jnp.log(jnp.array([row])) for row in ([0.5, 0.5], [0.2, 0.8]))
    where = jnp.ones(1, bool)
    # log sum p^2 / q
    np.testing.assert_allclose(
        penalty(policy, reference, where=where), np.log(0.25 / 0.2 + 0.25 / 0.8), rtol=1e-6
    )
    pull = jax.grad(lambda r: penalty(policy, r, where=where).sum())(reference)
    np.testing.assert_array_equal(pull, np.zeros((1, 2)))
    assert "did you mean 'renyi'" in refused(PENALTY, "reny")
    assert "Known: " in refused(PENALTY, "entropy_ratio")
