"""Every loss trains the quickstart's task: no nan, and rewards no worse than where they began.

All start from one policy, that of the quickstart's warm-up, and go on as the quickstart does, with
another loss and fewer steps. Minutes of real training: `launch/test -m long -s` runs it and prints
the table.
"""

import dataclasses
import json
import math
import pathlib
import time

import jax
import pytest

from jaxgrpo.cli.main import main
from jaxgrpo.config import load
from jaxgrpo.losses import LOSSES
from jaxgrpo.run import program as program_module
from jaxgrpo.run import train
from jaxgrpo.sharding import build_mesh

QUICKSTART = pathlib.Path(__file__).parents[2] / "configs" / "quickstart.yaml"
STEPS, MINIBATCHES = 16, 4
# The same prompts before and after, sampled as in training: their difficulty is in no difference.
HELD_OUT = 512
ARITHMETIC = {
    "task": "arithmetic",
    "size": HELD_OUT,
    "options": {"digits": 4, "working_fraction": 0.35},
}
WARM = ["--data.eval", "null", "--run.record_every", "0", "--training.steps", "1"]
SHORT = [
    *["--data.eval", json.dumps(ARITHMETIC), "--evaluation.sampling.temperature", "1.0"],
    *["--warmup.steps", "0", "--checkpoints.every_steps", "1000", "--run.record_every", "0"],
    *["--training.steps", str(STEPS), "--loss.options", "{}"],
]
# What a loss cannot do without, or whose scale is not that of a mean of -w A.
MORE = {
    "adrpo": ["--loss.options", "{beta: 0.5}", "--loss.penalty.measure", "true"],
    "trust_region": ["--loss.options", "{divergence: chi2, delta: 0.04}"],
    "dppo_tv": ["--training.anchor", "behaviour"],
    "dppo_kl": ["--training.anchor", "behaviour"],
    "dppo_topk_tv": ["--rollout.top_k_rows", "8", "--training.anchor", "behaviour"],
    "dppo_topk_kl": ["--rollout.top_k_rows", "8", "--training.anchor", "behaviour"],
    "luffy": ["--rollout.demonstrations", "1"],
    "dagrpo": ["--rollout.demonstrations", "1"],
    # The square of a sum over tokens; its paper's own advantages are rewards, in groups.
    "gvpo": [
        "--loss.aggregation.name",
        "sequence_mean_token_sum",
        "--advantages.name",
        "group_centred",
    ],
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One loss's run."""

    loss: str
    start: float
    end: float
    error: float
    updates: int
    grad: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"| {self.loss} | {self.start:.3f} | {self.end:.3f} | {self.error:.3f} | "
            f"{self.updates} | {self.grad:.3g} | {self.seconds:.0f} |"
        )


@pytest.fixture(autouse=True, scope="module")
def one_device():
    """Eight devices on a few cores are for what is tested with them; one is fastest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            program_module, "build_mesh", lambda config: build_mesh(config, jax.devices()[:1])
        )
        yield


@pytest.fixture(scope="module")
def warmed(tmp_path_factory):
    """A folder with the policy that every loss starts from, and its tokenizer."""
    folder = tmp_path_factory.mktemp("every_loss")
    train(load(QUICKSTART, [*WARM, "--run.directory", str(folder / "warm")]))
    assert main(["export", str(folder / "warm"), str(folder / "model")]) == 0
    return folder


@pytest.fixture(scope="module")
def table():
    rows: list[Row] = []
    yield rows
    print("\n| loss | reward before | after | error | updates | largest grad | s |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(row)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LOSSES.names())
def test_it_learns_or_at_least_unlearns_nothing(name, warmed, table):
    model = warmed / "model"
    began = time.perf_counter()
    overrides = [
        *["--model", json.dumps({"path": str(model)}), "--tokenizer", str(model)],
        *["--run.directory", str(warmed / name), "--loss.name", name, *SHORT],
        *MORE.get(name, []),
    ]
    train(load(QUICKSTART, overrides))
    lines = (warmed / name / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    numbers = {key: [step[key] for step in steps] for key in steps[0]}
    # Without a differing group there is no token that could be clipped: the share is of nothing.
    missing = {
        key
        for key, values in numbers.items()
        if not key.startswith("clip/") and not all(_finite(value) for value in values)
    }
    assert not missing
    first, *_, last = (
        json.loads(line)["accuracy"]
        for line in (warmed / name / "evaluations.jsonl").read_text().splitlines()
    )
    # As if the two had nothing in common, which makes it too large.
    error = math.sqrt((first * (1 - first) + last * (1 - last)) / HELD_OUT)
    row = Row(
        name,
        first,
        last,
        error,
        STEPS * MINIBATCHES,
        max(numbers["grad/norm"]),
        time.perf_counter() - began,
    )
    table.append(row)
    # One standard error is what chance may take away.
    assert row.end >= row.start - row.error, row


def _finite(value) -> bool:
    return value is not None and math.isfinite(value)
