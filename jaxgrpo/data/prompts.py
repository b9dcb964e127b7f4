"""Examples into prompts of token ids, once, before the first step."""

import logging
from typing import Literal, NamedTuple

from jaxgrpo.core.errors import UserError
from jaxgrpo.data.sources import Example, Source
from jaxgrpo.tokenizers import Tokenizer

logger = logging.getLogger(__name__)


class Prompt(NamedTuple):
    """An example and the tokens that the policy continues."""

    example: Example
    tokens: tuple[int, ...]


class EncodedSource:
    """The prompts that fit, by position, and the names of those that did not."""

    def __init__(self, prompts: list[Prompt], skipped: list[str]) -> None:
        self._prompts = prompts
        self.skipped = skipped

    def __len__(self) -> int:
        return len(self._prompts)

    def __getitem__(self, index: int, /) -> Prompt:
        return self._prompts[index]

    def columns(self) -> set[str]:
        """The fields that every example has, besides question and answer."""
        return set.intersection(*(set(prompt.example.fields) for prompt in self._prompts))


def encode(
    source: Source,
    tokenizer: Tokenizer,
    *,
    template: str = "{question}",
    max_prompt_tokens: int,
    on_long: Literal["skip", "error"] = "skip",
) -> EncodedSource:
    """Every example of a source as a prompt; none is ever cut.

    Args:
      source: the examples.
      tokenizer: makes the ids; no special token is added, so spell them in the template.
      template: the prompt's text, with "{question}" where the question goes.
      max_prompt_tokens: the longest prompt in tokens.
      on_long: leave longer prompts out ("skip") or refuse them ("error").

    Raises:
      UserError: a prompt is empty, one is too long under "error", or none is left.
    """
    prompts: list[Prompt] = []
    skipped: list[str] = []
    strange: list[str] = []
    unknown = getattr(tokenizer, "unknown_id", None)
    for index in range(len(source)):
        example = source[index]
        # Not str.format: templates hold LaTeX braces.
        tokens = tuple(tokenizer.encode(template.replace("{question}", example.question)))
        if not tokens:
            raise UserError(f"{example.name}: the prompt has no tokens")
        if unknown in tokens:
            strange.append(example.name)
        if len(tokens) <= max_prompt_tokens:
            prompts.append(Prompt(example, tokens))
            continue
        if on_long == "error":
            raise UserError(
                f"{example.name}: the prompt has {len(tokens)} tokens, "
                f"max_prompt_tokens is {max_prompt_tokens}"
            )
        skipped.append(example.name)
    if not prompts:
        raise UserError(
            f"none of {len(skipped)} prompts fits into max_prompt_tokens={max_prompt_tokens}"
        )
    if skipped:
        what = f"have more than {max_prompt_tokens} tokens and are left out"
        logger.warning("%d of %d prompts %s: %s", len(skipped), len(source), what, _some(skipped))
    if strange:
        what = "hold characters that the tokenizer does not know"
        logger.warning("%d of %d prompts %s: %s", len(strange), len(source), what, _some(strange))
    return EncodedSource(prompts, skipped)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
