import subprocess
import sys
import types
from collections.abc import Callable
from typing import Literal

import pytest

from jaxgrpo.core.options import array_arguments, option_arguments
from jaxgrpo.core.registry import Card, Registry


def card(**fields):
    return Card(**{"formula": "x", "source": "s", "level": "token", "gradient": "none", **fields})


@pytest.fixture
def registry():
    registry = Registry("loss")

    @registry.register(card())
    def atr(log_probs, anchor, *, where=None, delta: float = 0.02, steps: int = 1):
        return delta, steps

    @registry.register(card())
    def plain(log_probs, *, where=None):
        return log_probs

    @registry.register(card())
    def choosy(
        log_probs,
        *,
        where=None,
        kind: Literal["fkl", "rkl"],
        cap: float | None = None,
        wide: bool = False,
        divergence: str | Callable = "kl3",
    ):
        return kind, cap, wide, divergence

    @registry.register(card(needs=("group_ids",)))
    def grouped(log_probs, *, group_ids, row_weights=None, where=None):
        return group_ids

    return registry


@pytest.fixture
def module(monkeypatch):
    module = types.ModuleType("someones_operators")
    module.mine = lambda log_probs, *, where=None, beta=1: beta
    module.number = 3

    def wants_arrays(log_probs, *, where=None, entropy, beta: float = 1.0): ...

    module.wants_arrays = wants_arrays
    monkeypatch.setitem(sys.modules, "someones_operators", module)
    return module


def test_names_keep_their_order_and_functions_stay_what_they_are(registry):
    assert registry.names() == ("atr", "plain", "choosy", "grouped")
    assert registry["plain"](7) == 7
    assert registry.card("plain").level == "token"


def test_a_second_registration_raises(registry):
    def atr(log_probs, *, where=None): ...

    with pytest.raises(ValueError, match="loss 'atr' is registered already"):
        registry.register(card())(atr)


@pytest.mark.parametrize("needs", [(), ("group_ids", "entropy")])
def test_a_card_must_need_what_the_signature_takes(needs):
    def loss(log_probs, *, where=None, group_ids): ...

    with pytest.raises(ValueError, match="the signature takes the arrays"):
        Registry("loss").register(card(needs=needs))(loss)


def test_a_card_may_say_that_it_needs_the_whole_step():
    assert card(level="batch").level == "batch"


def test_options_of_an_inner_operator_are_a_mapping(registry):
    @registry.register(card())
    def wrapper(log_probs, *, where=None, base: str = "atr", base_options: dict | None = None):
        return base, base_options

    assert registry.bind("wrapper", base_options={"delta": 0.1})(None) == ("atr", {"delta": 0.1})
    with pytest.raises(TypeError, match="base_options must be dict"):
        registry.bind("wrapper", base_options=[1])


@pytest.mark.parametrize("fields", [{"level": "word"}, {"gradient": "up"}])
def test_a_card_admits_known_levels_and_gradients_only(fields):
    with pytest.raises(ValueError, match="must be one of"):
        card(**fields)


def test_an_unknown_name_lists_the_known_and_the_closest(registry):
    with pytest.raises(LookupError) as caught:
        registry["art"]
    assert str(caught.value) == (
        "no loss named 'art'; did you mean 'atr'? Known: atr, plain, choosy, grouped"
    )


def test_an_unknown_name_without_a_neighbour_has_no_suggestion(registry):
    with pytest.raises(LookupError, match=r"^no loss named 'zzz'\. Known: atr"):
        registry.card("zzz")


def test_bind_fixes_options(registry):
    assert registry.bind("atr", delta=0.5, steps=3)(None, None) == (0.5, 3)
    assert registry.bind("atr", delta=1)(None, None) == (1, 1)


def test_bind_refuses_an_unknown_option(registry):
    with pytest.raises(TypeError) as caught:
        registry.bind("atr", detla=0.1)
    assert str(caught.value) == (
        "loss 'atr' has no option detla; did you mean 'delta'? It takes: delta, steps"
    )
    with pytest.raises(TypeError, match=r"'plain' has no option alpha\. It takes: none"):
        registry.bind("plain", alpha=0.1)


@pytest.mark.parametrize("name", ["where", "row_weights", "group_ids", "log_probs"])
def test_arrays_are_not_options(registry, name):
    with pytest.raises(TypeError, match="has no option"):
        registry.bind("grouped", **{name: 1.0})


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("atr", {"delta": "0.1"}, "float"),
        ("atr", {"delta": True}, "float"),
        ("atr", {"delta": None}, "float"),
        ("atr", {"steps": 1.5}, "int"),
        ("choosy", {"kind": "xkl"}, "Literal"),
        ("choosy", {"kind": "fkl", "cap": "inf"}, "float | None"),
        ("choosy", {"kind": "fkl", "wide": 1}, "bool"),
        ("choosy", {"kind": "fkl", "divergence": 1}, "str | Callable"),
    ],
)
def test_bind_refuses_a_wrong_type(registry, name, options, wanted):
    with pytest.raises(TypeError, match="must be") as caught:
        registry.bind(name, **options)
    assert wanted in str(caught.value).replace("collections.abc.", "")


def test_bind_takes_every_type_a_signature_allows(registry):
    bound = registry.bind("choosy", kind="rkl", cap=None, wide=True, divergence=max)
    assert bound(None) == ("rkl", None, True, max)


def test_bind_asks_for_an_option_without_default(registry):
    with pytest.raises(TypeError, match="'choosy' must be given the option kind"):
        registry.bind("choosy")


def test_a_function_of_ones_own_needs_no_registration(registry, module):
    assert registry.resolve("someones_operators:mine") is module.mine
    assert registry.bind("someones_operators:mine", beta=0.5)(None) == 0.5
    assert registry.needs("someones_operators:mine") == ()
    assert registry.needs("someones_operators:wants_arrays") == ("entropy",)
    with pytest.raises(TypeError, match="has no option beat; did you mean 'beta'"):
        registry.bind("someones_operators:mine", beat=0.5)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module_here:f", "module 'no_such_module_here' cannot be imported"),
        ("someones_operators:mime", "'mime' is not in that module; did you mean 'mine'"),
        ("someones_operators:number", "'number' is not a function"),
    ],
)
def test_a_path_that_fails_names_what_failed(registry, module, path, message):
    with pytest.raises(LookupError, match=message):
        registry.resolve(path)


def test_a_module_that_breaks_while_loading_is_a_lookup_error(registry, tmp_path, monkeypatch):
    (tmp_path / "broken_operator.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LookupError, match="ZeroDivisionError: division by zero"):
        registry.resolve("broken_operator:f")


def test_needs_come_from_the_card(registry):
    assert registry.needs("grouped") == ("group_ids",)
    assert registry.needs("atr") == ()


def test_string_annotations_are_read_too():
    namespace = {}
    exec(
        "from __future__ import annotations\n"
        "def f(x, *, where=None, delta: float, ids: Missing, cap: Missing = 2.0): ...",
        namespace,
    )
    # One name that cannot be resolved leaves the defaults to decide for all.
    assert list(option_arguments(namespace["f"])) == ["cap"]
    namespace["Missing"] = float
    assert list(option_arguments(namespace["f"])) == ["delta", "ids", "cap"]
    assert array_arguments(namespace["f"]) == {}


def test_the_registry_does_not_load_jax():
    code = "import sys, jaxgrpo.core.registry; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
