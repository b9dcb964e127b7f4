"""One registry a family of operators: names for configs, cards for tables, checked options."""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping

from jaxgrpo.core.errors import closest
from jaxgrpo.core.options import accepts, array_arguments, option_arguments, wanted

LEVELS = ("token", "sequence", "group", "batch")
GRADIENTS = ("policy_gradient", "reverse_kl", "forward_kl", "none")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """What is known about an operator besides its code; tables and `jaxgrpo check` read it."""

    formula: str
    """The operator in one line."""
    source: str
    """Where it comes from, in a form that can be searched: `arXiv:2402.03300, eq. 4`."""
    level: str
    """What one value depends on: a "token", a whole "sequence", a "group" of sequences, or the
    "batch": all rows of the optimiser step."""
    gradient: str
    """The objective its expected on-policy gradient belongs to; "none": of no named one."""
    defaults: str = ""
    """Default options, and who uses which."""
    disagreements: str = ""
    """Where papers and implementations differ, and what is done here."""
    needs: tuple[str, ...] = ()
    """Keyword-only array arguments beyond `where`, which the caller passes from the batch."""
    exceptions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Properties of `jaxgrpo check` that the operator by its nature hasn't, with the reasons."""

    def __post_init__(self) -> None:
        for field, allowed in (("level", LEVELS), ("gradient", GRADIENTS)):
            if (value := getattr(self, field)) not in allowed:
                raise ValueError(f"{field} must be one of {', '.join(allowed)}, got {value!r}")


class Registry:
    """The operators of one family by name, in the order in which they were registered.

    Example:
      >>> import jaxgrpo as jg
      >>> loss = jg.losses.LOSSES.bind("atr", delta=0.02)
      >>> jg.losses.LOSSES.bind("atr", detla=0.02)
      Traceback (most recent call last):
      TypeError: loss 'atr' has no option detla; did you mean 'delta'? It takes: delta
    """

    def __init__(self, family: str) -> None:
        self.family = family
        self._operators: dict[str, tuple[Callable, Card]] = {}

    def register(self, card: Card) -> Callable[[Callable], Callable]:
        """Decorator: adds the function under its own name.

        Raises:
          ValueError: the name is taken, or the card's `needs` do not fit the signature.
        """

        def add(function: Callable) -> Callable:
            name = function.__name__
            if name in self._operators:
                raise ValueError(f"{self.family} {name!r} is registered already")
            arrays = array_arguments(function)
            required = {array for array, optional in arrays.items() if not optional}
            if not required <= set(card.needs) <= set(arrays):
                raise ValueError(
                    f"{self.family} {name!r}: the card needs {list(card.needs)}, "
                    f"the signature takes the arrays {list(arrays)}"
                )
            self._operators[name] = (function, card)
            return function

        return add

    def names(self) -> tuple[str, ...]:
        """All registered names."""
        return tuple(self._operators)

    def card(self, name: str) -> Card:
        """The card of a registered operator."""
        return self._find(name)[1]

    def needs(self, name: str) -> tuple[str, ...]:
        """The batch arrays an operator takes by keyword; of a user's function, by its signature."""
        return tuple(array_arguments(self.resolve(name))) if ":" in name else self.card(name).needs

    def __getitem__(self, name: str) -> Callable:
        return self._find(name)[0]

    def resolve(self, name: str) -> Callable:
        """The operator of that name, or anyone's function written `module:function`.

        Raises:
          LookupError: no such operator, or the module or its function cannot be had.
        """
        return _imported(name, self.family) if ":" in name else self[name]

    def bind(self, name: str, **options: object) -> Callable:
        """The operator with its options fixed, each checked against the signature.

        Raises:
          LookupError: as for `resolve`.
          TypeError: an option is unknown, missing, or not of the type in the signature.
        """
        function = self.resolve(name)
        known = option_arguments(function)
        who, takes = f"{self.family} {name!r}", f"It takes: {', '.join(known) or 'none'}"
        for option, value in options.items():
            if option not in known:
                raise TypeError(f"{who} has no option {option}{_hint(option, known)} {takes}")
            if not accepts(known[option], value):
                raise TypeError(f"{who}: {option} must be {wanted(known[option])}, got {value!r}")
        for option, parameter in known.items():
            if parameter.default is parameter.empty and option not in options:
                raise TypeError(f"{who} must be given the option {option}. {takes}")
        return functools.partial(function, **options)

    def _find(self, name: str) -> tuple[Callable, Card]:
        if name in self._operators:
            return self._operators[name]
        known = ", ".join(self._operators) or "none"
        raise LookupError(
            f"no {self.family} named {name!r}{_hint(name, self._operators)} Known: {known}"
        )


def _hint(name: str, known: Iterable[str]) -> str:
    return closest(name, known) or "."


def _imported(path: str, family: str) -> Callable:
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way as it loads
        raise LookupError(
            f"{family} {path!r}: module {module_name!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        fault = "is not a function" if hasattr(module, name) else "is not in that module"
        raise LookupError(f"{family} {path!r}: {name!r} {fault}{_hint(name, vars(module))}")
    return function
