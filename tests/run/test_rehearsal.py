"""What users name as `module:function` is tried on shapes before a run writes anything."""

import pytest

from jaxgrpo.config import parse, read_credit, read_objective, read_weights
from jaxgrpo.core.errors import UserError
from jaxgrpo.losses import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.losses.objective import SUPPLIED
from jaxgrpo.run.rehearsal import rehearse

MINIMAL = """\
model: {decoder: {layers: 1}}
data: {train: {task: arithmetic}}
rewards: {}
run: {directory: somewhere}
"""

OPERATORS = """
import jax.numpy as jnp
import numpy as np

def good(log_probs, anchor, advantages, *, where=None):
    return jnp.where(where, -log_probs * advantages[:, None], 0.0)

def supplied(log_probs, anchor, advantages, *, where=None, entropies, group_ids, key, rewards):
    return good(log_probs, anchor, advantages, where=where) + entropies + rewards[:, None]

def scalar(log_probs, anchor, advantages, *, where=None):
    return -jnp.sum(log_probs)

def summed(log_probs, anchor, advantages, *, where=None):
    return -jnp.sum(log_probs, axis=-1)

def across(log_probs, anchor, advantages, *, where=None):
    return -log_probs * advantages

def whole_numbers(log_probs, anchor, advantages, *, where=None):
    return jnp.zeros(log_probs.shape, jnp.int32)

def nothing(log_probs, anchor, advantages, *, where=None):
    pass

def no_mask(log_probs, anchor, advantages):
    return -log_probs

def on_the_host(log_probs, anchor, advantages, *, where=None):
    return log_probs if log_probs.sum() > 0 else -log_probs

def raises(*arrays, where=None):
    raise RuntimeError("no\\nway")

def penalty(log_probs, reference, *, where=None):
    return jnp.sum(log_probs)

def in_numpy(rewards, group_ids):
    return np.asarray(rewards) - np.mean(rewards)

def mean(rewards, group_ids):
    return rewards.mean()
"""


@pytest.fixture(autouse=True)
def operators(tmp_path, monkeypatch):
    (tmp_path / "rehearsed_operators.py").write_text(OPERATORS)
    monkeypatch.syspath_prepend(tmp_path)


def rehearsed(*overrides):
    experiment = parse(MINIMAL, overrides)
    rehearse(
        experiment, read_objective(experiment), read_credit(experiment), read_weights(experiment)
    )


@pytest.mark.parametrize("name", LOSSES.names())
def test_every_loss_of_ours_that_a_run_can_feed_passes(name):
    required = {"adrpo": "{beta: 0.1}", "trust_region": "{divergence: kl3, delta: 0.1}"}
    if set(LOSSES.needs(name)) <= SUPPLIED:
        given = ["--training.anchor", "behaviour"] if name.startswith("dppo") else []
        if "top_log_probs" in LOSSES.needs(name):
            given += ["--rollout.top_k_rows", "2"]
        if "off_policy" in LOSSES.needs(name):
            given = ["--rollout.demonstrations", "1"]
        rehearsed("--loss.name", name, "--loss.options", required.get(name, "{}"), *given)


@pytest.mark.parametrize("name", [*PENALTIES.names(), *ROW_PENALTIES.names()])
def test_every_penalty_of_ours_passes(name):
    rehearsed("--loss.penalty.name", name, "--loss.penalty.coefficient", "0.1")


@pytest.mark.parametrize(
    ("room", "name"),
    [("loss", "good"), ("loss", "supplied"), ("advantages", "in_numpy")],
)
def test_a_users_own_passes(room, name):
    rehearsed(f"--{room}.name", f"rehearsed_operators:{name}")


@pytest.mark.parametrize(
    ("room", "name", "says"),
    [
        ("loss", "scalar", r"must return floats \[B, T\], here \[4, 3\]; it returned float32\[\]"),
        ("loss", "summed", r"it returned float32\[4\]"),
        ("loss", "across", "ValueError: .*shapes"),
        ("loss", "whole_numbers", r"it returned int32\[4, 3\]"),
        ("loss", "nothing", "it returned NoneType"),
        ("loss", "no_mask", "TypeError: no_mask.* unexpected keyword argument 'where'"),
        ("loss", "on_the_host", "TracerBoolConversionError: Attempted boolean conversion"),
        ("loss", "raises", "^loss 'rehearsed_operators:raises': RuntimeError: no way$"),
        ("loss.penalty", "penalty", r"^penalty .* it returned float32\[\]"),
        (
            "advantages",
            "mean",
            r"floats \[B\], here \[16\] or \[B, T\], here \[16, 3\]; it returned float32\[\]",
        ),
        ("advantages", "no_mask", "missing 1 required positional argument: 'advantages'"),
    ],
)
def test_what_a_run_could_not_use_is_refused(room, name, says):
    penalty = ["--loss.penalty.coefficient", "0.1"] if room == "loss.penalty" else []
    with pytest.raises(UserError, match=says):
        rehearsed(f"--{room}.name", f"rehearsed_operators:{name}", *penalty)
