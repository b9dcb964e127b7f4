import json
import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.core.errors import UserError
from jaxgrpo.data import SourceConfig, open_source
from jaxgrpo.data.draws import Draws

TASKS = [
    ("arithmetic", {}),
    ("arithmetic", {"operations": "+-*", "digits": 2, "min_digits": 1, "working_fraction": 0.5}),
    ("countdown", {}),
    ("countdown", {"min_numbers": 2, "max_numbers": 2, "high": 9, "operations": "+*"}),
]


def source_of(task, options, *, seed=0, split="train", size=200):
    return open_source(SourceConfig(task=task, options=options, size=size), seed=seed, split=split)


def everything(source):
    return [source[i] for i in range(len(source))]


@pytest.mark.parametrize(("task", "options"), TASKS)
def test_an_example_depends_on_seed_split_and_index_only(task, options):
    long, short = source_of(task, options), source_of(task, options, size=50)
    backwards = [long[i] for i in reversed(range(50))]
    assert everything(short) == backwards[::-1] == everything(long)[:50]
    others = [source_of(task, options, seed=1, size=50)]
    others.append(source_of(task, options, split="eval", size=4))
    for other in others:
        questions = [example.question for example in everything(other)]
        assert questions != [example.question for example in backwards[::-1][: len(questions)]]


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize(("task", "options"), TASKS)
def test_ids_and_names_say_where_an_example_stands(task, options, split):
    source = source_of(task, options, split=split, size=4)
    assert [example.id for example in everything(source)] == [0, 1, 2, 3]
    assert source[3].name == f"{task}-3"
    with pytest.raises(IndexError):
        source[4]


@pytest.mark.parametrize(
    ("task", "options", "eval_size"),
    [
        ("arithmetic", {"digits": 1}, 2),
        ("arithmetic", {"digits": 2}, 200),
        ("arithmetic", {"digits": 2, "operations": "-*"}, 200),
        ("countdown", {"min_numbers": 2, "max_numbers": 3, "high": 9}, 100),
    ],
)
def test_no_evaluation_prompt_is_a_training_prompt_for_any_seed(task, options, eval_size):
    evaluated = {
        example.question
        for seed in range(3)
        for example in everything(source_of(task, options, seed=seed, split="eval", size=eval_size))
    }
    trained = {
        example.question
        for seed in range(3)
        for example in everything(source_of(task, options, seed=seed, size=5000))
    }
    assert len(evaluated) >= eval_size
    assert not evaluated & trained


def test_swapped_operands_do_not_cross_the_split():
    options = {"digits": 1, "operations": "+"}
    evaluated = everything(source_of("arithmetic", options, split="eval", size=3))
    train = {e.question for e in everything(source_of("arithmetic", options, size=5000))}
    for example in evaluated:
        left, right = example.question[:-1].split("+")
        assert f"{right}+{left}=" not in train


@pytest.mark.parametrize(("task", "options"), TASKS)
def test_evaluation_questions_are_distinct(task, options):
    size = 4 if "high" in options else 150
    questions = [e.question for e in everything(source_of(task, options, split="eval", size=size))]
    assert len(set(questions)) == size


def test_too_many_evaluation_questions_is_a_user_error():
    with pytest.raises(UserError, match=r"wanted 64 different .* about \d+; ask for fewer"):
        source_of("arithmetic", {"digits": 1}, split="eval", size=64)


def test_a_task_without_any_problem_is_a_user_error():
    options = {"low": 99, "operations": "*", "max_target": 10}
    for split in ("train", "eval"):
        with pytest.raises(UserError, match=r"no training problem|different evaluation problems"):
            source_of("countdown", options, split=split)


def test_default_sizes():
    config = SourceConfig(task="arithmetic")
    sizes = [len(open_source(config, seed=0, split=split)) for split in ("train", "eval")]
    assert sizes == [16384, 256]


# Worked out by hand; the operands are found by searching the task for them.
@pytest.mark.parametrize(
    ("question", "worked"),
    [
        ("85+47=", "5+7=12 8+4+1=13 #### 132"),
        ("20+31=", "0+1=1 2+3=5 #### 51"),
        ("7+95=", "7+5=12 0+9+1=10 #### 102"),
        ("95+7=", "5+7=12 9+0+1=10 #### 102"),
        ("52-27=", "12-7=5 5-2-1=2 #### 25"),
        ("52-9=", "12-9=3 5-0-1=4 #### 43"),
        ("33-33=", "3-3=0 3-3=0 #### 0"),
        ("34*12=", "34*2=68 34*10=340 68+340=408 #### 408"),
        ("8*7=", "8*7=56 #### 56"),
    ],
)
def test_working_of_known_sums(question, worked):
    options = {"operations": "+-*", "digits": 2, "min_digits": 1, "working_fraction": 1}
    left, sign, right = re.fullmatch(r"(\d+)(.)(\d+)=", question).groups()
    task = source_of("arithmetic", options)
    rendered = task._render((int(left), sign, int(right)), Draws(0))
    assert (rendered.question, rendered.worked) == (question, worked)
    assert rendered.answer == worked.split()[-1]


