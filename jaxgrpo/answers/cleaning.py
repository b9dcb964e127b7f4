r"""One spelling for what is written in many: Unicode mathematics and LaTeX decoration.

What remains is printable text in which mathematics is LaTeX or ASCII. Characters that show
something else than they say (struck-out digits, reversed direction, control characters) make a
text unreadable instead of being dropped.
"""

import re
import unicodedata

from jaxgrpo.answers.tree import UnreadableError

_SIGNS = {
    "\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "\N{HYPHEN}": "-", "\N{NON-BREAKING HYPHEN}": "-",
    "\N{MULTIPLICATION SIGN}": r"\times ", "\N{MIDDLE DOT}": r"\cdot ",
    "\N{DOT OPERATOR}": r"\cdot ", "\N{DIVISION SIGN}": r"\div ", "\N{FRACTION SLASH}": "/",
    "\N{DIVISION SLASH}": "/", "\N{DEGREE SIGN}": r"^\circ ", "\N{INFINITY}": r"\infty ",
    "\N{LESS-THAN OR EQUAL TO}": r"\le ", "\N{GREATER-THAN OR EQUAL TO}": r"\ge ",
    "\N{LESS-THAN OR SLANTED EQUAL TO}": r"\le ", "\N{GREATER-THAN OR SLANTED EQUAL TO}": r"\ge ",
    "\N{NOT EQUAL TO}": r"\ne ", "\N{ALMOST EQUAL TO}": r"\approx ", "\N{UNION}": r"\cup ",
    "\N{INTERSECTION}": r"\cap ", "\N{ELEMENT OF}": r"\in ", "\N{EMPTY SET}": r"\emptyset ",
    "\N{PLUS-MINUS SIGN}": r"\pm ", "\N{MINUS-OR-PLUS SIGN}": r"\mp ", "\N{PRIME}": "'",
    "\N{DOUBLE-STRUCK CAPITAL R}": r"\mathbb{R}", "\N{DOUBLE-STRUCK CAPITAL Z}": r"\mathbb{Z}",
    "\N{LEFT FLOOR}": r"\lfloor ", "\N{RIGHT FLOOR}": r"\rfloor ", "\N{LEFT CEILING}": r"\lceil ",
    "\N{RIGHT CEILING}": r"\rceil ", "\N{ANGLE}": r"\angle ", "\N{SET MINUS}": r"\setminus ",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots ", "\N{FULLWIDTH COMMA}": ",",
    "\N{IDEOGRAPHIC COMMA}": ",",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'", "\N{POUND SIGN}": r"\pounds ",
    "\N{EURO SIGN}": r"\euro ",
    # Invisible and harmless: zero-width spaces and joiners, the byte order mark, invisible times.
    "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\u2062": "",
    "\u00ad": "",
}  # fmt: skip
_GREEK = {
    chr(code): "\\" + name + " "
    for code, name in [
        (code, unicodedata.name(chr(code)).removeprefix("GREEK SMALL LETTER ").lower())
        for code in range(0x3B1, 0x3CA)
        if code != 0x3C2
    ]
} | {"Δ": r"\Delta ", "Σ": r"\Sigma ", "Π": r"\Pi ", "Ω": r"\Omega ", "Θ": r"\Theta "}
_GREEK |= {"λ": r"\lambda "}  # Unicode calls it lamda.
_TABLE = str.maketrans(_SIGNS | _GREEK)

_SCRIPTS = {
    "^": (re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+"), str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")),
    "_": (re.compile("[₀₁₂₃₄₅₆₇₈₉ₙ]+"), str.maketrans("₀₁₂₃₄₅₆₇₈₉ₙ", "0123456789n")),
}
_ROOT = re.compile(r"([√∛∜])\s?(?:([0-9]+(?:\.[0-9]+)?|[A-Za-z])|(?=[({\\]))")
_ROOT_INDEX = {"√": "", "∛": "[3]", "∜": "[4]"}
_VULGAR = re.compile(r"([0-9])?([¼-¾⅐-⅞])")
# Sizes, colours, spacing and the like: nothing of them is part of an answer.
_DECORATION = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|large|Large"
    r"|small|normalsize|bf|rm|it|sf|tt|boldmath|centering)(?![A-Za-z])\s?"
    r"|\\(?:tag|label|phantom|hphantom|vphantom|hspace|vspace|color)\*?\{[^{}]*\}"
    r"|\\textcolor\{[^{}]*\}"
)
_DOLLARS = re.compile(r"(?<!\\)(?:\$|\\[()\[\]])")
_GROUPS = re.compile(
    r"(?<![0-9.,])([0-9]{1,3}(?:(?:\{,\}|,\\!\s?|\\,|\\ |\\;|\\:)[0-9]{3})+)(?![0-9])"
)


def clean(text: str) -> str:
    r"""An answer in plain LaTeX or ASCII, without decoration and dollar signs.

    Raises:
      UnreadableError: it holds characters that deceive the eye.

    Example:
      >>> clean("$\\left( 1\N{VULGAR FRACTION ONE HALF}, 2\N{SUPERSCRIPT TWO} \\right]$")
      '( 1\\frac{1}{2}, 2^{2} ]'
    """
    if not text.isascii():
        text = _from_unicode(text)
    if not text.isprintable() and any(c < " " and c not in "\n\t\r\f\v" for c in text):
        raise UnreadableError
    if "\\" in text or "{,}" in text:
        text = _DECORATION.sub("", text)
        text = _GROUPS.sub(lambda match: re.sub(r"[^0-9]", "", match[0]), text)
    if "$" in text or "\\(" in text or "\\[" in text:
        text = _DOLLARS.sub(" ", text)
    return text.strip()


def _from_unicode(text: str) -> str:
    text = _ROOT.sub(lambda m: rf"\sqrt{_ROOT_INDEX[m[1]]}" + (f"{{{m[2]}}}" if m[2] else ""), text)
    text = _VULGAR.sub(_fraction, text)
    for mark, (run, table) in _SCRIPTS.items():
        text = run.sub(lambda m, mark=mark, table=table: f"{mark}{{{m[0].translate(table)}}}", text)
    text = unicodedata.normalize("NFKC", text.translate(_TABLE))
    for character in text:
        if character > "\x7f" and unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Cs"):
            raise UnreadableError
    return text


def _fraction(match: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", match[2]).partition("\N{FRACTION SLASH}")
    return rf"{match[1] or ''}\frac{{{top}}}{{{bottom or 1}}}"
