import time

import pytest

from jaxgrpo.answers import final_answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"so $\boxed{42}$.", "42"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} and then \boxed{2}", "2"),
        (r"\boxed{1} and then \fbox{2}", "2"),
        (r"\boxed{x = \boxed{3}}", "3"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed {7}", "7"),
        (r"\boxed{}", ""),
        (r"}} \boxed{5} {{", "5"),
        (r"{\boxed{5}", "5"),
        ("#### 1\nthen #### 2\nmore", "2"),
        (r"#### 1, rather \boxed{2}", "2"),
        ("####: 55", "55"),
        ("The answer is 3. No, the answer is 4.", "4"),
        ("Final Answer: 12\nThat was it.", "12"),
        ("**Answer:** 12", "12"),
        ("The answer is 3.5 because it is.", "3.5"),
        ("The answer is 12, since 3*4=12.", "12"),
        ("the answer is\n\n$42$", "$42$"),
        ("<answer> 7 </answer> is my answer.", "7"),
        ("<answer>6</answer><answer>7</answer>", "7"),
        ("<answer>7", "<answer>7"),
        (" 17 \n", "17"),
        ("There is no number called out: 17", "There is no number called out: 17"),
    ],
)
def test_final_answer(completion, answer):
    assert final_answer(completion).text == answer


def test_only_bare_text_is_unmarked():
    marked = [r"\boxed{1}", "#### 1", "the answer is 1", "<answer>1</answer>", "1"]
    assert [final_answer(text).marked for text in marked] == [True] * 4 + [False]


@pytest.mark.parametrize(
    "piece",
    [
        r"\boxed{",
        "}",
        "{",
        "####",
        "answer is ",
        "answer ",
        "<answer>",
        " ",
        "\n",
        ". ",
        "\\",
        "$$",
    ],
)
def test_time_is_linear_in_the_length(piece):
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    final_answer(text)
    # A quadratic scan of a million characters takes minutes.
    assert time.process_time() - start < 2.0
