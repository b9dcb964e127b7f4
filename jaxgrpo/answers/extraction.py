r"""Where in a completion the final answer stands.

The content of the last complete `\boxed{}`; without one, what follows the last `####`; else what
follows the last "answer is" or "answer:", or stands in the last `<answer>`; else the whole text,
for the caller to refuse where it is more than an answer. A box that is never closed is no box.
"""

import re
from typing import NamedTuple

# Escaped characters are consumed in pairs, so that \{ neither opens nor closes anything.
_BRACES = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|[{}]", re.DOTALL)
_MARKER = re.compile(
    r"\banswer(?:\s{1,3}is\b|\s{0,3}[:=\N{FULLWIDTH COLON}]|\s{1,3}(?=\$|\\[(\[]))", re.IGNORECASE
)
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
# A reason or a condition behind the answer is no part of it. "or" and "and" are.
_CLAUSE = re.compile(r",?\s(?:because|since|as|which|when|where|so|if|by)\b")

_DISPLAYS = [("$$", "$$"), (r"\[", r"\]")]


class Extracted(NamedTuple):
    """A final answer, and whether something in the completion marked it as one."""

    text: str
    marked: bool


def final_answer(completion: str) -> Extracted:
    r"""The final answer of a completion, in time linear in its length.

    Example:
      >>> final_answer(r"Either $\boxed{1}$ or rather $\boxed{\frac{1}{2}}$.").text
      '\\frac{1}{2}'
      >>> final_answer("8+4=12, so\n#### 12").text
      '12'
    """
    box = _last_box(completion)
    if box is not None:
        return Extracted(box.strip(), True)
    _, hashes, rest = completion.rpartition("####")
    if hashes:
        return Extracted(_first_line(rest.lstrip(" :")), True)
    tagged, said = _last_tag(completion), _last_marker(completion)
    if tagged is not None and (said is None or tagged[0] > said[0]):
        return Extracted(tagged[1].strip(), True)
    if said is not None:
        return Extracted(said[1], True)
    return Extracted(completion.strip(), False)


def _last_box(text: str) -> str | None:
    """The content of the box that opens last among those that close."""
    last: tuple[int, int] | None = None
    open_braces: list[tuple[bool, int]] = []
    for match in _BRACES.finditer(text):
        token = match.group()
        if token.endswith("{") and (token == "{" or match["box"]):
            open_braces.append((bool(match["box"]), match.end()))
        elif token == "}" and open_braces:
            is_box, start = open_braces.pop()
            if is_box and (last is None or start > last[0]):
                last = (start, match.start())
    return None if last is None else text[last[0] : last[1]]


def _last_tag(text: str) -> tuple[int, str] | None:
    """The last <answer>...</answer> and where it starts."""
    last, start = None, None
    for match in _TAG.finditer(text):
        if not match[1]:
            start = match.end()
        elif start is not None:
            last, start = (start, text[start : match.start()]), None
    return last


def _last_marker(text: str) -> tuple[int, str] | None:
    """What follows the last "answer is" or "answer:", up to the end of its sentence."""
    last = max(_MARKER.finditer(text), key=re.Match.start, default=None)
    if last is None:
        return None
    answer = text[last.end() :].lstrip(" :*\n")
    for opening, closing in _DISPLAYS:
        if answer.startswith(opening):
            return last.end(), answer[len(opening) :].partition(closing)[0].strip()
    answer = _first_line(answer)
    for ending in (_SENTENCE_END, _CLAUSE):
        if match := ending.search(answer):
            answer = answer[: match.start()]
    return last.end(), answer.strip().strip("*")


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip()
