"""`python -m jaxgrpo.cli.operators`: the table of all operators, made from their cards."""

from collections.abc import Iterator

from jaxgrpo.advantages import ADVANTAGE_TRANSFORMS, ADVANTAGES, REWARD_TRANSFORMS
from jaxgrpo.aggregation import AGGREGATIONS
from jaxgrpo.core.registry import Registry
from jaxgrpo.divergences import DIVERGENCES
from jaxgrpo.losses import LOSSES, PENALTIES, ROW_PENALTIES
from jaxgrpo.ratios import WEIGHTS

FAMILIES: dict[str, Registry] = {
    "divergences": DIVERGENCES,
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


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


if __name__ == "__main__":
    print("\n".join(rows()))
