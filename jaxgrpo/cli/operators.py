"""`python -m jaxgrpo.cli.operators`: the table of all operators, made from their cards."""

from collections.abc import Callable, Iterator

from jaxgrpo.advantages import ADVANTAGE_TRANSFORMS, ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.aggregation import AGGREGATIONS
from jaxgrpo.core.options import option_arguments
from jaxgrpo.core.registry import Registry
from jaxgrpo.divergences import DIVERGENCES, ROW_DIVERGENCES, TOP_DIVERGENCES
from jaxgrpo.losses import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.ratios import WEIGHTS

FAMILIES: dict[str, Registry] = {
    "divergences": DIVERGENCES,
    "divergences (rows)": ROW_DIVERGENCES,
    "divergences (top K)": TOP_DIVERGENCES,
    "losses": LOSSES,
    "losses (penalty)": PENALTIES,
    "losses (row penalty)": ROW_PENALTIES,
    "ratios (weight)": WEIGHTS,
    "advantages": ADVANTAGES,
    "advantages (reward transform)": REWARD_TRANSFORMS,
    "advantages (transform)": ADVANTAGE_TRANSFORMS,
    "aggregation": AGGREGATIONS,
}


def rows() -> Iterator[str]:
    """The Markdown table, line by line."""
    yield "| room | name | formula | source |"
    yield "|---|---|---|---|"
    for room, registry in FAMILIES.items():
        for name in registry.names():
            card = registry.card(name)
            cells = (room, f"`{name}`", _cell(card.formula), _cell(card.source))
            yield f"| {' | '.join(cells)} |"


def listing() -> Iterator[str]:
    """Every operator and all that its card says, as text to read in a terminal."""
    for room, registry in FAMILIES.items():
        yield f"{room}"
        for name in registry.names():
            card = registry.card(name)
            yield f"  {name}: {card.formula}"
            claim = "no gradient claimed" if card.gradient == "none" else f"claims {card.gradient}"
            yield f"      {card.level} level, {claim}; {card.source}"
            facts = {
                "options": _options(registry[name]),
                "needs": ", ".join(card.needs),
                "defaults": card.defaults,
                "differs": card.disagreements,
                **{f"except {key!r}": reason for key, reason in card.exceptions.items()},
            }
            yield from (f"      {key}: {fact}" for key, fact in facts.items() if fact)


def _options(operator: Callable) -> str:
    known = option_arguments(operator).values()
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in known)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


if __name__ == "__main__":
    print("\n".join(rows()))
