"""Runs from their YAML to records: the trust region of top rows, and exact KLs to the reference."""

import json

import numpy as np
import pytest
from experiments import TINY

from jaxgrpo.config import dump, parse
from jaxgrpo.core.errors import UserError
from jaxgrpo.rollouts.records import read_record
from jaxgrpo.run.program import build_program

K = 5
SMALL = [
    *("--warmup.steps", "2", "--training.steps", "3"),
    *("--training.epochs", "2", "--run.record_every", "1"),
    *("--evaluation.every_steps", "0", "--checkpoints.every_steps", "2"),
]
DELTAS = {"dppo_topk_tv": 0.02, "dppo_topk_kl": 0.002}


@pytest.fixture
def run(runs, tmp_path):
    """(records, logged values) of a run with these overrides, in a process of its own."""
    process = type(runs)(tmp_path)

    def go(*overrides):
        process.config.write_text(dump(parse(TINY, [*SMALL, *overrides])))
        code, _, errors = process.run("run")
        assert code == 0, errors
        lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        logged = [json.loads(line) for line in lines]
        paths = sorted((tmp_path / "run" / "rollouts").glob("*.npz"))
        return [read_record(path) for path in paths], logged

    return go


@pytest.mark.parametrize("name", DELTAS)
def test_dppo_on_top_rows_trains_and_its_records_replay_the_mask(name, run):
    """Four optimiser steps a rollout; the mask again in NumPy from what the records hold."""
    records, logged = run(
        *("--loss.name", name, "--loss.options", f"{{delta: {DELTAS[name]}}}"),
        *("--loss.penalty.coefficient", "0.0", "--training.anchor", "behaviour"),
        *("--rollout.top_k_rows", str(K)),
    )
    assert len(records) == 3
    cut = kept = 0
    for record in records:
        arrays = {key: np.float64(value) for key, value in record.arrays.items()}
        inside = arrays["reasons"] != 0
        mu, pi = np.exp(arrays["behaviour_top_log_probs"]), np.exp(arrays["top_log_probs"])
        assert mu.shape == (*inside.shape, K)
        own = arrays["top_ids"] == arrays["tokens"][..., None]
        # The sampled token has a slot of its own unless it is among the K.
        extra = inside & ~own.any(-1)
        slots = [
            np.concatenate([x, np.where(extra, np.exp(arrays[log]), 0)[..., None]], axis=-1)
            for x, log in ((mu, "behaviour_log_probs"), (pi, "log_probs"))
        ]
        p, q = (np.concatenate([x, 1 - x.sum(-1, keepdims=True)], axis=-1) for x in slots)
        if name == "dppo_topk_tv":
            distances = np.abs(p - q).sum(-1) / 2
        else:
            present = p > 0
            ratio = np.where(present, p, 1) / np.where(present & (q > 0), q, 1)
            distances = np.where(present, p * np.log(ratio), 0).sum(-1)
        ratio = np.exp(arrays["log_probs"] - arrays["behaviour_log_probs"])
        advantages = arrays["advantages"][:, None]
        outward = np.where(advantages > 0, ratio > 1, ratio < 1)
        keep = ~(outward & (distances > DELTAS[name]))
        sure = inside & (np.abs(distances - DELTAS[name]) > 1e-4)
        wanted = np.where(keep, ratio * advantages, 0)
        np.testing.assert_allclose(
            arrays["gradient_weights"][sure], wanted[sure], rtol=1e-4, atol=1e-6
        )
        moving = sure & (advantages != 0)
        cut, kept = cut + (moving & ~keep).sum(), kept + (moving & keep).sum()
    assert cut > 5
    assert kept > 5
    steps = [line for line in logged if "clip/fraction_high" in line]
    assert sum(line["clip/fraction_high"] + line["clip/fraction_low"] for line in steps) > 0.02


@pytest.mark.parametrize(
    "name", ["exact_reverse_kl", pytest.param("exact_forward_kl", marks=pytest.mark.slow)]
)
def test_an_exact_penalty_trains_and_is_logged(name, run):
    records, logged = run(
        *("--loss.penalty.name", name, "--loss.penalty.coefficient", "0.1"),
    )
    steps = [line for line in logged if "divergence/reference_exact_kl" in line]
    assert len(steps) == 3
    # The first optimiser step of the stage is the reference itself; by the last they are apart.
    assert all(0 < line["divergence/reference_exact_kl"] < 1 for line in steps)
    assert all(line["loss/penalty"] > 0 for line in steps)
    # What a run gained is set against the KL of the policy that drew the samples.
    assert 0 <= steps[0]["frontier/kl"] < 1e-6
    assert all(line["frontier/kl"] > 1e-3 for line in steps[1:])
    assert not any("divergence/reference_kl3" in line for line in steps)
    # Nothing scored the reference on its own: it has no log-probs of tokens.
    assert "reference_log_probs" not in records[0].arrays


def test_rows_and_exact_kl_are_recorded_beside_a_loss_and_a_penalty_that_read_neither(run):
    records, logged = run(
        *("--loss.penalty.measure_exact", "true", "--loss.penalty.name", "k3"),
        *("--rollout.top_k_rows", str(K), "--rollout.dynamic_sampling", "{enabled: true}"),
    )
    steps = [line for line in logged if "divergence/reference_exact_kl" in line]
    assert len(steps) == 3
    # One is an estimate of the other.
    exact = sum(line["divergence/reference_exact_kl"] for line in steps)
    sampled = sum(line["divergence/reference_kl3"] for line in steps)
    assert 0.5 < sampled / exact < 2
    for record in records:
        inside = record.arrays["reasons"] != 0
        assert record.arrays["top_ids"].shape == (*inside.shape, K)
        assert record.arrays["behaviour_top_log_probs"][inside].max() < 0
        assert "top_log_probs" not in record.arrays


def test_more_rows_than_tokens_are_refused_before_anything_is_written(tmp_path):
    experiment = parse(
        TINY,
        [
            *SMALL,
            "--mesh.model",
            "8",
            "--run.directory",
            str(tmp_path / "run"),
            "--rollout.top_k_rows",
            "1000",
        ],
    )
    with pytest.raises(UserError, match="top_k_rows must be at most the vocabulary of 99, got 1"):
        build_program(experiment)
    assert not (tmp_path / "run").exists()
