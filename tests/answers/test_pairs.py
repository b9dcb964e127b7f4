"""What is the same and what is not, kind by kind."""

import pytest
from pairs import GOLDS, RIGHT, WRONG

from jaxgrpo.answers import Mode, is_correct

PROSE = [
    "After all this we have $\\boxed{{{}}}$.",
    "\\[ \\boxed{{{}}} \\]",
    "First \\boxed{{17}}? No: \\fbox{{{}}}, since all else fails.",
]


@pytest.mark.parametrize(("gold", "answer"), RIGHT)
def test_the_same(gold, answer):
    for prose in PROSE:
        assert is_correct(prose.format(answer), gold)


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_not_the_same(gold, answer):
    for prose in PROSE:
        assert not is_correct(prose.format(answer), gold)


@pytest.mark.parametrize("gold", GOLDS)
def test_a_gold_is_its_own_answer_and_no_hedge_is(gold):
    assert is_correct(f"\\boxed{{{gold}}}", gold)
    assert is_correct(f"\\boxed{{{gold}}}", f"${gold}$")
    assert not is_correct(f"\\boxed{{{gold} \\text{{ or }} 77}}", gold)
    assert not is_correct(f"\\boxed{{\\text{{not }} {gold}}}", gold)
    assert not is_correct("\\boxed{}", gold)


def test_lenient_takes_six_digits_and_strict_ten():
    assert not is_correct(r"\boxed{1.4142}", r"\sqrt{2}", mode=Mode.LENIENT)
    assert is_correct(r"\boxed{1.41421}", r"\sqrt{2}", mode=Mode.LENIENT)
    assert not is_correct(r"\boxed{1.41421}", r"\sqrt{2}")
    assert is_correct(r"\boxed{1.4142135624}", r"\sqrt{2}")
    assert not is_correct(r"\boxed{1000000.0000001}", "1000000", mode=Mode.LENIENT)


DISPUTED = [
    # gold, answer, and whether the strict, the normal and the lenient reader take it.
    ("3.606", r"\sqrt{13}", (False, True, True)),
    ("28\\%", "28", (False, True, True)),
    ("28\\%", "0.28", (True, True, True)),
    ("204_5", "204", (False, True, True)),
    ("(3,4)", "x=3, y=4", (True, True, True)),
    ("x=3, y=4", "(3,4)", (False, True, True)),
    ("AB=4, CD=5", "4, 5", (False, True, True)),
    ("120", "5!", (False, True, True)),
    ("10", "1+2+3+4", (False, True, True)),
    ("2.7e9", r"2.7\times 10^9", (True, True, True)),
    (r"\infty", r"\text{infinity}", (True, True, True)),
    (r"\mathbb{R}", "all real numbers", (False, False, True)),
    (r"O(n\log n)", r"\Theta(n \log n)", (False, False, True)),
    ("B", "b", (False, False, True)),
]


@pytest.mark.parametrize(("gold", "answer", "verdicts"), DISPUTED)
def test_where_reasonable_readers_differ(gold, answer, verdicts):
    modes = (Mode.STRICT, Mode.NORMAL, Mode.LENIENT)
    assert tuple(is_correct(f"\\boxed{{{answer}}}", gold, mode=mode) for mode in modes) == verdicts


def test_only_the_lenient_reader_takes_a_sentence_that_marks_nothing():
    for text in (
        "First 3, then\nit comes to $29.00 in all.",
        "64 - 35 = **29**",
        "so $x = 29$ then",
    ):
        assert not is_correct(text, "29")
        assert is_correct(text, "29", mode=Mode.LENIENT)
    assert not is_correct("It is 28 or so.", "29", mode=Mode.LENIENT)


def test_markers_of_a_data_set_go_before_all_else():
    assert is_correct("\\boxed{3} it is.\nA: 1,200\nThat is all.", "1200", markers=["A:"])
    assert not is_correct("A: 3\nA: 4", "3", markers=["A:"])
    assert is_correct("no marker, #### 3", "3", markers=["A:"])
