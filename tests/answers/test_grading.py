import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.answers import Outcome, grade, is_correct

RIGHT = [
    ("42", "42"), ("42", "042"), ("42", "42.0"), ("-5", "\N{MINUS SIGN}5"), ("0.5", ".5"),
    ("0.5", r"\frac{1}{2}"), (r"\frac12", "0.5"), (r"\dfrac{3}{4}", "6/8"),
    ("1/3", r"\tfrac{1}{3}"),
    ("2.5", r"2\frac{1}{2}"), ("-3.5", r"-3 \frac{1}{2}"), ("5/4", "1 1/4"), ("1.5", "1½"),
    ("1234567", "1,234,567"), ("1234.5", "1{,}234.5"), (r"10,\!080", "10080"),
    ("10080", r"10\,080"),
    ("2700000000", r"2.7 \times 10^{9}"), ("1500", "1.5e3"), ("3000000", "3 million"), ("25", "5²"),
    (r"28\%", "0.28"), (r"28\%", "28 percent"), ("0.335", r"33.5\%"), ("50", r"\$50"),
    (r"\$18.90", "18.9"), (r"15\mbox{ cm}^2", "15"), ("125 miles", "125"), ("15 m", "15 meters"),
    ("90", r"90^\circ"), (r"90^\circ", "90 degrees"), ("x=5", "5"), ("5", "x = 5"), ("2=x", "x=2"),
    ("12", r"\text{12}"), ("12", r"\mathbf{12}"), ("2", "1+1"), ("1/2", r"\frac{1}{1+1}"),
    ("3, 5, 7", "7, 3, 5"), (r"\{1,2\}", "2, 1"), ("6 and 8", "8, 6"), ("(1,2)", "(1, 2)"),
    ("(1,2), (2,1)", "(2,1),(1,2)"), ("[0,1)", "[0, 1)"), (r"x \in [-2,7]", "[-2, 7]"),
    (r"\text{even}", "Even"), (r"\text{ellipse}", "an ellipse"), (r"\text{(B)}", "B"), ("C", "(C)"),
    (r"\sqrt{2}", r"\sqrt2"), (r"\sqrt{13}", "√13"), ("y = 2x + 3", "2x+3"), ("x^2", "x^{2}"),
    ("2^{100}", "1267650600228229401496703205376"), (r"2^{99999}", r"2^{99999}"),
]  # fmt: skip

