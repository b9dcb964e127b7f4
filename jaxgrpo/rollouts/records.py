"""The record of a step: each token as its last update saw it, one file, readable without jaxgrpo.

An uncompressed `.npz`: the array `header` is UTF-8 JSON, every other array is named in `ARRAYS`.
[B] arrays have one entry a completion, [B, T] one a token, 0 past the completion's end.
"""

import dataclasses
import io
import json
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgrpo.core.errors import UserError
from jaxgrpo.losses.objective import Reason
from jaxgrpo.rollouts.collect import Rollout
from jaxgrpo.sampling import StopReason
from jaxgrpo.training import Batch, TokenTrace

SCHEMA_VERSION = 1

ARRAYS: dict[str, str] = {
    "prompt_ids": "[B] int32: which prompt",
    "sample_numbers": "[B] int32: which completion of it, from 0",
    "rewards": "[B] float32: weighted sum, nan where a reward function failed",
    "advantages": "[B] float32: where they are by token, the mean over the completion",
    "stop_reasons": "[B] int8: an index into the header's stop_reasons",
    "prompt_lengths": "[B] int32: tokens",
    "completion_lengths": "[B] int32: tokens, the stop token included",
    "prompt_tokens": "[B, P] int32: left-padded",
    "tokens": "[B, T] int32: right-padded",
    "behaviour_log_probs": "[B, T] float32, nats: recorded by the sampler",
    "anchor_log_probs": "[B, T] float32, nats: what ratios were taken to",
    "log_probs": "[B, T] float32, nats: the trainer's, just before the row's last optimiser step",
    "reference_log_probs": "[B, T] float32, nats; only with a reference policy",
    "entropies": "[B, T] float32, nats",
    "gradient_weights": "[B, T] float32: what multiplied grad log p at the row's last update",
    "reasons": "[B, T] int8: an index into the header's reasons",
    "token_advantages": "[B, T] float32: only where advantages are by token",
    "token_weights": "[B, T] float32: what the policy term was multiplied with; only with weights",
    "demonstrations": "[B] bool: rows that were not sampled; only with rollout.demonstrations",
    "top_ids": "[B, T, K] int32: the sampler's likeliest tokens; only with rollout.top_k_rows",
    "behaviour_top_log_probs": "[B, T, K] float32, nats: theirs, recorded by the sampler",
    "top_log_probs": "[B, T, K] float32, nats: the trainer's; only where the loss compares them",
}
"""Every array of schema version 1. A new array or a new reason at the end keeps the version."""

# Only where a run has them; and the anchor is missing from the first files of version 1.
_OPTIONAL = {
    "reference_log_probs",
    "anchor_log_probs",
    "token_advantages",
    "token_weights",
    "demonstrations",
    "top_ids",
    "behaviour_top_log_probs",
    "top_log_probs",
}
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)


