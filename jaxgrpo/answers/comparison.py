"""Whether two answers are the same, structure by structure."""

import collections
import dataclasses
from collections.abc import Hashable, Sequence
from fractions import Fraction

from jaxgrpo.answers import realsets
from jaxgrpo.answers.building import added, negated
from jaxgrpo.answers.equality import same_value
from jaxgrpo.answers.exact import key
from jaxgrpo.answers.mode import Mode
from jaxgrpo.answers.settling import MAX_ITEMS, SCALAR, differ, labelled, point, relabelled, settled
from jaxgrpo.answers.tree import (
    Based,
    Bracketed,
    Call,
    Combined,
    Listing,
    Matrix,
    Measured,
    Node,
    Number,
    Power,
    Product,
    Ratio,
    Relation,
    Sum,
    Symbol,
    contains,
    symbols,
)

_MAX_UNLIKE = 40
_MIRRORED = {
    r"\lt": r"\gt", r"\gt": r"\lt", r"\le": r"\ge", r"\ge": r"\le", "=": "=", r"\ne": r"\ne",
}  # fmt: skip


def same(answer: Node, gold: Node, *, mode: Mode = Mode.NORMAL) -> bool:
    """Whether an answer is the gold one.

    Lists and sets are compared without order, tuples and intervals in theirs and with their
    brackets. A name before an equals sign may be missing on either side but not differ. Units may
    be missing but not differ.
    """
    answer, gold = settled(answer), settled(gold)
    if mode is Mode.STRICT and isinstance(gold, Number) and contains(answer, (Sum, Call)):
        # Arithmetic that is left to the reader.
        return False
    if key(answer) == key(gold):
        return True
    (answer_label, answer), (gold_label, gold) = labelled(answer), labelled(gold)
    if answer_label is not None and gold_label is not None and differ(answer_label, gold_label):
        whole = (relabelled(answer_label, answer), relabelled(gold_label, gold))
        return _same_relation(*whole)
    if _same(answer, gold, mode):
        return True
    if gold_label is not None and isinstance(answer, Relation):
        return _same_relation(answer, relabelled(gold_label, gold))
    if answer_label is not None and isinstance(gold, Relation):
        return _same_relation(relabelled(answer_label, answer), gold)
    return False


def _same(answer: Node, gold: Node, mode: Mode) -> bool:
    answer, gold = _unbraced_pair(answer, gold)
    match answer, gold:
        case Measured(), _:
            return _same_measure(answer, gold, mode)
        case _, Measured():
            return _same_measure(answer, gold, mode)
        case Ratio(), Ratio():
            return _same_ratio(answer, gold, mode)
        case Based(digits, base), Based(gold_digits, gold_base):
            return base == gold_base and digits.lstrip("0") == gold_digits.lstrip("0")
        case Based(), Number():
            return False
        case Number(value, None), Based(digits):
            # The question fixes the base.
            return mode is not Mode.STRICT and str(value) == digits
        case Matrix(kind, rows), Matrix(gold_kind, gold_rows):
            return kind == gold_kind and _same_rows(rows, gold_rows, mode)
        case Bracketed(opening, closing, items), Bracketed(gold_opening, gold_closing, gold_items):
            if (opening, closing) == (gold_opening, gold_closing):
                return _in_order(items, gold_items, mode)
            return False
        case (Bracketed(), Listing()) | (Listing(), Bracketed()):
            answer_point, gold_point = point(answer), point(gold)
            named = mode is not Mode.STRICT or isinstance(answer, Listing)
            if named and answer_point is not None and gold_point is not None:
                return _in_order(answer_point, gold_point, mode)
        case Listing(items), Listing(gold_items):
            if _in_any_order(items, gold_items, mode):
                return True
        case Combined(operator, parts), Combined(gold_operator, gold_parts):
            if operator == gold_operator == "cup" and _in_any_order(parts, gold_parts, mode):
                return True
        case Relation(), Relation():
            if _same_relation(answer, gold):
                return True
    if isinstance(answer, SCALAR) and isinstance(gold, SCALAR):
        return same_value(answer, gold, mode=mode)
    return _same_set(answer, gold)


def _same_set(answer: Node, gold: Node) -> bool:
    """As sets of real numbers: unions, differences, and inequalities in one unknown.

    An interval or union may be written as an inequality and the other way round, but a listing
    is not an interval.
    """
    pair = (answer, gold)
    if not any(isinstance(node, Symbol) or contains(node, (Combined, Relation)) for node in pair):
        return False
    left, right = realsets.real_set(answer), realsets.real_set(gold)
    return left is not None and right is not None and realsets.equal(left, right)


def _unbraced_pair(answer: Node, gold: Node) -> tuple[Node, Node]:
    """A set of one is its element where the other side is no set."""
    if isinstance(answer, Listing) and isinstance(gold, Listing):
        return answer, gold
    return _only(answer), _only(gold)


def _only(node: Node) -> Node:
    return node.items[0] if isinstance(node, Listing) and len(node.items) == 1 else node


# -- structures ----------------------------------------------------------------------------------


def _in_order(answer: Sequence[Node], gold: Sequence[Node], mode: Mode) -> bool:
    return len(answer) == len(gold) and all(
        same(left, right, mode=mode) for left, right in zip(answer, gold, strict=True)
    )