WRONG = [
    ("42", "43"), ("2", "-2"), ("113", "13"), ("49", "149"), ("1/3", "0.33"), ("1/3", "0.3333333"),
    (r"\pi", "3.14"), ("5", "5 or 6"), ("5", "5, 6, 7"), ("5", "5 and 6"), ("7", "n"), ("7", "?"),
    ("5", "5x"), ("5", "x > 5"), ("5", "not 5"), ("0.28", "28"), ("28", "2800"), ("348", "32,348"),
    (r"10,\!080", "(10, 80)"), ("1", r"2\frac{1}{2}"), ("8/3", "2/3"), ("100", "10 units"),
    (r"15\mbox{ cm}^2", "15^2"), ("225", r"15\text{ cm}^2"), (r"90^\circ", "90 radians"),
    (r"5.4 \text{ cents}", r"\$5.40"), ("3 million", "3"), ("x=5", "y=5"), ("5", "5=x+1"),
    ("7 = 11a+c", "11a+c"), ("(1,2)", "(2,1)"), ("[0,1)", "[0,1]"), ("(0,1)", "[0,1]"),
    ("3, 5, 7", "3, 5"), ("1,1,2", "1,2,2"), ("3, 5", "3, 5, 7"), ("even", "odd"),
    ("even", "not even"),
    ("east", "southeast"), ("B", "ABCD"), ("A", "A, B, C, D"), ("2", r"\frac{2}{}"), ("2", "2^"),
    ("2", "2)("), ("52_8", "528"), ("2516_8", "2516_{10}"), ("3^{2025}", "2^{2025}"),
    (r"2^{99999}", r"2^{99998}"), ("25", "52"), ("210", "2¹⁰"), ("11/2", "1½"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_right_answers(gold, answer):
    assert is_correct(rf"Therefore we get $\boxed{{{answer}}}$.", gold)
    assert is_correct(f"Some work.\n#### {answer}", gold)


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_wrong_answers(gold, answer):
    assert not is_correct(rf"Therefore we get $\boxed{{{answer}}}$.", gold)
    assert not is_correct(f"Some work.\n#### {answer}", gold)


@pytest.mark.parametrize("gold", [gold for gold, _ in RIGHT])
def test_a_gold_answer_is_right_by_itself(gold):
    assert is_correct(gold, gold)
    assert is_correct(rf"\boxed{{{gold}}}", gold)


@pytest.mark.parametrize(
    ("completion", "gold", "outcome", "extracted"),
    [
        (r"\boxed{5}", "5", Outcome.RIGHT, "5"),
        (r"\boxed{6}", "5", Outcome.WRONG, "6"),
        (r"\boxed{x^2}", "5", Outcome.WRONG, "x^2"),
        (r"\boxed{x^}", "5", Outcome.UNPARSEABLE_ANSWER, "x^"),
        (r"\boxed{}", "5", Outcome.NO_ANSWER, None),
        ("", "5", Outcome.NO_ANSWER, None),
        ("5 apples and 6 pears make 11.", "11", Outcome.NO_ANSWER, None),
        (r"\boxed{5}", "", Outcome.UNPARSEABLE_GOLD, None),
        (r"\boxed{5}", "$ $", Outcome.UNPARSEABLE_GOLD, None),
        (r"\boxed{}", "", Outcome.UNPARSEABLE_GOLD, None),
        (r"\boxed{" + "1" * 5000 + "}", "5", Outcome.UNPARSEABLE_ANSWER, None),
        ("word " * 2000, "5", Outcome.NO_ANSWER, None),
    ],
)
def test_the_outcome_says_what_happened(completion, gold, outcome, extracted):
    verdict = grade(completion, gold)
    assert (verdict.outcome, verdict.extracted) == (outcome, extracted)
    assert verdict.correct == (outcome is Outcome.RIGHT)
    assert 0 <= verdict.seconds < 1


PIECES = [
    r"\boxed{", "}", "{", r"\frac", "1", "23", ".", ",", " ", "(", ")", "[", r"\{", "^", "_",
    "=", "+",
    "-", "*", "/", "e", "%", r"\%", "$", r"\$", r"\text{cm}", r"\sqrt", r"\in ", " and ", "x", "½",
    "²", "√", "\n", "####", "answer is", "\ud800", "\x00", "\N{FULLWIDTH DIGIT ONE}", r"\left",
    "\\",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(),
)
@settings(max_examples=400, deadline=None)
def test_no_text_raises(completion, gold):
    assert is_correct(completion, gold) in (True, False)
    assert is_correct(rf"\boxed{{{completion}}}", gold) in (True, False)


BOMBS = [
    "10^{10^{10}}", "9^{9^{9^9}}", "10**10**10", "1000000!", "(" * 900, "1/" * 450 + "1",
    r"\frac" * 180,
    r"\frac{1}{" * 90 + "1" + "}" * 90, "(" * 400 + "1" + ")" * 400, "-" * 990, "1," * 490,
    "{" * 990,
    "(9^9)^" * 120 + "9", "1e9999", "9" * 990, "9" * 990 + "^9", " " * 900 + "percent", "1 " * 490,
    "1/99999999" + "+1/99999999" * 80, "1.5e3" * 180, r"\text{" * 160, "a, and " * 140,
]  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_no_text_takes_long(bomb):
    start = time.process_time()
    assert not is_correct(bomb, "7")
    assert not is_correct(rf"\boxed{{{bomb}}}", "7")
    is_correct(bomb, bomb)
    assert time.process_time() - start < 0.5


def test_text_is_never_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in ("__import__('os').mkdir('canary')", "open('canary', 'w')", "7#"):
        assert not is_correct(rf"\boxed{{{code}}}", "7")
        is_correct(code, code)
    assert list(tmp_path.iterdir()) == []
