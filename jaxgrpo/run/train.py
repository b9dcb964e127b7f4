"""The run: warm-up, evaluation, GRPO steps, evaluation; saved as it goes, resumed bit for bit."""

import dataclasses
import math
import time
from typing import Any

import numpy as np

from jaxgrpo.checkpoints import Checkpoints
from jaxgrpo.config import Experiment, digest
from jaxgrpo.core.errors import NumbersError, Terminated, closest
from jaxgrpo.data import Prompt, PromptBatches, prompt_batches
from jaxgrpo.evaluation import EvaluatedItem, Evaluation, evaluate
from jaxgrpo.rewards import RewardPool
from jaxgrpo.rollouts import write_record
from jaxgrpo.run import position as positions
from jaxgrpo.run.folder import RunFolder
from jaxgrpo.run.gains import read_gains
from jaxgrpo.run.logs import Logs
from jaxgrpo.run.observer import Observer
from jaxgrpo.run.plan import make_plan
from jaxgrpo.run.program import Program, build_program
from jaxgrpo.run.progress import Stage
from jaxgrpo.run.refusals import refuse_failed, refuse_mismatch, refuse_nan
from jaxgrpo.run.signals import StopRequest
from jaxgrpo.run.step import StepResult, grpo_step, warmup_step
from jaxgrpo.training import OptimizerConfig, TrainState, learning_rate

_SAMPLES_SHOWN = 3


def train(experiment: Experiment, observer: Observer | None = None) -> dict[str, Any]:
    """Run an experiment to its end, from wherever its folder stands; returns the summary.

    Raises:
      UserError: something in the config, data or rewards doesn't fit; nothing was written.
      AlreadyComplete: the run in the folder is finished.
      Terminated: told to stop; saved first.
      NumbersError: a nan, too many failed rewards, or too large a mismatch; what was good is saved.
    """
    observer = observer or Observer()
    program = build_program(experiment)
    with RewardPool(experiment.rewards) as pool:
        pool.check(program.train_prompts.columns())
        with (
            RunFolder(experiment) as folder,
            Logs(folder.path) as logs,
            Checkpoints(folder.checkpoints, experiment.checkpoints) as checkpoints,
            StopRequest() as stop,
        ):
            observer.start(make_plan(program).facts)
            run = _Run(program, pool, folder, logs, checkpoints, stop, observer)
            return run.finish()


