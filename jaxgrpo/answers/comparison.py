"""Whether two answers are the same, structure by structure."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from jaxgrpo.answers import realsets, units
from jaxgrpo.answers.equality import same_value
from jaxgrpo.answers.evaluation import key
from jaxgrpo.answers.parser import added, negated
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
    PlusMinus,
    Power,
    Product,
    Ratio,
    Relation,
    Sum,
    Symbol,
    contains,
)

_MAX_ITEMS = 200
_MIRRORED = {r"\lt": r"\gt", r"\gt": r"\lt", r"\le": r"\ge", r"\ge": r"\le", "=": "=", r"\ne": r"\ne"}
_SCALAR = (Number, Symbol, Sum, Product, Power, Call)
_SETS = (Bracketed, Combined, Listing)


def same(answer: Node, gold: Node, *, lenient: bool = False) -> bool:
    """Whether an answer is the gold one.

    Lists and sets are compared without order, tuples and intervals in theirs and with their
    brackets. A name before an equals sign may be missing on either side but not differ. Units may
    be missing but not differ.
    """
    answer, gold = _settled(answer), _settled(gold)
    if key(answer) == key(gold):
        return True
    (answer_label, answer), (gold_label, gold) = _labelled(answer), _labelled(gold)
    if answer_label is not None and gold_label is not None and key(answer_label) != key(gold_label):
        whole = (_relabelled(answer_label, answer), _relabelled(gold_label, gold))
        return _same_relation(*whole)
    if _same(answer, gold, lenient):
        return True
    if gold_label is not None and isinstance(answer, Relation):
        return _same_relation(answer, _relabelled(gold_label, gold))
    if answer_label is not None and isinstance(gold, Relation):
        return _same_relation(_relabelled(answer_label, answer), gold)
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
        case Based(), Number() | Based() | _ if isinstance(gold, Based) or isinstance(gold, Number):
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
        case Listing(items), Listing(gold_items):
            if _in_any_order(items, gold_items, lenient):
                return True
        case Combined(operator, parts), Combined(gold_operator, gold_parts):
            if operator == gold_operator == "cup" and _in_any_order(parts, gold_parts, lenient):
                return True
        case Relation(), Relation():
            if _same_relation(answer, gold):
                return True
    if isinstance(answer, _SCALAR) and isinstance(gold, _SCALAR):
        return same_value(answer, gold, lenient=lenient)
    return _same_set(answer, gold)


def _same_set(answer: Node, gold: Node) -> bool:
    """As sets of real numbers: unions, differences, and inequalities in one unknown.

    An interval or union may be written as an inequality and the other way round, but a listing
    is not an interval.
    """
    if not any(isinstance(node, (Combined, Relation, Symbol)) for node in (answer, gold)) and not any(
        contains(node, Relation) for node in (answer, gold)
    ):
        return False
    left, right = realsets.real_set(answer), realsets.real_set(gold)
    return left is not None and right is not None and realsets.equal(left, right)


# -- settling what a text means ------------------------------------------------------------------


def _settled(node: Node) -> Node:
    """Both values of a plus-minus as a listing, nested listings flat, decided chains short."""
    if isinstance(node, Relation):
        return _settled_chain(node)
    if isinstance(node, Listing):
        items: list[Node] = []
        for item in node.items:
            item = _settled(item)
            inner = item.items if isinstance(item, Listing) and not item.braced else (item,)
            items += inner
            if len(items) > _MAX_ITEMS:
                break
        return _shared_label(Listing(tuple(items), node.braced))
    if isinstance(node, Measured) and isinstance(node.value, Listing):
        return node
    if contains(node, PlusMinus) and not isinstance(node, (Matrix, Combined)):
        return Listing((_with_signs(node, 1), _with_signs(node, -1)))
    return node


def _with_signs(node: Node, sign: int) -> Node:
    """The node with every plus-minus replaced by one of its signs."""
    match node:
        case PlusMinus(term, own):
            term = _with_signs(term, sign)
            return term if own * sign > 0 else negated(term)
        case Sum(parts) | Product(parts):
            return type(node)(tuple(_with_signs(part, sign) for part in parts))
        case Call(name, parts):
            return Call(name, tuple(_with_signs(part, sign) for part in parts))
        case Power(base, exponent):
            return Power(_with_signs(base, sign), _with_signs(exponent, sign))
        case Bracketed(opening, closing, parts):
            return Bracketed(opening, closing, tuple(_with_signs(part, sign) for part in parts))
        case Measured(value, unit):
            return Measured(_with_signs(value, sign), unit)
    return node


def _settled_chain(relation: Relation) -> Node:
    """x = 5 + 6 = 11 as x = 11 where that is true; the exact side of an approximation."""
    terms, operators = relation.terms, relation.operators
    if operators and operators[-1] == r"\approx":
        exact_side = terms[:-1]
        if len(exact_side) == 1 and isinstance(exact_side[0], Symbol):
            return Relation((exact_side[0], terms[-1]), ("=",))
        if len(exact_side) == 1:
            return exact_side[0]
        return _settled_chain(Relation(exact_side, operators[:-1]))
    terms = tuple(_settled(term) if contains(term, PlusMinus) else term for term in terms)
    if len(terms) > 2 and set(operators) == {"="}:
        rest = terms[1:] if _is_name(terms[0]) else terms
        if all(same(term, rest[-1]) for term in rest[:-1]):
            return Relation((terms[0], rest[-1]), ("=",)) if _is_name(terms[0]) else rest[-1]
    return Relation(terms, operators)


def _shared_label(listing: Listing) -> Node:
    """x = 1, 2, 3 and x = 1, x = 2 name one unknown for all items."""
    labels = [_labelled(item) for item in listing.items]
    first = labels[0][0]
    if first is None:
        return listing
    if all(label is None for label, _ in labels[1:]) or all(
        label is not None and key(label) == key(first) for label, _ in labels
    ):
        values: list[Node] = []
        for _, value in labels:
            inner = value.items if isinstance(value, Listing) and not value.braced else (value,)
            values += inner
        return Relation((first, Listing(tuple(values), listing.braced)), ("=",))
    if _are_numbered(labels):
        return Listing(tuple(value for _, value in labels), listing.braced)
    return listing


def _are_numbered(labels: Sequence[tuple[Node | None, Node]]) -> bool:
    """x_1 = ..., x_2 = ...: the roots of one equation, with their numbers in order."""
    names = [label.name if isinstance(label, Symbol) else "" for label, _ in labels]
    stem = names[0].partition("_")[0]
    return bool(stem) and names == [f"{stem}_{number}" for number in range(1, len(names) + 1)]


def _is_name(node: Node) -> bool:
    """Whether a node can stand before an equals sign as a mere name."""
    if isinstance(node, Symbol):
        return True
    if isinstance(node, Call):
        return node.name == "apply"
    if isinstance(node, Product):
        # AB, NO / BO: segments and products of capital letters alone.
        return all(
            (isinstance(factor, Symbol) and factor.name[:1].isupper())
            or (isinstance(factor, Power) and _is_name(factor.base))
            for factor in node.factors
        ) and len(node.factors) > 1
    if isinstance(node, Bracketed):
        return all(isinstance(item, Symbol) for item in node.items)
    return isinstance(node, Ratio) and all(map(_is_name, node.parts))


def _is_applied(node: Node) -> bool:
    """Whether a product reads as a function of unknowns: C_B(x)."""
    return isinstance(node, Product) and all(isinstance(factor, Symbol) for factor in node.factors)


def _labelled(node: Node) -> tuple[Node | None, Node]:
    """The name and the value of "x = 5", "5 = x" and "x in [0, 1]"; no name for anything else."""
    if isinstance(node, Relation) and len(node.terms) == 2 and node.operators[0] in ("=", r"\in"):
        left, right = node.terms
        if key(left) != key(right) and (
            _is_name(left) or (isinstance(right, Matrix) and _is_applied(left))
        ):
            return left, right
        if node.operators[0] == "=" and _is_name(right) and not _is_name(left) and not contains(
            left, Symbol
        ):
            return right, left
    return None, node


def _relabelled(label: Node, value: Node) -> Relation:
    return Relation((label, value), ("=",))


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
    if len(answer) != len(gold) or len(gold) > _MAX_ITEMS:
        return False
    left = list(answer)
    named = all(_labelled(item)[0] is not None for item in gold)
    for wanted in gold:
        for position, item in enumerate(left):
            # Values may not swap their names.
            if named and _labelled(item)[0] is not None and not _same_label(item, wanted):
                continue
            if same(item, wanted, lenient=lenient):
                del left[position]
                break
        else:
            return False
    return True


def _same_label(answer: Node, gold: Node) -> bool:
    left, right = _labelled(answer)[0], _labelled(gold)[0]
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
    if "degree" in (unit, gold_unit) and unit != gold_unit and contains(
        value if not unit else gold_value, Symbol
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


def _same_percentage(
    answer: Node, unit: str, gold: Node, gold_unit: str, lenient: bool
) -> bool:
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
    if any(not isinstance(term, _SCALAR) for term in (*answer.terms, *gold.terms)):
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
