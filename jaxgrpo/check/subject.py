"""The operator under examination: what it is, what it takes, and what it claims."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.core.errors import UserError, closest
from jaxgrpo.core.options import array_arguments
from jaxgrpo.core.registry import GRADIENTS, Card, Registry
from jaxgrpo.divergences import DIVERGENCES, ROW_DIVERGENCES, TOP_DIVERGENCES
from jaxgrpo.losses import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.ratios import WEIGHTS

Arrays = Mapping[str, Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of operator: its registry, and which argument is the policy being trained."""

    name: str
    registry: Registry
    arguments: tuple[str, ...]
    """Positional arrays, in the order of the signature."""
    live: str
    """The one of them that carries gradient."""
    claims: str
    """What a function claims that says nothing."""


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="loss",
            registry=LOSSES,
            arguments=("log_probs", "anchor_log_probs", "advantages"),
            live="log_probs",
            claims="policy_gradient",
        ),
        Family(
            name="penalty",
            registry=PENALTIES,
            arguments=("log_probs", "reference_log_probs"),
            live="log_probs",
            claims="reverse_kl",
        ),
        Family(
            name="row-penalty",
            registry=ROW_PENALTIES,
            arguments=("rows", "reference_rows"),
            live="rows",
            claims="reverse_kl",
        ),
        Family(
            name="divergence",
            registry=DIVERGENCES,
            arguments=("sampler_log_probs", "other_log_probs"),
            live="other_log_probs",
            claims="none",
        ),
        Family(
            name="row-divergence",
            registry=ROW_DIVERGENCES,
            arguments=("sampler_rows", "other_rows"),
            live="other_rows",
            claims="none",
        ),
        Family(
            name="top-divergence",
            registry=TOP_DIVERGENCES,
            arguments=(
                "sampler_top_log_probs",
                "other_top_log_probs",
                "sampler_log_probs",
                "other_log_probs",
            ),
            live="other_log_probs",
            claims="none",
        ),
        Family(
            name="weight",
            registry=WEIGHTS,
            arguments=("log_probs", "behaviour_log_probs"),
            live="log_probs",
            claims="none",
        ),
    )
}
# What a required option is set to where a check names none.
_REQUIRED: dict[str, dict[str, Any]] = {
    "adrpo": {"beta": 0.5},
    "trust_region": {"divergence": "kl3", "delta": 0.0231},
}
# Every array that an operator may ask for by keyword; `examples` makes them.
SUPPLIED = frozenset(
    {
        "advantages",
        "anchor_entropies",
        "behaviour_log_probs",
        "behaviour_top_log_probs",
        "entropies",
        "group_ids",
        "key",
        "off_policy",
        "reference_log_probs",
        "rewards",
        "top_log_probs",
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """An operator with its options, callable on named arrays."""

    name: str
    family: Family
    function: Callable[..., Any]
    options: Mapping[str, Any]
    needs: tuple[str, ...]
    claims: str
    card: Card | None

    @property
    def level(self) -> str | None:
        """What one value may depend on; None of a user's function, which hasn't said."""
        return self.card.level if self.card else None

    @property
    def exceptions(self) -> Mapping[str, str]:
        """Properties that the operator says it hasn't, with the reason."""
        return self.card.exceptions if self.card else {}

    def __call__(
        self, live: Float[Array, "..."], others: Arrays, where: Bool[Array, "*B T"] | None
    ) -> Float[Array, "*B T"]:
        """The operator's values; `live` is the argument that carries gradient."""
        named = {**others, self.family.live: live}
        positional = [named[name] for name in self.family.arguments]
        return self.function(*positional, where=where, **{name: named[name] for name in self.needs})

    def value_and_gradient(
        self, live: Float[Array, "..."], others: Arrays, where: Bool[Array, "*B T"]
    ) -> tuple[Float[Array, "*B T"], Float[Array, "..."]]:
        """The values, and the gradient of their sum for the live argument."""
        values, pull = jax.vjp(lambda x: self(x, others, where), live)
        return values, pull(jnp.ones_like(values))[0]

    @functools.cached_property
    def compiled(self) -> Callable[..., tuple[Array, Array]]:
        """`value_and_gradient` as one program a shape, which is sooner there than a thousand."""
        return jax.jit(self.value_and_gradient)

    def with_options(self, **options: Any) -> "Subject":
        """The same operator with other options."""
        options = {**self.options, **options}
        function = self.family.registry.bind(self.name, **options)
        return dataclasses.replace(self, options=options, function=function)


def subject(
    name: str,
    family: str | None = None,
    *,
    claims: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Subject:
    """A registered operator by name, or anybody's function as `module:function`.

    Args:
      name: of the operator.
      family: one of `FAMILIES`. None looks a name up in all of them; a user's function is a loss.
      claims: the gradient it should have, one of `jaxgrpo.core.registry.GRADIENTS`; None is what
        its card says, or for a user's function the family's usual one.
      options: keyword arguments that are no arrays.

    Raises:
      UserError: no such operator or family, an option that doesn't fit, or an array argument that
        nothing supplies.
    """
    kind = _family(name, family)
    registered = ":" not in name
    given = {**(_REQUIRED.get(name, {}) if registered else {}), **(options or {})}
    try:
        function = kind.registry.bind(name, **given)
        needs = kind.registry.needs(name)
    except (LookupError, TypeError) as error:
        raise UserError(str(error.args[0])) from error
    if not registered:
        _refuse_other_signatures(name, kind, said=family is not None)
    if unknown := sorted(set(needs) - SUPPLIED):
        raise UserError(
            f"{name}: nothing supplies the array {unknown[0]!r}{closest(unknown[0], SUPPLIED)}; "
            f"a check has {', '.join(sorted(SUPPLIED))}"
        )
    if claims is not None and claims not in GRADIENTS:
        raise UserError(f"claims must be one of {', '.join(GRADIENTS)}, got {claims!r}")
    card = kind.registry.card(name) if registered else None
    return Subject(
        name=name,
        family=kind,
        function=function,
        options=given,
        needs=needs,
        claims=claims or (card.gradient if card else kind.claims),
        card=card,
    )


def _refuse_other_signatures(name: str, kind: Family, *, said: bool) -> None:
    """A function without `where`, or one that nothing was said of and that is no loss."""
    wanted = len(kind.arguments)
    try:
        parameters = inspect.signature(kind.registry.resolve(name)).parameters.values()
    except ValueError:  # of some built-in functions nothing is known
        return
    if not any(p.name == "where" or p.kind is p.VAR_KEYWORD for p in parameters):
        raise UserError(
            f"{name} takes no `where`: every operator gets it by keyword, a bool mask like its "
            "tokens"
        )
    if said or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if sum(p.default is p.empty for p in takes) <= wanted <= len(takes):
        return
    raise UserError(
        f"{name} takes {len(takes)} arrays by position, and a loss takes {wanted}: "
        f"{', '.join(kind.arguments)}; if it is something else, say so: --as divergence, or "
        f"another of {', '.join(FAMILIES)}"
    )


def function_subject(
    function: Callable[..., Any], family: str = "loss", *, claims: str | None = None
) -> Subject:
    """As `subject`, of a function at hand."""
    kind = _family("a:function", family)
    return Subject(
        name=getattr(function, "__name__", "function"),
        family=kind,
        function=functools.partial(function),
        options={},
        needs=tuple(array_arguments(function)),
        claims=claims or kind.claims,
        card=None,
    )


def all_subjects(family: str | None = None) -> list[Subject]:
    """Every registered operator, or those of one family."""
    families = FAMILIES.values() if family is None else [_family("", family)]
    return [subject(name, kind.name) for kind in families for name in kind.registry.names()]


# Plurals, as rooms and tables call them.
_FAMILY_OF_ROOM = {
    "divergences": "divergence",
    "losses": "loss",
    "penalties": "penalty",
    "ratios": "weight",
    "weights": "weight",
}


def _family(name: str, family: str | None) -> Family:
    if family is not None:
        if family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise UserError(f"no family {family!r}{closest(family, FAMILIES)} (families: {known})")
        return FAMILIES[family]
    if ":" in name:
        return FAMILIES["loss"]
    found = [kind for kind in FAMILIES.values() if name in kind.registry.names()]
    if not found:
        if room := _FAMILY_OF_ROOM.get(name):
            raise UserError(
                f"no operator {name!r}; the family is called {room!r}: `jaxgrpo check {room}`"
            )
        known = [other for kind in FAMILIES.values() for other in kind.registry.names()]
        raise UserError(
            f"no operator {name!r}{closest(name, known)}; `jaxgrpo check --list` names them all"
        )
    return found[0]
