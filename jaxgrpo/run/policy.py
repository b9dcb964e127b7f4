"""A policy to use, from a run folder or a Hugging Face folder."""

import dataclasses
import logging
import os
import pathlib
from typing import Any

from jax.sharding import Mesh

from jaxgrpo.checkpoints import Checkpoints
from jaxgrpo.config import Experiment, load
from jaxgrpo.core.errors import UserError
from jaxgrpo.models import DecoderConfig, Policy, abstract_params, from_pretrained
from jaxgrpo.run.program import resolve_model
from jaxgrpo.sampling import Sampler, SamplingConfig
from jaxgrpo.sharding import MeshConfig, build_mesh
from jaxgrpo.tokenizers import HuggingFaceTokenizer, Tokenizer
from jaxgrpo.tokenizers import load as load_tokenizer

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
    """A policy with what turns text into its tokens and back."""

    policy: Policy
    tokenizer: Tokenizer
    mesh: Mesh
    """All devices of this program, whatever the run was trained on."""
    experiment: Experiment | None
    """Of the run; None for a Hugging Face folder."""
    step: int | None
    """Steps done, those of a warm-up included, when the run's checkpoint was saved."""

    def encode(self, question: str) -> tuple[int, ...]:
        """The tokens of a prompt, put into the run's template where there is one.

        Raises:
          UserError: the prompt has no tokens.
        """
        template = self.experiment.data.template if self.experiment else "{question}"
        tokens = tuple(self.tokenizer.encode(template.replace("{question}", question)))
        if not tokens:
            raise UserError(f"the prompt {question!r} has no tokens")
        if getattr(self.tokenizer, "unknown_id", None) in tokens:
            logger.warning("%r holds characters that the tokenizer does not know", question)
        return tokens

    def sampler(self, config: SamplingConfig) -> Sampler:
        """Draws completions of the policy."""
        return Sampler(
            self.policy.config,
            config,
            stop_ids=self.tokenizer.stop_ids,
            pad_id=self.tokenizer.pad_id,
            mesh=self.mesh,
        )


def load_policy(path: str | os.PathLike[str], *, best: bool = False) -> LoadedPolicy:
    """The policy of a run's newest whole checkpoint, or that of a Hugging Face folder.

    Only parameters are read, onto all devices of this program.

    Args:
      path: a run folder (config.yaml and checkpoints), or config.json with *.safetensors and a
        tokenizer.
      best: the checkpoint that `checkpoints.best_metric` calls best instead.

    Raises:
      UserError: it is neither, or something in it is missing or doesn't fit.
      HostError: every checkpoint is damaged.
    """
    folder = pathlib.Path(path)
    if (folder / "config.yaml").is_file():
        return _of_run(folder, best)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder}: neither a run (config.yaml) nor a Hugging Face model (config.json) there"
        )
    if best:
        raise UserError(f"{folder} is no run: it has no best checkpoint")
    tokenizer = HuggingFaceTokenizer(folder)
    mesh = build_mesh(MeshConfig())
    policy = from_pretrained(folder, mesh=mesh)
    if policy.config.vocabulary_size < tokenizer.vocab_size:
        raise UserError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} ids, the model "
            f"{policy.config.vocabulary_size}"
        )
    return LoadedPolicy(policy, tokenizer, mesh, None, None)


def _of_run(folder: pathlib.Path, best: bool) -> LoadedPolicy:
    experiment = load(folder / "config.yaml")
    tokenizer = load_tokenizer(experiment.tokenizer)
    mesh = build_mesh(MeshConfig())
    model: DecoderConfig | None = None

    def abstract(meta: dict[str, Any]) -> dict[str, Any]:
        nonlocal model
        saved = meta.get("model")
        model = DecoderConfig(**saved) if saved else resolve_model(experiment, tokenizer)
        return {"state": {"params": abstract_params(model, mesh)}}

    with Checkpoints(folder / "checkpoints", experiment.checkpoints) as checkpoints:
        step = checkpoints.best() if best else None
        if best and step is None:
            raise UserError(
                f"{folder} has no best checkpoint: the run's checkpoints.best_metric is "
                f"{experiment.checkpoints.best_metric!r}"
            )
        restored = checkpoints.restore(abstract, step=step, partial=True)
    if restored is None or model is None:
        raise UserError(f"{folder} has no checkpoint yet")
    params = restored.arrays["state"]["params"]
    return LoadedPolicy(Policy(model, params), tokenizer, mesh, experiment, restored.step)
