"""What is drawn: an operator by its name, with options, and what family it belongs to."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import yaml

from jaxgrpo.atlas.scenes import DEFAULT_ARRAYS
from jaxgrpo.core.errors import UserError, closest
from jaxgrpo.core.options import array_arguments
from jaxgrpo.core.registry import Card, Registry
from jaxgrpo.divergences import DIVERGENCES, ROW_DIVERGENCES, TOP_DIVERGENCES
from jaxgrpo.losses import LOSSES, PENALTIES

FAMILIES: Mapping[str, Registry] = MappingProxyType(
    {
        registry.family: registry
        for registry in (LOSSES, PENALTIES, DIVERGENCES, ROW_DIVERGENCES, TOP_DIVERGENCES)
    }
)

# Options that have no default, because no value is anyone's.
_CHOSEN: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "adrpo": MappingProxyType({"beta": 0.5}),
        "trust_region": MappingProxyType({"divergence": "binary_kl", "delta": 0.05}),
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """An operator with its options fixed."""

    label: str
    """As it was asked for: `atr`, or `atr,delta=0.05`, or `module:function`."""
    family: str
    """The family of its registry; a user's function is a loss, a penalty or a divergence."""
    function: Callable
    options: Mapping[str, Any]
    """Those that were given, and those that were chosen for it."""
    needs: tuple[str, ...]
    """Arrays beyond the positional ones."""
    card: Card | None
    """None of a user's function."""

    @property
    def slug(self) -> str:
        """A file name without its ending."""
        return re.sub(r"[^A-Za-z0-9._]+", "-", self.label).strip("-.")


def all_subjects() -> list[Subject]:
    """Every registered loss, penalty and divergence, with its defaults."""
    return [find_subject(name) for registry in FAMILIES.values() for name in registry.names()]


def find_subject(request: str) -> Subject:
    """The operator that `NAME[,OPTION=VALUE...]` or `module:function[,...]` asks for.

    Raises:
      UserError: no such operator or option, or an array it needs that the atlas doesn't have.

    Example:
      >>> subject = find_subject("atr,delta=0.05")
      >>> subject.family, subject.slug
      ('loss', 'atr-delta-0.05')
    """
    name, *words = request.split(",")
    registry = _registry(name)
    options: dict[str, Any] = dict(_CHOSEN.get(name, {}))
    for word in words:
        option, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{request!r}: wanted NAME,OPTION=VALUE, got {word!r} for an option")
        options[option.strip()] = _value(value, request)
    try:
        function = registry.bind(name, **options)
        needs = registry.needs(name)
    except (LookupError, TypeError) as error:
        # A LookupError's text, without the quotes that `str` puts around a KeyError's.
        raise UserError(str(error.args[0] if error.args else error)) from error
    optional = {need for need, free in array_arguments(registry.resolve(name)).items() if free}
    if missing := [need for need in needs if need not in DEFAULT_ARRAYS and need not in optional]:
        raise UserError(
            f"{name} needs {missing[0]}, which the atlas has no default for; "
            f"it has {', '.join(DEFAULT_ARRAYS)}"
        )
    return Subject(
        label=request,
        family=registry.family,
        function=function,
        options=MappingProxyType(options),
        needs=tuple(need for need in needs if need in DEFAULT_ARRAYS),
        card=None if ":" in name else registry.card(name),
    )


def _registry(name: str) -> Registry:
    if ":" in name:
        return _family_of(name)
    for registry in FAMILIES.values():
        if name in registry.names():
            return registry
    known = [known for registry in FAMILIES.values() for known in registry.names()]
    raise UserError(
        f"no loss, penalty or divergence named {name!r}{closest(name, known) or '.'} "
        f"Known: {', '.join(known)}"
    )


def _family_of(path: str) -> Registry:
    """A user's function by its positional arguments: a loss has three, the others two."""
    try:
        function = LOSSES.resolve(path)
        parameters = inspect.signature(function).parameters.values()
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(str(error.args[0] if error.args else error)) from error
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) == 3:
        return LOSSES
    if len(positional) == 2:
        return PENALTIES if "reference" in positional[1] else DIVERGENCES
    raise UserError(
        f"{path}: wanted a loss (log_probs, anchor_log_probs, advantages), a penalty (log_probs, "
        f"reference_log_probs) or a divergence of two, got {len(positional)} positional arguments"
    )


def _value(text: str, request: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{request!r}: cannot read the value {text!r}") from error
    # YAML 1.1 takes 3e-4, without a point, for a word.
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