@dataclasses.dataclass(frozen=True)
class Record:
    """A file read back: `header` as written, `arrays` by name."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write_record(
    path: str | os.PathLike[str],
    rollout: Rollout,
    batch: Batch,
    trace: TokenTrace,
    *,
    run_id: str,
    step: int,
    weight_version: int,
    config_digest: str,
) -> None:
    """Write one step's record, at once or not at all.

    Args:
      path: the file.
      rollout: prompts, texts, rewards.
      batch: all its rows, as trained on.
      trace: what the update saw of each row, on the host.
      run_id: of the run.
      step: of the run.
      weight_version: optimiser steps that the sampling policy had taken.
      config_digest: of the resolved config.
    """
    fan = rollout.group_size
    examples = [prompt.example for prompt in rollout.prompts]
    header = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "step": step,
        "weight_version": weight_version,
        "config_digest": config_digest,
        "reasons": [reason.name.lower() for reason in Reason],
        "stop_reasons": [reason.name.lower() for reason in StopReason],
        "prompts": [
            {"id": e.id, "name": e.name, "question": e.question, "answer": e.answer}
            for e in examples
        ],
        "completions": list(rollout.texts),
        "rewards": [score.values for score in rollout.scores],
        "outcomes": [score.outcomes for score in rollout.scores],
    }
    inside = np.arange(batch.completion_tokens.shape[1])[None] < batch.completion_lengths[:, None]

    def per_token(values: Any, dtype: Any = np.float32) -> np.ndarray:
        values = np.asarray(values)
        kept = inside.reshape(*inside.shape, *(1,) * (values.ndim - 2))
        return np.where(kept, values, 0).astype(dtype)

    arrays = {
        "prompt_ids": np.repeat(rollout.padded.prompt_ids, fan),
        "sample_numbers": np.tile(np.arange(fan, dtype=np.int32), len(examples)),
        "rewards": rollout.rewards,
        "advantages": _by_row(np.asarray(batch.advantages), inside),
        "stop_reasons": rollout.completions.stop_reasons,
        "prompt_lengths": np.asarray(batch.prompt_lengths),
        "completion_lengths": np.asarray(batch.completion_lengths),
        "prompt_tokens": np.asarray(batch.prompt_tokens),
        "tokens": per_token(batch.completion_tokens, np.int32),
        "behaviour_log_probs": per_token(batch.behaviour_log_probs),
        "log_probs": per_token(trace.log_probs),
        "entropies": per_token(trace.entropies),
        "gradient_weights": per_token(trace.gradient_weights),
        "reasons": per_token(trace.reasons, np.int8),
    }
    # Without an anchor of its own, the live policy was the anchor: every ratio is 1.
    anchor = trace.log_probs if batch.anchor_log_probs is None else batch.anchor_log_probs
    arrays["anchor_log_probs"] = per_token(anchor)
    if batch.reference_log_probs is not None:
        arrays["reference_log_probs"] = per_token(batch.reference_log_probs)
    if batch.advantages.ndim == 2:
        arrays["token_advantages"] = per_token(batch.advantages)
    if batch.token_weights is not None:
        arrays["token_weights"] = per_token(batch.token_weights)
    if rollout.demonstrations:
        arrays["demonstrations"] = ~rollout.sampled
    if batch.top_ids is not None:
        arrays["top_ids"] = per_token(batch.top_ids, np.int32)
        arrays["behaviour_top_log_probs"] = per_token(batch.behaviour_top_log_probs)
    if trace.top_log_probs is not None:
        arrays["top_log_probs"] = per_token(trace.top_log_probs)
    _write(pathlib.Path(path), header, arrays)


def _by_row(advantages: np.ndarray, inside: np.ndarray) -> np.ndarray:
    if advantages.ndim == 1:
        return advantages
    sums = np.where(inside, advantages, 0).sum(axis=1)
    return (sums / np.maximum(inside.sum(axis=1), 1)).astype(np.float32)


def _write(path: pathlib.Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    text = json.dumps(finite(header), allow_nan=False, ensure_ascii=False).encode()
    buffer = io.BytesIO()
    everything: dict[str, Any] = {"header": np.frombuffer(text, np.uint8), **arrays}
    np.savez(buffer, **everything)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(buffer.getvalue())
    partial.replace(path)


def finite(value: Any) -> Any:
    """The same tree with None for nan and inf, which JSON has no word for."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def read_record(path: str | os.PathLike[str]) -> Record:
    """Read a record of this or an older schema version; nothing in it is executed.

    Raises:
      UserError: not a record, of a newer schema, or an array is missing.
    """
    try:
        # Opened as the archive it must be: np.load would take a bare array or a pickle for one.
        with zipfile.ZipFile(path) as archive:
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
            }
        header = json.loads(arrays.pop("header").tobytes().decode())
        version = header.get("schema_version")
    except (OSError, ValueError, KeyError, EOFError, AttributeError, *_BROKEN_ZIP) as error:
        raise UserError(f"{os.fspath(path)} is not a record: {error}") from error
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise UserError(
            f"{os.fspath(path)}: schema version {version!r} is not one of 1 to {SCHEMA_VERSION}"
        )
    missing = sorted(set(ARRAYS) - _OPTIONAL - set(arrays))
    if missing:
        raise UserError(f"{os.fspath(path)} is not a whole record: {', '.join(missing)} missing")
    return Record(header, arrays)
