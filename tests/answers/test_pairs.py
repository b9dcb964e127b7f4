"""What is the same and what is not, kind by kind."""

import pytest
from pairs import GOLDS, RIGHT, WRONG

from jaxgrpo.answers import is_correct

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
    assert not is_correct(r"\boxed{1.4142}", r"\sqrt{2}", lenient=True)
    assert is_correct(r"\boxed{1.41421}", r"\sqrt{2}", lenient=True)
    assert not is_correct(r"\boxed{1.41421}", r"\sqrt{2}")
    assert is_correct(r"\boxed{1.4142135624}", r"\sqrt{2}")
    assert not is_correct(r"\boxed{1000000.0000001}", "1000000", lenient=True)


def test_markers_of_a_data_set_go_before_all_else():
    assert is_correct("\\boxed{3} it is.\nA: 1,200\nThat is all.", "1200", markers=["A:"])
    assert not is_correct("A: 3\nA: 4", "3", markers=["A:"])
    assert is_correct("no marker, #### 3", "3", markers=["A:"])
