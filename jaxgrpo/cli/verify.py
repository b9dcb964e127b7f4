"""`jaxgrpo verify "COMPLETION" "GOLD"` and `jaxgrpo verify --audit FILE`."""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jaxgrpo.cli.arguments import Parser
from jaxgrpo.core.errors import UserError

if TYPE_CHECKING:
    from jaxgrpo.answers.audit import Row

EXAMPLES = """\
  jaxgrpo verify 'so the answer is \\boxed{\\frac{1}{2}}' 0.5
  jaxgrpo verify --explain "I get 41" 42
  jaxgrpo verify - 42 < completion.txt
  jaxgrpo verify -- "-1/2" "-0.5"
  jaxgrpo verify --audit data/train.jsonl --report audit.md --quarantine bad.jsonl
  jaxgrpo verify --audit rollouts.jsonl --completion-field completion --marker "A:"
"""

_MEANING = {
    "right": "the final answer is the gold one",
    "wrong": "the final answer is another one",
    "no_answer": "no final answer was found in the completion",
    "unparseable_gold": "the gold answer could not be read",
    "unparseable_answer": "the final answer could not be read as what the gold one is",
}


def main(words: Sequence[str]) -> int:
    """Judge a completion, 0 if it is right and 1 if not; or audit a file, 1 if rows are bad."""
    parser = Parser(
        "verify",
        "Judge a completion by its final answer, as the reward `answer` does: the exit code is 0 "
        "if it is right and 1 if it isn't. With --audit, grade every gold of a file against "
        "itself and every completion against its gold: the exit code is 1 if rows should be "
        "quarantined.",
        EXAMPLES,
    )
    parser.add_argument(
        "completion", metavar="COMPLETION", nargs="?", help="the whole text; - is stdin"
    )
    parser.add_argument("gold", metavar="GOLD", nargs="?", help="the reference answer")
    parser.add_argument("--explain", action="store_true", help="say how the verdict came about")
    parser.add_argument(
        "--mode",
        choices=["strict", "normal", "lenient"],
        default="normal",
        help="how to judge where reasonable readers differ (normal)",
    )
    parser.add_argument(
        "--marker", action="append", default=[], metavar="TEXT",
        help='what stands before the answer in this data, such as "A:"; may be repeated',
    )  # fmt: skip
    audit = parser.add_argument_group("audit")
    audit.add_argument("--audit", metavar="FILE", help="a JSON lines file of golds or rollouts")
    audit.add_argument("--gold-field", default="answer", metavar="NAME", help="(answer)")
    audit.add_argument(
        "--completion-field", default="completion", metavar="NAME", help="(completion)"
    )
    audit.add_argument("--report", metavar="FILE", help="write the report here too, as Markdown")
    audit.add_argument("--quarantine", metavar="FILE", help="write the lines to leave out here")
    arguments = parser.parse_args(words)
    if arguments.audit is not None:
        if arguments.completion is not None:
            parser.error("--audit takes no COMPLETION")
        return _audit(arguments)
    if arguments.gold is None:
        missing = "GOLD" if arguments.completion is not None else "COMPLETION, GOLD"
        parser.error(f"the following arguments are required: {missing}")
    return _judge(arguments)


def _judge(arguments: argparse.Namespace) -> int:
    # The answers alone: no JAX, so that this takes a fraction of a second.
    from jaxgrpo.answers import Mode, final_answer, grade
    from jaxgrpo.answers.reading import readings
    from jaxgrpo.answers.showing import show

    completion = sys.stdin.read() if arguments.completion == "-" else arguments.completion
    verdict = grade(completion, arguments.gold, mode=Mode(arguments.mode), markers=arguments.marker)
    word = "right" if verdict.correct else "wrong"
    took = f"{verdict.seconds * 1000:.2f} ms"
    if not arguments.explain:
        print(f"{word}  extracted {verdict.extracted!r}  outcome {verdict.outcome}  {took}")
        return 0 if verdict.correct else 1
    found = final_answer(completion, arguments.marker)
    place = "marked as the answer" if found.marked else "not marked as the answer"
    print(f"verdict    {word}")
    print(f"extracted  {verdict.extracted!r}")
    print(f"found      {found.text!r}, {place}" if found.text else "found      nothing")
    for tree in readings(verdict.extracted or ""):
        print(f"read as    {show(tree)}")
    print(f"gold       {arguments.gold!r}")
    for tree in readings(arguments.gold):
        print(f"read as    {show(tree)}")
    print(f"decided by {verdict.stage}")
    print(f"outcome    {verdict.outcome}: {_MEANING.get(verdict.outcome, '')}")
    print(f"took       {took}")
    return 0 if verdict.correct else 1


def _audit(arguments: argparse.Namespace) -> int:
    from jaxgrpo.answers import Mode
    from jaxgrpo.answers.audit import audit, report

    lines: dict[str, str] = {}
    seen = audit(_rows(arguments, lines), mode=Mode(arguments.mode), markers=arguments.marker)
    if not seen.rows:
        raise UserError(f"{arguments.audit}: the file has no lines")
    text = report(seen, arguments.audit)
    print(text, end="")
    if arguments.report:
        _write(arguments.report, text)
    if arguments.quarantine:
        _write(arguments.quarantine, "".join(lines[row.place] for row in seen.quarantined))
    return 1 if seen.quarantined else 0


def _rows(arguments: argparse.Namespace, lines: dict[str, str]) -> "Iterator[Row]":
    """The rows of a file; `lines` is filled with their text by place."""
    from jaxgrpo.answers.audit import Row

    try:
        with open(arguments.audit, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                place = f"line {number}"
                lines[place] = line if line.endswith("\n") else f"{line}\n"
                row = _object(f"{arguments.audit}:{number}", line)
                gold = row.get(arguments.gold_field)
                if gold is None:
                    raise UserError(
                        f"{arguments.audit}:{number}: no field {arguments.gold_field!r}; "
                        "see --gold-field"
                    )
                completion, correct = row.get(arguments.completion_field), row.get("correct")
                yield Row(
                    place,
                    str(gold),
                    None if completion is None else str(completion),
                    correct if isinstance(correct, bool) else None,
                )
    except (OSError, UnicodeError) as error:
        raise UserError(f"{arguments.audit}: cannot read: {error}") from None


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not a line of JSON: {error}") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: wanted a JSON object, got {type(row).__name__}")
    return row


def _write(path: str, text: str) -> None:
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror}") from None
