"""`jaxgrpo verify "COMPLETION" "GOLD"`."""

import sys
from collections.abc import Sequence

from jaxgrpo.cli.arguments import Parser

EXAMPLES = """\
  jaxgrpo verify 'so the answer is \\boxed{\\frac{1}{2}}' 0.5
  jaxgrpo verify --explain "I get 41" 42
  jaxgrpo verify - 42 < completion.txt
  jaxgrpo verify -- "-1/2" "-0.5"
"""

_MEANING = {
    "right": "the final answer is the gold one",
    "wrong": "the final answer is another one",
    "no_answer": "no final answer was found in the completion",
    "unparseable_gold": "the gold answer could not be read",
    "unparseable_answer": "the final answer could not be read as what the gold one is",
}


def main(words: Sequence[str]) -> int:
    """Say whether a completion's final answer is right; 0 if it is, 1 if not."""
    parser = Parser(
        "verify",
        "Judge a completion by its final answer, as the reward `answer` does. The exit code is 0 "
        "if it is right and 1 if it isn't.",
        EXAMPLES,
    )
    parser.add_argument("completion", metavar="COMPLETION", help="the whole text; - is stdin")
    parser.add_argument("gold", metavar="GOLD", help="the reference answer")
    parser.add_argument("--explain", action="store_true", help="say how the verdict came about")
    arguments = parser.parse_args(words)

    # The answers alone: no JAX, so that this takes a fraction of a second.
    from jaxgrpo.answers import final_answer, grade

    completion = sys.stdin.read() if arguments.completion == "-" else arguments.completion
    verdict = grade(completion, arguments.gold)
    word = "right" if verdict.correct else "wrong"
    took = f"{verdict.seconds * 1000:.2f} ms"
    if not arguments.explain:
        print(f"{word}  extracted {verdict.extracted!r}  outcome {verdict.outcome}  {took}")
        return 0 if verdict.correct else 1
    found = final_answer(completion)
    place = "marked as the answer" if found.marked else "not marked as the answer"
    print(f"verdict    {word}")
    print(f"extracted  {verdict.extracted!r}")
    print(f"found      {found.text!r}, {place}" if found.text else "found      nothing")
    print(f"gold       {arguments.gold!r}")
    print(f"outcome    {verdict.outcome}: {_MEANING.get(verdict.outcome, '')}")
    print(f"took       {took}")
    return 0 if verdict.correct else 1
