"""Whether two answers are the same, structure by structure."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from jaxgrpo.answers import realsets
from jaxgrpo.answers.building import added, negated
from jaxgrpo.answers.equality import same_value
from jaxgrpo.answers.exact import key
from jaxgrpo.answers.settling import MAX_ITEMS, SCALAR, differ, labelled, point, relabelled, settled
from jaxgrpo.answers.tree import (
    Based,
    Bracketed,
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
    Symbol,
    contains,
    symbols,
)

_MIRRORED = {
    r"\lt": r"\gt", r"\gt": r"\lt", r"\le": r"\ge", r"\ge": r"\le", "=": "=", r"\ne": r"\ne",
}  # fmt: skip


def same(answer: Node, gold: Node, *, lenient: bool = False) -> bool:
    """Whether an answer is the gold one.

    Lists and sets are compared without order, tuples and intervals in theirs and with their
    brackets. A name before an equals sign may be missing on either side but not differ. Units may
    be missing but not differ.
    """
    answer, gold = settled(answer), settled(gold)
    if key(answer) == key(gold):
        return True
    (answer_label, answer), (gold_label, gold) = labelled(answer), labelled(gold)
    if answer_label is not None and gold_label is not None and differ(answer_label, gold_label):
        whole = (relabelled(answer_label, answer), relabelled(gold_label, gold))
        return _same_relation(*whole)
    if _same(answer, gold, lenient):
        return True
    if gold_label is not None and isinstance(answer, Relation):
        return _same_relation(answer, relabelled(gold_label, gold))
    if answer_label is not None and isinstance(gold, Relation):
        return _same_relation(relabelled(answer_label, answer), gold)
    return False


def _same(answer: Node, gold: Node, lenient: bool) -> bool:
    answer, gold = _unbraced_pair(answer, gold)
    match answer, gold:
        case Measured(), _:
            return _same_measure(answer, gold, lenient)
        case _, Measured():
            return _same_measure(answer, gold, lenient)
        case Ratio(), Ratio():
            return _same_ratio(answer, gold, lenient)
        case Based(digits, base), Based(gold_digits, gold_base):
            return base == gold_base and digits.lstrip("0") == gold_digits.lstrip("0")
        case Based(), Number():
            return False
        case Number(value, None), Based(digits):
            # The question fixes the base.
            return str(value) == digits
        case Matrix(kind, rows), Matrix(gold_kind, gold_rows):
            return kind == gold_kind and _same_rows(rows, gold_rows, lenient)
        case Bracketed(opening, closing, items), Bracketed(gold_opening, gold_closing, gold_items):
            if (opening, closing) == (gold_opening, gold_closing):
                return _in_order(items, gold_items, lenient)
            return False
        case (Bracketed(), Listing()) | (Listing(), Bracketed()):
            answer_point, gold_point = point(answer), point(gold)
            if answer_point is not None and gold_point is not None:
                return _in_order(answer_point, gold_point, lenient)
        case Listing(items), Listing(gold_items):
            if _in_any_order(items, gold_items, lenient):
                return True
        case Combined(operator, parts), Combined(gold_operator, gold_parts):
            if operator == gold_operator == "cup" and _in_any_order(parts, gold_parts, lenient):
                return True
        case Relation(), Relation():
            if _same_relation(answer, gold):
                return True
    if isinstance(answer, SCALAR) and isinstance(gold, SCALAR):
        return same_value(answer, gold, lenient=lenient)
    return _same_set(answer, gold)


def _same_set(answer: Node, gold: Node) -> bool:
    """As sets of real numbers: unions, differences, and inequalities in one unknown.

    An interval or union may be written as an inequality and the other way round, but a listing
    is not an interval.
    """
    if not any(
        isinstance(node, (Combined, Relation, Symbol)) for node in (answer, gold)
    ) and not any(contains(node, Relation) for node in (answer, gold)):
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


def _in_order(answer: Sequence[Node], gold: Sequence[Node], lenient: bool) -> bool:
    return len(answer) == len(gold) and all(
        same(left, right, lenient=lenient) for left, right in zip(answer, gold, strict=True)
    )


def _in_any_order(answer: Sequence[Node], gold: Sequence[Node], lenient: bool) -> bool:
    if len(answer) != len(gold) or len(gold) > MAX_ITEMS:
        return False
    left = list(answer)
    named = all(labelled(item)[0] is not None for item in gold)
    for wanted in gold:
        for position, item in enumerate(left):
            # Values may not swap their names.
            if named and labelled(item)[0] is not None and not _same_label(item, wanted):
                continue
            if same(item, wanted, lenient=lenient):
                del left[position]
                break
        else:
            return False
    return True


def _same_label(answer: Node, gold: Node) -> bool:
    left, right = labelled(answer)[0], labelled(gold)[0]
    return left is not None and right is not None and key(left) == key(right)


def _same_rows(
    answer: Sequence[Sequence[Node]], gold: Sequence[Sequence[Node]], lenient: bool
) -> bool:
    return len(answer) == len(gold) and all(
        _in_order(left, right, lenient) for left, right in zip(answer, gold, strict=True)
    )


def _same_ratio(answer: Ratio, gold: Ratio, lenient: bool) -> bool:
    if _in_order(answer.parts, gold.parts, lenient):
        return True
    if answer.clock or gold.clock or len(answer.parts) != len(gold.parts):
        return False
    # Proportional: a : b = c : d where a d = b c.
    first, gold_first = answer.parts[0], gold.parts[0]
    return all(
        same_value(Product((first, right)), Product((gold_first, left)), lenient=lenient)
        for left, right in zip(answer.parts[1:], gold.parts[1:], strict=True)
    )


def _same_measure(answer: Node, gold: Node, lenient: bool) -> bool:
    value, unit = _measure(answer)
    gold_value, gold_unit = _measure(gold)
    if "percent" in (unit, gold_unit):
        return _same_percentage(value, unit, gold_value, gold_unit, lenient)
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
            value if not unit else answer, gold_value if not gold_unit else gold, lenient=lenient
        )
    return same(value, gold_value, lenient=lenient)


def _measure(node: Node) -> tuple[Node, str]:
    if isinstance(node, Measured):
        return node.value, node.unit
    return node, ""


def _same_percentage(answer: Node, unit: str, gold: Node, gold_unit: str, lenient: bool) -> bool:
    hundred = Power(Number(Fraction(100)), Number(Fraction(-1)))
    if unit == gold_unit:
        return same(answer, gold, lenient=lenient)
    if unit and gold_unit:
        return False
    if gold_unit:
        small = isinstance(gold, Number) and abs(gold.value) < 1
        if same_value(answer, Product((gold, hundred)), lenient=lenient):
            return True
        return not small and same(answer, gold, lenient=lenient)
    if same(answer, gold, lenient=lenient):
        return True
    whole = isinstance(gold, Number) and gold.value.denominator == 1
    return not whole and same_value(Product((answer, hundred)), gold, lenient=lenient)


def _same_relation(answer: Node, gold: Node) -> bool:
    if not isinstance(answer, Relation) or not isinstance(gold, Relation):
        return False
    answer, gold = _rising(answer), _rising(gold)
    if answer.operators != gold.operators:
        return False
    if _in_order(answer.terms, gold.terms, False):
        return True
    if len(answer.terms) != 2 or r"\in" in answer.operators:
        return False
    if answer.operators[0] in ("=", r"\ne") and _in_order(answer.terms[::-1], gold.terms, False):
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