def _in_any_order(answer: Sequence[Node], gold: Sequence[Node], mode: Mode) -> bool:
    if len(answer) != len(gold) or len(gold) > MAX_ITEMS:
        return False
    left, wanted = _unlike(answer, gold)
    if len(wanted) > _MAX_UNLIKE:
        return False
    named = all(labelled(item)[0] is not None for item in gold)
    for item in wanted:
        for place, candidate in enumerate(left):
            # Values may not swap their names.
            named_too = labelled(candidate)[0] is not None or mode is Mode.STRICT
            if named and named_too and not _same_label(candidate, item):
                continue
            if same(candidate, item, mode=mode):
                del left[place]
                break
        else:
            return False
    return True


def _unlike(answer: Sequence[Node], gold: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Both without the items that are written alike: comparing every two of many takes long."""
    counts = collections.Counter(map(key, answer))
    counts.subtract(map(key, gold))
    spare = {name: count for name, count in counts.items() if count > 0}
    short = {name: -count for name, count in counts.items() if count < 0}
    return _taken(answer, spare), _taken(gold, short)


def _taken(items: Sequence[Node], wanted: dict[Hashable, int]) -> list[Node]:
    taken: list[Node] = []
    for item in items:
        if wanted.get(key(item), 0) > 0:
            wanted[key(item)] -= 1
            taken.append(item)
    return taken


def _same_label(answer: Node, gold: Node) -> bool:
    left, right = labelled(answer)[0], labelled(gold)[0]
    return left is not None and right is not None and key(left) == key(right)


def _same_rows(
    answer: Sequence[Sequence[Node]], gold: Sequence[Sequence[Node]], mode: Mode
) -> bool:
    return len(answer) == len(gold) and all(
        _in_order(left, right, mode) for left, right in zip(answer, gold, strict=True)
    )


def _same_ratio(answer: Ratio, gold: Ratio, mode: Mode) -> bool:
    if _in_order(answer.parts, gold.parts, mode):
        return True
    if answer.clock or gold.clock or len(answer.parts) != len(gold.parts):
        return False
    # Proportional: a : b = c : d where a d = b c.
    first, gold_first = answer.parts[0], gold.parts[0]
    return all(
        same_value(Product((first, right)), Product((gold_first, left)), mode=mode)
        for left, right in zip(answer.parts[1:], gold.parts[1:], strict=True)
    )


def _same_measure(answer: Node, gold: Node, mode: Mode) -> bool:
    value, unit = _measure(answer)
    gold_value, gold_unit = _measure(gold)
    if "percent" in (unit, gold_unit):
        return _same_percentage(value, unit, gold_value, gold_unit, mode)
    if unit and gold_unit and unit != gold_unit:
        return False
    if unit == "cent" and not gold_unit:
        return False
    if (
        "degree" in (unit, gold_unit)
        and unit != gold_unit
        and "pi" in symbols(value if not unit else gold_value)
    ):
        # A multiple of pi is an angle in radians.
        return same_value(
            value if not unit else answer, gold_value if not gold_unit else gold, mode=mode
        )
    return same(value, gold_value, mode=mode)


def _measure(node: Node) -> tuple[Node, str]:
    if isinstance(node, Measured):
        return node.value, node.unit
    return node, ""


def _same_percentage(answer: Node, unit: str, gold: Node, gold_unit: str, mode: Mode) -> bool:
    hundred = Power(Number(Fraction(100)), Number(Fraction(-1)))
    if unit == gold_unit:
        return same(answer, gold, mode=mode)
    if unit and gold_unit:
        return False
    if mode is Mode.STRICT:
        value = Product((answer, hundred)) if unit else answer
        return same_value(value, Product((gold, hundred)) if gold_unit else gold, mode=mode)
    if gold_unit:
        small = isinstance(gold, Number) and abs(gold.value) < 1
        if same_value(answer, Product((gold, hundred)), mode=mode):
            return True
        return not small and same(answer, gold, mode=mode)
    if same(answer, gold, mode=mode):
        return True
    whole = isinstance(gold, Number) and gold.value.denominator == 1
    return not whole and same_value(Product((answer, hundred)), gold, mode=mode)


def _same_relation(answer: Node, gold: Node) -> bool:
    if not isinstance(answer, Relation) or not isinstance(gold, Relation):
        return False
    answer, gold = _rising(answer), _rising(gold)
    if answer.operators != gold.operators:
        return False
    if _in_order(answer.terms, gold.terms, Mode.NORMAL):
        return True
    if len(answer.terms) != 2 or r"\in" in answer.operators:
        return False
    if answer.operators[0] in ("=", r"\ne") and _in_order(
        answer.terms[::-1], gold.terms, Mode.NORMAL
    ):
        return True
    if any(not isinstance(term, SCALAR) for term in (*answer.terms, *gold.terms)):
        return False
    return realsets.proportional(
        _residual(answer), _residual(gold), positive=answer.operators[0] not in ("=", r"\ne")
    )


def _residual(relation: Relation) -> Node:
    return added(relation.terms[0], negated(relation.terms[1]))


def _rising(relation: Relation) -> Relation:
    """With < and <= alone where it has > or >=."""
    if any(operator in (r"\gt", r"\ge") for operator in relation.operators) and all(
        operator in _MIRRORED for operator in relation.operators
    ):
        return dataclasses.replace(
            relation,
            terms=relation.terms[::-1],
            operators=tuple(_MIRRORED[operator] for operator in relation.operators[::-1]),
        )
    return relation
