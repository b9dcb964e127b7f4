"""Everything a run needs, built and checked from its experiment before anything is written."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from jaxgrpo.advantages.credit import Credit
from jaxgrpo.answers import GoldKind, gold_kind
from jaxgrpo.config import Experiment, read_credit, read_objective, read_weights
from jaxgrpo.core.errors import UserError
from jaxgrpo.data import EncodedSource, encode, open_source
from jaxgrpo.losses.config import LossConfig, make_objective
from jaxgrpo.losses.objective import Objective
from jaxgrpo.losses.weighting import TokenWeight, Weighed, weigh
from jaxgrpo.models import DecoderConfig, Params, TokenScores, check_pretrained, read_config
from jaxgrpo.rollouts import worked_tokens
from jaxgrpo.run.rehearsal import rehearse
from jaxgrpo.sampling import Sampler
from jaxgrpo.sharding import batch_sharding, build_mesh, row_shards
from jaxgrpo.tokenizers import Tokenizer
from jaxgrpo.tokenizers import load as load_tokenizer
from jaxgrpo.training import (
    Batch,
    Loss,
    TokenTrace,
    TrainState,
    jit_update,
    make_loss,
    make_optimizer,
    make_trace,
    make_update_step,
    score,
    state_shardings,
)

Update = Callable[..., tuple[TrainState, dict[str, Any]]]
"""`(state, batch, reference=None)`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """The compiled functions and the data of a run; holds no state of it."""

    experiment: Experiment
    mesh: Mesh
    tokenizer: Tokenizer
    model: DecoderConfig
    train_prompts: EncodedSource
    eval_prompts: EncodedSource | None
    objective: Objective
    credit: Credit
    """From rewards to advantages."""
    weights: tuple[TokenWeight, ...]
    sampler: Sampler
    eval_sampler: Sampler
    greedy_sampler: Sampler | None
    """Of one completion a prompt, for advantages that compare with it."""
    optimizer: optax.GradientTransformation
    warmup_optimizer: optax.GradientTransformation
    update: Update
    warmup_update: Update
    score: Callable[[Params, Batch], TokenScores]
    """Log-probs and entropies, [B, T] each, of some rows of a rollout."""
    trace: Callable[[Params, Batch], TokenTrace]
    weigh: Callable[..., Weighed]
    """Token weights of all rows of a rollout, from (log_probs, behaviour_log_probs, advantages,
    where)."""

    def place(self, batch: Batch) -> Batch:
        """The batch on its devices, rows shared out."""
        return jax.device_put(batch, batch_sharding(self.mesh))

    def compiled_programs(self) -> dict[str, int]:
        """How many programs each jitted function has compiled; steady after warm-up."""
        jitted: dict[str, Any] = {
            "update": self.update,
            "warmup_update": self.warmup_update,
            "score": self.score,
            "trace": self.trace,
            **({"weigh": self.weigh} if self.weights else {}),
        }
        counts = {name: function._cache_size() for name, function in jitted.items()}
        counts["sampler"] = self.sampler.compiled_programs()
        counts["eval_sampler"] = self.eval_sampler.compiled_programs()
        if self.greedy_sampler is not None:
            counts["greedy_sampler"] = self.greedy_sampler.compiled_programs()
        return counts


def build_program(experiment: Experiment) -> Program:
    """Build it all; nothing is written, and parameters don't exist yet.

    Raises:
      UserError: data, tokenizer, model, operators, mesh or batch sizes don't fit.
    """
    rollout, training, evaluation = experiment.rollout, experiment.training, experiment.evaluation
    mesh = build_mesh(experiment.mesh)
    tokenizer = load_tokenizer(experiment.tokenizer)
    model = resolve_model(experiment, tokenizer)
    _check_rows(experiment, mesh)
    if rollout.top_k_rows > model.vocabulary_size:
        raise UserError(
            f"rollout.top_k_rows must be at most the vocabulary of {model.vocabulary_size}, got "
            f"{rollout.top_k_rows}"
        )
    _check_weights(experiment)
    train_prompts = _prompts(experiment, tokenizer, "train")
    eval_prompts = _prompts(experiment, tokenizer, "eval") if experiment.data.eval else None
    if any(function.name == "answer" for function in experiment.rewards.functions):
        _check_golds(train_prompts)
        if eval_prompts is not None:
            _check_golds(eval_prompts)
    if experiment.warmup.steps or experiment.rollout.demonstrations:
        _check_worked(train_prompts, tokenizer, experiment.rollout.sampling.max_new_tokens)
    objective, credit = read_objective(experiment), read_credit(experiment)
    weights = read_weights(experiment)
    rehearse(experiment, objective, credit, weights)
    temperature = rollout.sampling.temperature
    make_sampler = functools.partial(
        Sampler, model, stop_ids=tokenizer.stop_ids, pad_id=tokenizer.pad_id, mesh=mesh
    )
    scoring = {"temperature": temperature, "chunk_tokens": training.chunk_tokens}
    optimizer = make_optimizer(experiment.optimizer, experiment.optimizer_steps)
    warmup_optimizer = make_optimizer(experiment.warmup.optimizer, experiment.warmup.steps)
    # Supervised learning is REINFORCE on worked examples with every advantage 1.
    warmup_objective = make_objective(LossConfig(name="reinforce"))
    warmup_loss = make_loss(model, warmup_objective, chunk_tokens=training.chunk_tokens)

    def compiled(
        loss: Loss, optimizer: optax.GradientTransformation, *, micro_batches: int = 1
    ) -> Update:
        step = make_update_step(loss, optimizer, micro_batches=micro_batches)
        return jit_update(step, state_shardings(model, optimizer, mesh))

    return Program(
        experiment=experiment,
        mesh=mesh,
        tokenizer=tokenizer,
        model=model,
        train_prompts=train_prompts,
        eval_prompts=eval_prompts,
        objective=objective,
        credit=credit,
        weights=weights,
        sampler=make_sampler(rollout.sampling, tops=rollout.top_k_rows),
        eval_sampler=make_sampler(evaluation.sampling),
        optimizer=optimizer,
        warmup_optimizer=warmup_optimizer,
        update=compiled(
            make_loss(model, objective, **scoring), optimizer, micro_batches=training.micro_batches
        ),
        warmup_update=compiled(warmup_loss, warmup_optimizer),
        greedy_sampler=make_sampler(dataclasses.replace(rollout.sampling, temperature=0.0))
        if "greedy_rewards" in credit.needs
        else None,
        score=jax.jit(
            functools.partial(score, model, squares="squared_probs" in credit.needs, **scoring)
        ),
        trace=jax.jit(make_trace(model, objective, **scoring)),
        weigh=jax.jit(functools.partial(weigh, weights)),
    )


