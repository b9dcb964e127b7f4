"""One spelling for what is written in many: LaTeX decoration, Unicode signs, spacing."""

import re
import unicodedata

_SIGNS = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{HYPHEN}": "-",
        "\N{NON-BREAKING HYPHEN}": "-",
        "\N{MULTIPLICATION SIGN}": r"\times ",
        "\N{MIDDLE DOT}": r"\cdot ",
        "\N{DOT OPERATOR}": r"\cdot ",
        "\N{DIVISION SIGN}": r"\div ",
        "\N{FRACTION SLASH}": "/",
        "\N{DEGREE SIGN}": r"^\circ ",
        "\N{GREEK SMALL LETTER PI}": r"\pi ",
        "\N{INFINITY}": r"\infty ",
        "\N{LESS-THAN OR EQUAL TO}": r"\le ",
        "\N{GREATER-THAN OR EQUAL TO}": r"\ge ",
        "\N{NOT EQUAL TO}": r"\ne ",
        "\N{UNION}": r"\cup ",
        "\N{PLUS-MINUS SIGN}": r"\pm ",
    }
)
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺"
_FROM_SUPERSCRIPT = str.maketrans(_SUPERSCRIPTS, "0123456789-+")
_SUPERSCRIPT_RUN = re.compile(f"[{_SUPERSCRIPTS}]+")

# In this order; every pattern scans a text once.
_REPLACEMENTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\\$", r"\\dollar "),
        (r"\$|\\[()\[\]]", " "),
        (r"\\(?:left|right|displaystyle|bf|limits)(?![A-Za-z])", ""),
        (r"\{,\}|,\\!\s?", ","),
        # A thin space between groups of three digits.
        (r"(?<=[0-9])\\[,!;: ](?=[0-9]{3}(?![0-9]))", ""),
        (r"\\[!]", ""),
        (r"\\[,;: ]|~|\\q?quad(?![A-Za-z])", " "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\frac\s+(?=[0-9{])", r"\\frac"),
        (r"\\frac([0-9])\s*([0-9])", r"\\frac{\1}{\2}"),
        (r"\\frac([0-9])\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\{[^{}]*\})\s*([0-9])", r"\1{\2}"),
        (r"\\(?:text(?:bf|it|rm|normal|sf|tt)?|math(?:rm|bf|it|sf)|mbox|operatorname)\s*"
         r"\{([^{}]*)\}", r" \1 "),
        (r"\\(?:leq|leqslant)(?![A-Za-z])", r"\\le"),
        (r"\\(?:geq|geqslant)(?![A-Za-z])", r"\\ge"),
        (r"\\%|(?i:\s*\b(?:percent|per cent|pct)\b\.?)", "%"),
        (r"\^\s?\\circ(?![A-Za-z])|\^\{\s?\\circ\s?\}|\\degrees?(?![A-Za-z])", " degrees "),
        ("\N{SQUARE ROOT}" r"\s?([0-9]+|[a-z])", r"\\sqrt{\1}"),
        (r"\\sqrt\s?([0-9a-zA-Z])", r"\\sqrt{\1}"),
        (r"\s+", " "),
    ]
]  # fmt: skip


def normalise(answer: str) -> str:
    r"""An answer without decoration; what remains of LaTeX is `\frac{}{}` and named symbols.

    Example:
      >>> normalise(r"$\dfrac12\text{ metres}$.")
      '\\frac{1}{2} metres'
    """
    text = _SUPERSCRIPT_RUN.sub(lambda run: f"^{{{run[0].translate(_FROM_SUPERSCRIPT)}}}", answer)
    text = "".join(map(_vulgar_fraction, text)).translate(_SIGNS)
    text = unicodedata.normalize("NFKC", text)
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text.strip().rstrip(".,;").strip()


def text_key(normalised: str) -> str:
    """Equal for texts that say the same: no spaces, articles, braces or case in words."""
    text = re.sub(r"^(?:the|an?)\s(?=[A-Za-z]{2})", "", normalised, flags=re.IGNORECASE)
    text = re.sub(r"(?<!\\)\b[A-Za-z]{2,}", lambda word: word[0].casefold(), text)
    text = re.sub(r"([_^])\s?\{([A-Za-z0-9])\}", r"\1\2", text)
    text = "".join(text.split())
    # A choice is the same letter with and without brackets.
    match = re.fullmatch(r"\(([A-Za-z])\)", text)
    return match[1] if match else text


def _vulgar_fraction(character: str) -> str:
    if character < "\u0080" or "<fraction>" not in unicodedata.decomposition(character):
        return character
    top, _, bottom = unicodedata.normalize("NFKC", character).partition("\N{FRACTION SLASH}")
    return rf"\frac{{{top}}}{{{bottom or 1}}}"
