r"""Where in a completion the final answer stands.

The content of the last complete `\boxed{}`; without one, what follows the last `####`; else what
follows the last "answer is" or "answer:", or stands in the last `<answer>`; else the whole text,
for the caller to refuse where it is more than an answer. A box that is never closed is no box.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

# Escaped characters are consumed in pairs, so that \{ neither opens nor closes anything.
_BRACES = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s+([0-9]|[A-Za-z](?![A-Za-z]))")
# Between boxes that are one list: "\\boxed{1} and \\boxed{2}".
_CONNECTORS = frozenset(("and", "or", ",", ",and", ",or"))
_NO_LETTER = re.compile(r"\\(?:q?quad|text)|[^A-Za-z,]")
_MAX_BETWEEN = 40
_MAX_BOXES = 20
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


def final_answer(completion: str, markers: Sequence[str] = ()) -> Extracted:
    r"""The final answer of a completion, in time linear in its length.

    Args:
      completion: what the model wrote, the whole of it.
      markers: what stands before the answer in this data set ("A:"); what follows the last of
        them on its line goes before all else.

    Example:
      >>> final_answer(r"Either $\boxed{1}$ or rather $\boxed{\frac{1}{2}}$.").text
      '\\frac{1}{2}'
      >>> final_answer("8+4=12, so\n#### 12").text
      '12'
    """
    place, marker = max(((completion.rfind(each), each) for each in markers), default=(-1, ""))
    if place >= 0:
        return Extracted(_first_line(completion[place + len(marker) :].lstrip()), True)
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
    """The content of the last closed box, with the boxes that "and" or a comma joins to it."""
    if "boxed" not in text and "fbox" not in text:
        return None
    boxes: list[tuple[int, int, int]] = []
    open_braces: list[tuple[int, int]] = []
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "{" or match["box"]:
            open_braces.append((match.start() if match["box"] else -1, match.end()))
        elif token == "}" and open_braces:
            outside, start = open_braces.pop()
            if outside >= 0:
                boxes.append((outside, start, match.start()))
    if not boxes:
        bare = max(_BARE_BOX.finditer(text), key=re.Match.start, default=None)
        return None if bare is None else bare[1]
    boxes.sort()
    first, start, end = boxes[-1]
    contents = [text[start:end]]
    for outside, start, end in boxes[-2:-_MAX_BOXES:-1]:
        between = text[end + 1 : first]
        if end >= first or len(between) > _MAX_BETWEEN:
            break
        if _NO_LETTER.sub("", between) not in _CONNECTORS:
            break
        first = outside
        contents.append(text[start:end])
    return ", ".join(reversed(contents))


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
