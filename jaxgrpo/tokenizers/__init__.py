"""Text to token ids and back: Hugging Face tokenizers and a built-in character tokenizer.

Only `encode` of a prompt and `decode` of a completion happen here. Ids that came from the sampler
are never turned into text and encoded again.

Example:
  >>> import jaxgrpo as jg
  >>> tokenizer = jg.tokenizers.load("characters")
  >>> tokenizer.encode("1+1")
  [21, 15, 21]
  >>> tokenizer.decode([21, 15, 21, *tokenizer.stop_ids])
  '1+1'
"""

from jaxgrpo.tokenizers._characters import CharacterTokenizer
from jaxgrpo.tokenizers._huggingface import HuggingFaceTokenizer
from jaxgrpo.tokenizers._load import load
from jaxgrpo.tokenizers._protocol import Tokenizer

__all__ = ["CharacterTokenizer", "HuggingFaceTokenizer", "Tokenizer", "load"]
