"""Units in one spelling, so that a wrong one can be told from a missing one."""

import re

from jaxgrpo.answers.tree import UnreadableError

_NAMES = {
    "meter": "m metre", "centimeter": "cm centimetre", "millimeter": "mm millimetre",
    "kilometer": "km kilometre", "micrometer": "um micron micrometre", "nanometer": "nm nanometre",
    "inch": "in inches", "foot": "ft feet", "yard": "yd", "mile": "mi",
    "kilogram": "kg", "gram": "g gm", "milligram": "mg", "pound": "lb lbs",
    "ounce": "oz", "ton": "t tonne",
    "second": "s sec", "minute": "min", "hour": "h hr", "day": "", "week": "", "month": "",
    "year": "yr", "millisecond": "ms",
    "liter": "l L litre", "milliliter": "mL ml millilitre",
    "newton": "N", "joule": "J", "watt": "W",
    "kilowatt": "kW", "volt": "V", "ampere": "A amp", "ohm": "", "hertz": "Hz", "kelvin": "K",
    "pascal": "Pa", "kilopascal": "kPa", "coulomb": "C", "mole": "mol", "electronvolt": "eV",
    "degree": "deg", "radian": "rad", "celsius": "degC", "fahrenheit": "degF",
    "dollar": "usd USD bucks", "cent": "c", "euro": "eur EUR", "percent": "pct", "unit": "",
}  # fmt: skip
_ALIASES = {
    alias: name for name, aliases in _NAMES.items() for alias in (name, *aliases.split())
} | {f"{name}s": name for name in _NAMES}
_ALIASES |= {"mph": "mile / hour", "kph": "kilometer / hour", "kmh": "kilometer / hour"}
_LOWER = {alias.lower(): name for alias, name in _ALIASES.items() if len(alias) > 1}
# Words with which a tail says more than a unit does.
_NO_UNIT = frozenset(
    (
        "or", "and", "not", "to", "is", "are", "but", "if", "than", "about", "maybe", "perhaps",
        "less", "more", "least", "most", "at", "between", "either", "where", "when", "because",
        "since", "so", "approximately", "around", "nearly", "almost", "except", "correct", "wrong",
        "answer", "the", "true", "false", "none", "null", "for", "all", "any", "otherwise", "with",
        "without", "never", "no",
    )
)  # fmt: skip
_IDEOGRAPHS = re.compile("[\u3400-\u9fff]{1,4}")
_WORD = re.compile(r"[A-Za-z][A-Za-z.'-]*")
_ALLOWED = re.compile(r"[A-Za-z.'/^{}* 0-9-]+")
_POWERS = {"square": "2", "squared": "2", "sq": "2", "cubic": "3", "cubed": "3"}


def canonical(phrase: str) -> str:
    """One spelling for a unit phrase: "cm^2", "square centimeters" and "sq cm" are one.

    Raises:
      UnreadableError: the phrase is none: it negates, hedges or explains.

    Example:
      >>> canonical("sq. cm") == canonical("centimetres ^ 2"), canonical("apples")
      (True, 'apple')
    """
    phrase = phrase.strip().rstrip(".").replace("per cent", "percent")
    if _IDEOGRAPHS.fullmatch(phrase):
        return phrase
    words = _WORD.findall(phrase.removeprefix("of the "))
    if not words or len(words) > 6 or len(phrase) > 60 or not _ALLOWED.fullmatch(phrase):
        raise UnreadableError
    if _NO_UNIT & {word.lower() for word in words}:
        raise UnreadableError
    if words[0].lower() in ("degree", "degrees") and len(words) == 2:
        scale = {"c": "celsius", "f": "fahrenheit"}.get(words[1].lower(), words[1].lower())
        if scale in ("celsius", "fahrenheit"):
            return scale
    power = ""
    pieces: list[str] = []
    for piece in re.findall(r"[A-Za-z][A-Za-z.'-]*|[0-9]+|/", phrase.replace(" per ", " / ")):
        word = piece.rstrip(".")
        if word.lower() in _POWERS:
            power = _POWERS[word.lower()]
        elif word.isdecimal():
            pieces.append(word)
        elif word == "/":
            pieces.append("/")
        else:
            pieces.append(_name(word))
    return " ".join(pieces + ([power] if power else []))


def is_abbreviation(text: str) -> bool:
    """Whether letters directly behind a number are a unit: 5cm, but not 5k."""
    return len(text) > 1 and text in _ALIASES


def known(unit: str) -> bool:
    """Whether a canonical unit measures something, other than a noun that counts."""
    return unit.split(" ", 1)[0] in _NAMES


def _name(word: str) -> str:
    if word in _ALIASES:
        return _ALIASES[word]
    lower = word.lower()
    if len(word) > 1 and lower in _LOWER:
        return _LOWER[lower]
    if lower.endswith("s") and not lower.endswith("ss") and len(lower) > 3:
        return _LOWER.get(lower[:-1], lower[:-1])
    return lower