def resolve_model(experiment: Experiment, tokenizer: Tokenizer) -> DecoderConfig:
    """The decoder of an experiment, its vocabulary taken from the tokenizer where it isn't given.

    Of a folder its config.json is read, and nothing else.

    Raises:
      UserError: the model's vocabulary is smaller than the tokenizer's, or no decoder can be what
        the folder holds.
    """
    given, source = experiment.model, "model.decoder.vocabulary_size"
    if given.path is not None:
        source = f"the vocabulary of {given.path}"
        decoder = dataclasses.replace(
            read_config(given.path),
            parameter_dtype=given.parameter_dtype,
            compute_dtype=given.compute_dtype,
            remat=given.remat,
        )
    else:
        assert given.decoder is not None, "a model has a path or a decoder"
        decoder = given.decoder
    dtypes = (decoder.parameter_dtype, decoder.compute_dtype)
    if "float64" in dtypes and not jax.config.read("jax_enable_x64"):
        raise UserError("model: float64 needs JAX_ENABLE_X64=1 in the environment")
    if not decoder.vocabulary_size:
        decoder = dataclasses.replace(decoder, vocabulary_size=tokenizer.vocab_size)
    if decoder.vocabulary_size < tokenizer.vocab_size:
        raise UserError(
            f"{source} must hold the tokenizer's {tokenizer.vocab_size} ids, "
            f"got {decoder.vocabulary_size}"
        )
    return decoder


def _prompts(experiment: Experiment, tokenizer: Tokenizer, split: Any) -> EncodedSource:
    data = experiment.data
    config = data.train if split == "train" else data.eval
    assert config is not None
    return encode(
        open_source(config, seed=experiment.seed, split=split),
        tokenizer,
        template=data.template,
        max_prompt_tokens=data.max_prompt_tokens,
        on_long=data.on_long_prompt,
    )


def _check_worked(prompts: EncodedSource, tokenizer: Tokenizer, limit: int) -> None:
    """Every worked example is there and fits: better said now than in the middle of a run."""
    for index in range(len(prompts)):
        worked_tokens(prompts[index], tokenizer, limit)


def _check_golds(prompts: EncodedSource) -> None:
    """A gold that cannot be parsed would count as a wrong answer, whatever the policy writes."""
    bad = [
        prompts[index].example
        for index in range(len(prompts))
        if gold_kind(prompts[index].example.answer) is GoldKind.UNPARSEABLE
    ]
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise UserError(
            f"{bad[0].name}{more}: the gold answer {bad[0].answer[:80]!r} cannot be parsed; "
            "`jaxgrpo verify --audit FILE` finds all such lines"
        )


def _check_weights(experiment: Experiment) -> None:
    """Look at the headers of the weights, unless a checkpoint has taken their place already."""
    path = experiment.model.path
    saved = pathlib.Path(experiment.run.directory) / "checkpoints"
    if path is not None and not any(saved.glob("*/manifest.json")):
        check_pretrained(path)


def _check_rows(experiment: Experiment, mesh: Mesh) -> None:
    """Every array of rows must split evenly over the devices that hold rows."""
    shards = row_shards(mesh)
    counts = {
        "rows of a micro-batch (rollout.prompts_per_step * rollout.group_size / "
        "training.minibatches / training.micro_batches)": experiment.rows_per_update
        // experiment.training.micro_batches,
    }
    if experiment.warmup.steps:
        counts["rows of warmup.batch_size"] = experiment.warmup.batch_size
    for what, rows in counts.items():
        if rows % shards:
            fitting = math.gcd(rows, shards)
            raise UserError(
                f"{rows} {what} do not split over the mesh's {shards} row shards (data * fsdp); "
                f"choose a multiple of {shards}, or a mesh with {fitting}"
            )
