"""Prompts: files and procedural tasks, encoded once, read as one endless stream of batches.

Nothing here imports Grain until `prompt_batches` is called.

Example:
  >>> import jaxgrpo as jg
  >>> config = jg.data.SourceConfig(task="arithmetic", options={"digits": 1}, size=1000)
  >>> train = jg.data.open_source(config, seed=0, split="train")
  >>> encoded = jg.data.encode(
  ...     train, jg.tokenizers.load("characters"), template="{question}", max_prompt_tokens=8
  ... )
  >>> len(next(jg.data.prompt_batches(encoded, batch_size=4, seed=0, shuffle=True)))
  4
"""

from jaxgrpo.data.config import DataConfig, SourceConfig
from jaxgrpo.data.pipeline import PromptBatches, prompt_batches
from jaxgrpo.data.prompts import EncodedSource, Prompt, encode
from jaxgrpo.data.sources import Example, JsonlSource, Source
from jaxgrpo.data.tasks import open_source

__all__ = [
    "DataConfig",
    "EncodedSource",
    "Example",
    "JsonlSource",
    "Prompt",
    "PromptBatches",
    "Source",
    "SourceConfig",
    "encode",
    "open_source",
    "prompt_batches",
]