@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from("+-*"))
@settings(max_examples=50, deadline=None)
def test_every_step_of_the_working_is_true(seed, digits, sign):
    options = {"operations": sign, "digits": digits, "working_fraction": 1.0}
    example = source_of("arithmetic", options, seed=seed, size=1)[0]
    steps, answer = example.worked.split(" #### ")
    for step in [*steps.split(), f"{example.question}{example.answer}"]:
        expression, result = step.split("=")
        numbers = [int(n) for n in re.findall(r"\d+", expression)]
        signs = re.findall(r"[-+*]", expression)
        value = numbers[0]
        for operation, number in zip(signs, numbers[1:], strict=True):
            value = {"+": value + number, "-": value - number, "*": value * number}[operation]
        assert value == int(result) >= 0, step
    assert answer == example.answer
    operands = re.findall(r"\d+", example.question)
    assert [len(operand) for operand in operands] == [digits, digits]


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_share_of_worked_examples_with_working(fraction):
    size = 4000
    source = source_of("arithmetic", {"working_fraction": fraction}, size=size)
    long = sum("=" in example.worked for example in everything(source))
    # Four standard deviations of a binomial.
    assert abs(long - fraction * size) <= 4 * (size * fraction * (1 - fraction)) ** 0.5


def test_working_leaves_the_questions_alone():
    none, all_ = (source_of("arithmetic", {"working_fraction": f}) for f in (0.0, 1.0))
    assert [e.question for e in everything(none)] == [e.question for e in everything(all_)]


@pytest.mark.parametrize("options", [{}, {"min_numbers": 2, "max_numbers": 6, "high": 12}])
def test_countdown_answers_reach_the_target_with_every_number(options):
    for example in everything(source_of("countdown", options)):
        numbers, target = json.loads(example.fields["numbers"]), int(example.fields["target"])
        listed = ", ".join(map(str, numbers))
        assert example.question == (
            f"Using each of the numbers {listed} exactly once, write an expression with "
            f"+, -, * and / that equals {target}."
        )
        assert sorted(map(int, re.findall(r"\d+", example.answer))) == sorted(numbers)
        # The text is the task's own, made of digits, signs and brackets.
        assert re.fullmatch(r"[\d+\-*/() ]+", example.answer)
        exact = re.sub(r"(\d+)", r"Fraction(\1)", example.answer)
        assert eval(exact, {"Fraction": Fraction}) == target
        assert 1 <= target <= 999
        assert example.worked == f"#### {example.answer}"


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("arithmatic", {}, r"did you mean 'arithmetic'"),
        ("arithmetic", {"digit": 3}, r"no option 'digit'; did you mean 'digits'\? It takes: oper"),
        ("arithmetic", {"seed": 3}, r"no option 'seed'"),
        ("arithmetic", {"digits": 0}, r"digits must be an integer in \[1, 100\], got 0"),
        ("arithmetic", {"digits": True}, r"digits must be an integer"),
        ("arithmetic", {"digits": 2, "min_digits": 3}, r"min_digits must be"),
        ("arithmetic", {"operations": "+/"}, r"operations must be signs out of"),
        ("arithmetic", {"operations": ""}, r"operations must be signs out of"),
        ("arithmetic", {"working_fraction": 1.5}, r"working_fraction must be in \[0, 1\]"),
        ("countdown", {"min_numbers": 5}, r"min_numbers must be an integer in \[2, 4\]"),
        ("no.such.module:Task", {}, r"ModuleNotFoundError"),
        ("jaxgrpo.data.tasks:Nothing", {}, r"AttributeError"),
        ("jaxgrpo.data.tasks:_GIVEN", {}, r"not callable"),
        ("builtins:dict", {}, r"no signature found"),
    ],
)
def test_bad_tasks_and_options_are_user_errors(task, options, message):
    with pytest.raises(UserError, match=message):
        source_of(task, options)


def test_a_users_module_that_exits_is_a_user_error(tmp_path, monkeypatch):
    (tmp_path / "task_that_exits.py").write_text("raise SystemExit(4)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="'task_that_exits:Task': SystemExit: 4"):
        source_of("task_that_exits:Task", {})


def test_a_users_task_is_called_with_its_options():
    source = source_of("jaxgrpo.data.arithmetic:Arithmetic", {"digits": 5}, size=3)
    assert everything(source) == everything(source_of("arithmetic", {"digits": 5}, size=3))


def test_draws_are_fixed_for_all_time():
    # Changing these would change every procedural data set: recorded runs could not be repeated.
    assert [Draws(0, "a").below(1000) for _ in range(2)] == [Draws(0, "a").below(1000)] * 2
    draws = Draws(7, "train", 3)
    assert [draws.below(10) for _ in range(4)] == [0, 8, 0, 3]


@given(st.integers(), st.integers(-5, 5), st.integers(0, 50))
def test_draws_stay_in_range(key, low, width):
    draws = Draws(key)
    assert all(low <= draws.between(low, low + width) <= low + width for _ in range(20))
    assert all(0 <= draws.unit() < 1 for _ in range(20))


def test_draws_are_even():
    draws = Draws("even")
    counts = [0] * 7
    for _ in range(7000):
        counts[draws.below(7)] += 1
    assert all(abs(count - 1000) < 5 * 30 for count in counts)
