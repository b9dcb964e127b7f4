"""How much reward a run got for how much KL to the policy that GRPO started from, from its logs."""

import json
import pathlib
from typing import Any

from jaxgrpo.metrics.frontier import frontier


def read_gains(folder: pathlib.Path) -> dict[str, Any]:
    """`{"frontier": ...}` of a run that kept a reference, and nothing of another one.

    KL is in nats a sequence, estimated with samples of the policy itself: those that the first
    optimiser step of a rollout trains on, which with dynamic sampling are of prompts that are
    neither too easy nor too hard. A point's `step` is how many GRPO steps the policy had taken.

    Args:
      folder: of the run, with `metrics.jsonl` and `evaluations.jsonl`.
    """
    metrics = _rows(folder / "metrics.jsonl")
    points = [
        {"step": row["step"] - 1, "kl": row["frontier/kl"], "reward": row["reward/mean"]}
        for row in metrics
        if row.get("frontier/kl") is not None and row.get("reward/mean") is not None
    ]
    if not points:
        return {}
    kl = {point["step"]: point["kl"] for point in points}
    # The step after an evaluation samples with the policy that was evaluated; after the last
    # evaluation there is none.
    evaluations = [
        {"step": row["step"], "kl": kl[row["step"]], "accuracy": row["accuracy"]}
        for row in _rows(folder / "evaluations.jsonl")
        if row["step"] in kl and row.get("accuracy") is not None
    ]
    best = frontier([(point["kl"], point["reward"]) for point in points])
    return {"frontier": {"steps": [points[i] for i in best], "evaluations": evaluations}}


def _rows(path: pathlib.Path) -> list[dict[str, Any]]:
    """The lines that are what a run writes: someone may have changed the file since."""
    rows = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows
