from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.answers import evaluate
from jaxgrpo.answers.expressions import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", Fraction(7)),
        ("(1 + 2) * 3", Fraction(9)),
        ("8 - 4 - 2", Fraction(2)),
        ("8 / 4 / 2", Fraction(1)),
        ("1/3 + 1/6", Fraction(1, 2)),
        ("-3 + -(-4)", Fraction(1)),
        ("2 * -3", Fraction(-6)),
        ("0.1 + .2", Fraction(3, 10)),
        ("1.5e3", Fraction(1500)),
        ("((7))", Fraction(7)),
        ("12*(96-25)-33", Fraction(819)),
    ],
)
def test_exact_values(text, value):
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 +", "* 2", "(1", "1)", "()", "2(3)", "1 2", "2 ** 3", "2 ^ 3", "1 // 2", "1/0",
        "1/(2-2)", "x", "1 + x", "1,000", "__import__('os')", "1e99999", "9" * 3000, "(" * 400,
        "-" * 900 + "1", "(" * 60 + "1" + ")" * 60, "\N{ARABIC-INDIC DIGIT ONE}",
        "1e400*" * 90 + "1",
    ],
)  # fmt: skip
def test_everything_else_is_none(text):
    assert evaluate(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2^10", Fraction(1024)),
        ("2^3^2", Fraction(512)),
        ("2^-2", Fraction(1, 4)),
        ("-2^2", Fraction(-4)),
        ("2*3^2", Fraction(18)),
        ("2^(1+1)", Fraction(4)),
        ("0^0", None),
        ("0^-1", None),
        ("4^0.5", None),
        ("9^9^9^9", None),
        ("10^100000000", None),
        ("(10^1000)^9", None),
    ],
)
def test_powers_when_asked(text, value):
    expression = parse(text, powers=True)
    assert (None if expression is None else expression.value) == value


def test_the_numbers_used_are_listed():
    expression = parse("(3 + 25) * 3 / 1")
    assert expression.integers == (3, 25, 3, 1)
    assert expression.only_integers
    decimal = parse("2.5 * 2 - 5e0")
    assert decimal.integers == (2,)
    assert not decimal.only_integers


def trees():
    """Pairs of an expression's text and its value, built together."""
    leaf = st.integers(0, 99).map(lambda n: (str(n), Fraction(n)))

    def join(children):
        operation, (left, a), (right, b) = children
        value = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b}[operation]()
        return f"({left} {operation} {right})", value

    return st.recursive(
        leaf, lambda t: st.tuples(st.sampled_from("+-*"), t, t).map(join), max_leaves=12
    )


@given(trees())
def test_random_expressions(tree):
    text, value = tree
    assert evaluate(text) == value


@given(st.text(alphabet="0123456789+-*/().^e ", max_size=60))
def test_any_text_gives_a_fraction_or_none(text):
    assert evaluate(text) is None or isinstance(evaluate(text), Fraction)
