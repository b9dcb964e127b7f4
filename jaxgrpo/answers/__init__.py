r"""Text to verdict: whether a completion's final answer is the reference answer.

Text is parsed, never evaluated as code; nothing here raises or takes more than linear time
whatever the text. No JAX.

Example:
  >>> import jaxgrpo as jg
  >>> jg.answers.is_correct(r"So the sum is $\boxed{\frac{3}{6}}$.", "0.5")
  True
  >>> jg.answers.grade("It is 5 or 6.", "5").outcome
  <Outcome.NO_ANSWER: 'no_answer'>
"""

from jaxgrpo.answers.expressions import evaluate
from jaxgrpo.answers.extraction import final_answer
from jaxgrpo.answers.grading import Grade, Outcome, grade, is_correct

__all__ = ["Grade", "Outcome", "evaluate", "final_answer", "grade", "is_correct"]
