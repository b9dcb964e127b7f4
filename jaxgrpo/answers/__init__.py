r"""Text to verdict: whether a completion's final answer is the reference answer.

Text is parsed by a parser of our own, never evaluated as code; nothing here raises or takes long
whatever the text. Answers are compared in stages that stop at the first that can decide: as text,
as plain numbers, by structure with exact rational values, by values to many digits at points that
the texts decide, and last by sympy in a process that is killed where it takes long. No JAX.

Example:
  >>> import jaxgrpo as jg
  >>> jg.answers.is_correct(r"So the sum is $\boxed{\frac{3}{6}}$.", "0.5")
  True
  >>> jg.answers.grade("It is 5 or 6.", "5").outcome
  <Outcome.NO_ANSWER: 'no_answer'>
"""

from jaxgrpo.answers.expressions import evaluate
from jaxgrpo.answers.extraction import final_answer
from jaxgrpo.answers.golds import GoldKind, gold_kind
from jaxgrpo.answers.grading import Grade, Outcome, Stage, grade, is_correct
from jaxgrpo.answers.mode import Mode

__all__ = [
    "GoldKind",
    "Grade",
    "Mode",
    "Outcome",
    "Stage",
    "evaluate",
    "final_answer",
    "gold_kind",
    "grade",
    "is_correct",
]
