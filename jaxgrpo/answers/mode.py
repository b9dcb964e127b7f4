"""How answers are judged where reasonable readers differ."""

import enum


class Mode(enum.StrEnum):
    """What counts as the same answer in the disputed cases.

    Everything else, and all that is undisputed, is the same in each of them.
    """

    STRICT = "strict"
    """The gold as it is: its percent sign, its names before values, its arithmetic done, its
    decimals; an exact answer does not stand for a rounded gold."""

    NORMAL = "normal"
    """What most graders and readers take."""

    LENIENT = "lenient"
    """6 right digits of an exact gold instead of 10, words for symbols (infinity), O for Theta, a
    base left out, any case of a choice's letter, and a last sentence that says the answer without
    marking it."""
