"""One on-policy GRPO step at fixed shapes: how long decoding and the update take, and how well.

8 prompts of 32 tokens, 8 completions each of exactly 64 tokens, one AdamW step, float32, random
weights. Shares are of the float32 matrix-product rate measured just before each step.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxgrpo.aggregation import row_weights
from jaxgrpo.bench.machine import peak_rss_gib, sgemm_gflops
from jaxgrpo.losses.config import LossConfig, make_objective
from jaxgrpo.models import DecoderConfig, init_params, parameter_count
from jaxgrpo.sampling import Completions, Prompts, Sampler, SamplingConfig
from jaxgrpo.sharding import MeshConfig, batch_sharding, build_mesh
from jaxgrpo.training import (
    Batch,
    OptimizerConfig,
    init_train_state,
    jit_update,
    make_loss,
    make_optimizer,
    make_update_step,
    state_shardings,
)

PRESETS = {
    "tiny": DecoderConfig(
        vocabulary_size=4096,
        layers=4,
        hidden_size=256,
        heads=4,
        kv_heads=2,
        head_size=64,
        mlp_size=704,
    ),
    "smollm2-135m": DecoderConfig(
        vocabulary_size=49152,
        layers=30,
        hidden_size=576,
        heads=9,
        kv_heads=3,
        head_size=64,
        mlp_size=1536,
        rope_theta=100_000.0,
        remat="full",
    ),
}
_PROMPTS, _GROUP, _PROMPT, _NEW = 8, 8, 32, 64


def step_flops(model: DecoderConfig) -> tuple[float, float]:
    """Operations that a step can't do without: (decoding, update); a multiply-add counts as two.

    Every token but a row's last passes the blocks once, the unembedding sees completion tokens
    only, attention is causal; the update is a forward pass and a backward pass of twice its work.
    """
    query, key = model.heads * model.head_size, model.kv_heads * model.head_size
    block = model.hidden_size * (2 * query + 2 * key + 3 * model.mlp_size)
    rows, tokens = _PROMPTS * _GROUP, _PROMPT + _NEW
    body = 2 * model.layers * block * (tokens - 1)
    head = 2 * model.vocabulary_size * model.hidden_size * _NEW
    attention = 2 * model.layers * query * tokens**2
    forward = rows * (body + head + attention)
    return forward, 3 * forward


def measure(preset: str, *, repeats: int, micro_batches: int) -> dict[str, Any]:
    """The figures of `repeats` steps, after one that compiles."""
    model, mesh = PRESETS[preset], build_mesh(MeshConfig())
    # No stop ids: every completion runs to its full length.
    config = SamplingConfig(max_new_tokens=_NEW, decode_chunk=_NEW, length_buckets=(_PROMPT,))
    sampler = Sampler(model, config, stop_ids=(), pad_id=0, mesh=mesh)
    optimizer = make_optimizer(OptimizerConfig(learning_rate=1e-5), repeats + 1)
    loss = make_loss(model, make_objective(LossConfig()))
    update = jit_update(
        make_update_step(loss, optimizer, micro_batches=micro_batches),
        state_shardings(model, optimizer, mesh),
    )
    params = init_params(model, jax.random.key(0), mesh)
    state = init_train_state(model, params, optimizer, mesh)
    random = np.random.default_rng(0)
    generate, learn, rates, start = [], [], [], time.perf_counter()
    compiled = 0.0
    for step in range(repeats + 1):
        prompts = Prompts(
            random.integers(3, model.vocabulary_size, (_PROMPTS, _PROMPT)).astype(np.int32),
            np.full(_PROMPTS, _PROMPT, np.int32),
            np.arange(_PROMPTS, dtype=np.int32),
        )
        rates.append(sgemm_gflops())
        began = time.perf_counter()
        completions = sampler(state.params, prompts, key=jax.random.key(step), group_size=_GROUP)
        generate.append(time.perf_counter() - began)
        batch = jax.device_put(_batch(prompts, completions, random), batch_sharding(mesh))
        began = time.perf_counter()
        state, _ = update(state, batch)
        jax.block_until_ready(state.params)
        learn.append(time.perf_counter() - began)
        if step == 0:
            compiled = time.perf_counter() - start
    return _figures(preset, model, generate[1:], learn[1:], rates[1:], compiled, micro_batches)


def _batch(prompts: Prompts, completions: Completions, random: np.random.Generator) -> Batch:
    rows = _PROMPTS * _GROUP
    trainable = np.ones((rows, _NEW), bool)
    fields: dict[str, Any] = dict(
        prompt_tokens=np.repeat(prompts.tokens, _GROUP, axis=0),
        prompt_lengths=np.repeat(prompts.lengths, _GROUP),
        completion_tokens=completions.tokens,
        completion_lengths=completions.lengths.astype(np.int32),
        trainable=trainable,
        behaviour_log_probs=completions.log_probs,
        advantages=random.standard_normal(rows).astype(np.float32),
        group_ids=np.repeat(np.arange(_PROMPTS, dtype=np.int32), _GROUP),
        row_weights=np.asarray(row_weights("token_mean", jax.numpy.asarray(trainable))),
    )
    return Batch(**fields)


def _figures(
    preset: str,
    model: DecoderConfig,
    generate: list[float],
    learn: list[float],
    rates: list[float],
    compiled: float,
    micro_batches: int,
) -> dict[str, Any]:
    median = statistics.median
    rate, decode_s, update_s = median(rates), median(generate), median(learn)
    step_s = median([a + b for a, b in zip(generate, learn, strict=True)])
    decode_flops, update_flops = (flops / 1e9 for flops in step_flops(model))
    return {
        "bench": "grpo",
        "preset": preset,
        "jax": jax.__version__,
        "devices": f"{jax.device_count()} {jax.devices()[0].device_kind}",
        "parameters": parameter_count(model),
        "sequences": _PROMPTS * _GROUP,
        "micro_batches": micro_batches,
        "step_s": round(step_s, 4),
        "generate_s": round(decode_s, 4),
        "update_s": round(update_s, 4),
        "gen_tok_s": round(_PROMPTS * _GROUP * _NEW / decode_s, 1),
        "sgemm_gflops": round(rate, 1),
        "decode_share": round(decode_flops / rate / decode_s, 4),
        "update_share": round(update_flops / rate / update_s, 4),
        "step_share": round((decode_flops + update_flops) / rate / step_s, 4),
        "peak_rss_gib": round(peak_rss_gib(), 3),
        "compile_s": round(compiled, 2),
        "repeats": len(learn),
    }


def main(words: Sequence[str]) -> int:
    """Measure one preset, print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(prog="python -m jaxgrpo.bench grpo", description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="tiny")
    parser.add_argument("--repeats", type=int, default=5, help="steps measured")
    parser.add_argument("--micro-batches", type=int, default=1, help="parts of an update")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    arguments = parser.parse_args(words)
    figures = measure(
        arguments.preset, repeats=arguments.repeats, micro_batches=arguments.micro_batches
    )
    for name, value in figures.items():
        print(f"{name:<14} {value}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0