class _Run:
    """One run in one process: where it stands, and the rooms that it works with.

    `at` changes in one place, `_advance`, when everything that a step has done is done: whenever
    the loop is left, `at` is a place to go on from.
    """

    def __init__(
        self,
        program: Program,
        pool: RewardPool,
        folder: RunFolder,
        logs: Logs,
        checkpoints: Checkpoints,
        stop: StopRequest,
        observer: Observer,
    ) -> None:
        self.program, self.pool, self.folder, self.logs = program, pool, folder, logs
        self.checkpoints, self.stop, self.observer = checkpoints, stop, observer
        self.experiment = program.experiment
        self.identity = digest(program.experiment)
        self.started = time.perf_counter()
        # Metrics of this very step, for choosing the best checkpoint: an accuracy of an earlier one
        # would make a policy the best that nobody has evaluated.
        self.latest: dict[str, float] = {}
        restored = positions.restore(checkpoints, program)
        self.at = restored or positions.fresh(program)
        self.seconds_before = self.at.progress.seconds
        # What was written after the checkpoint belongs to steps that are done again.
        progress = self.at.progress
        if restored is None and any(logs.offsets().values()):
            observer.note(f"no checkpoint in {folder.checkpoints}: starting over")
        logs.truncate(progress.offsets)
        folder.forget_records_after(progress.step if progress.stage == "grpo" else 0)
        if restored is not None:
            observer.note(f"going on after {self._where()}, from {folder.checkpoints}")

    def finish(self) -> dict[str, Any]:
        """Whatever is left to do, and the summary."""
        try:
            if self.at.progress.stage == "warmup":
                self._warm_up()
                self._enter_grpo()
            self._train()
            return self._summarise()
        except (Terminated, NumbersError) as error:
            if self.at.intact:
                self._save()
            self.checkpoints.wait()
            kept = self.checkpoints.latest()
            where = f"saved after {self._where()}" if self.at.intact else f"last save: {kept}"
            raise type(error)(f"{error}; {where}, in {self.folder.path}") from error

    def _where(self) -> str:
        return f"step {self.at.progress.step} of stage {self.at.progress.stage}"

    def _save(self) -> None:
        wanted = self.experiment.checkpoints.best_metric
        if wanted and self.at.progress.step and wanted not in self.latest:
            hint = closest(wanted, self.latest)
            self.observer.note(f"{self._where()} has no {wanted}, so it can't be the best{hint}")
        positions.save(self.checkpoints, self.program, self.at, self.latest)

    def _advance(self, state: TrainState, **changes: Any) -> None:
        progress = dataclasses.replace(
            self.at.progress,
            seconds=self._seconds(),
            offsets=self.logs.offsets(),
            **changes,
        )
        self.at = dataclasses.replace(self.at, state=state, progress=progress)

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started

    def _save_if_due(self) -> None:
        done = positions.total_steps(self.program, self.at.progress)
        if done and self.experiment.checkpoints.due(done):
            self._save()

    def _prompts(self, stage: Stage, batch_size: int) -> PromptBatches[Prompt]:
        batches = prompt_batches(
            self.program.train_prompts,
            batch_size=batch_size,
            # Each stage has an order of its own, both from the run's seed.
            seed=2 * self.experiment.seed + (stage == "grpo"),
            shuffle=self.experiment.data.shuffle,
        )
        if self.at.progress.data is not None:
            batches.set_state(self.at.progress.data)
        return batches

    def _warm_up(self) -> None:
        config = self.experiment.warmup
        batches = self._prompts("warmup", config.batch_size)
        for step in range(self.at.progress.step, config.steps):
            self._save_if_due()
            self.stop.check()
            state, values = warmup_step(self.program, self.at.state, next(batches))
            refuse_nan(values, step + 1)
            values["optimizer/learning_rate"] = _rate(config.optimizer, config.steps, step)
            self.logs.warmup_step(step + 1, values)
            self._advance(state, step=step + 1, data=batches.get_state())
            self.observer.warmup_step(step + 1, config.steps, values)
        if config.steps:
            self._save()

    def _enter_grpo(self) -> None:
        evaluation = self._evaluate("before GRPO")
        self.at = positions.enter_grpo(self.program, self.at)
        if evaluation is not None:
            self._advance(
                self.at.state,
                evaluated=0,
                eval_start=evaluation.facts(),
                samples_start=[dataclasses.asdict(x) for x in evaluation.items[:_SAMPLES_SHOWN]],
            )
        self.observer.note(
            "the loss starts near 0, because policy and anchor coincide at the first optimiser "
            "step of every rollout: watch the reward, KL3 and the gradient norm instead"
        )

    def _train(self) -> None:
        config, every = self.experiment.training, self.experiment.evaluation.every_steps
        batches = self._prompts("grpo", self.experiment.rollout.prompts_per_step)
        for step in range(self.at.progress.step, config.steps):
            if every and step % every == 0 and step > self.at.progress.evaluated:
                self._evaluate(f"after step {step}")
                self._advance(self.at.state, evaluated=step)
            self._save_if_due()
            self.stop.check()
            result = grpo_step(
                self.program,
                self.pool,
                self.at.state,
                self.at.reference,
                batches,
                key=self.at.key,
                step=step,
                traced=self._recorded(step + 1),
                on_tick=self.stop.check,
            )
            self._finish_step(step + 1, result, batches)

    def _recorded(self, step: int) -> bool:
        every, last = self.experiment.run.record_every, self.experiment.training.steps
        return bool(every) and (step % every == 0 or step in (1, last))

    def _finish_step(self, step: int, result: StepResult, batches: PromptBatches[Prompt]) -> None:
        values, config = result.values, self.experiment.training
        refuse_nan(values, step)
        refuse_mismatch(values, config.max_mismatch)
        updates = step * config.updates
        values["optimizer/learning_rate"] = _rate(
            self.experiment.optimizer, self.experiment.optimizer_steps, updates - 1
        )
        if result.trace is not None:
            write_record(
                self.folder.record(step),
                result.rollout,
                result.batch,
                result.trace,
                run_id=self.folder.path.name,
                step=step,
                weight_version=(step - 1) * config.updates,
                config_digest=self.identity,
            )
            self.folder.prune_records(self.experiment.run.records_to_keep)
        self.logs.step(step, values)
        self.latest = {name: value for name, value in values.items() if math.isfinite(value)}
        reward, first = values["reward/mean"], self.at.progress.reward_start
        self._advance(
            result.state,
            step=step,
            data=batches.get_state(),
            tokens=self.at.progress.tokens + int(values["tokens/step"]),
            reward_start=reward if first is None else first,
            reward_end=reward,
        )
        self.observer.step(step, config.steps, values)

    def _evaluate(self, label: str) -> Evaluation | None:
        """Held-out accuracy of the policy as it stands; logged, and nothing else is changed."""
        if self.program.eval_prompts is None:
            return None
        config, progress = self.experiment.evaluation, self.at.progress
        evaluation = evaluate(
            self.program.eval_sampler,
            self.at.state.params,
            self.program.eval_prompts,
            self.program.tokenizer,
            self.pool,
            measure=self.experiment.rewards.functions[0].name,
            key=self.at.key,
            samples=config.samples,
            batch_size=config.batch_size,
            on_tick=self.stop.check,
            on_progress=lambda done, total: self.observer.evaluating(label, done, total),
        )
        # An accuracy that nobody could measure is none: not to be kept as the one before GRPO.
        refuse_failed(
            [item.failure for item in evaluation.items],
            self.experiment.rewards.max_failed_fraction,
            "held-out rewards",
        )
        self.logs.evaluation(progress.step if progress.stage == "grpo" else 0, evaluation.facts())
        self.latest["eval/accuracy"] = evaluation.accuracy
        self.observer.evaluated(label, evaluation)
        return evaluation

    def _summarise(self) -> dict[str, Any]:
        evaluation = self._evaluate("after GRPO")
        self._advance(self.at.state, evaluated=self.at.progress.step)
        self._save()
        progress, config = self.at.progress, self.experiment.training
        summary = {
            "run_id": self.folder.path.name,
            "config_digest": self.identity,
            "eval_start": progress.eval_start,
            "eval_end": None if evaluation is None else evaluation.facts(),
            "reward_start": progress.reward_start,
            "reward_end": progress.reward_end,
            "steps": progress.step,
            "optimizer_steps": progress.step * config.updates,
            "warmup_steps": self.experiment.warmup.steps,
            "tokens": progress.tokens,
            "seconds": round(self._seconds(), 3),
            "compiled_programs": self.program.compiled_programs(),
            **read_gains(self.folder.path),
        }
        # The run is finished once everything of it is on disk, and not before.
        self.checkpoints.wait()
        self.folder.write_summary(summary)
        before = [EvaluatedItem(**item) for item in progress.samples_start]
        after = evaluation.items[:_SAMPLES_SHOWN] if evaluation is not None else []
        self.observer.finish(summary, before, after)
        return summary


def _rate(config: OptimizerConfig, total_steps: int, step: int) -> float:
    return float(np.asarray(learning_rate(config, total_steps)(step)))
