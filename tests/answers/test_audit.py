"""Golds looked over before they cost anything."""

import pytest

from jaxgrpo.answers import GoldKind, gold_kind
from jaxgrpo.answers.audit import Row, audit, report


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("-1,234.5", GoldKind.NUMBER),
        (r"\frac{\pi}{2}", GoldKind.NUMBER),
        ("$x^2$", GoldKind.EXPRESSION),
        ("x = 5", GoldKind.STRUCTURE),
        (r"5\text{ cm}", GoldKind.STRUCTURE),
        ("The midpoints form a hexagon", GoldKind.TEXT),
        ("1/2/2020", GoldKind.TEXT),
        (r"\oint F\cdot dr", GoldKind.OPAQUE),
        ("", GoldKind.UNPARSEABLE),
        ("$ $", GoldKind.UNPARSEABLE),
        (r"\frac{1}{", GoldKind.UNPARSEABLE),
        ("5\N{COMBINING LONG STROKE OVERLAY}", GoldKind.UNPARSEABLE),
        ("nan", GoldKind.UNPARSEABLE),
        ("9" * 5000, GoldKind.UNPARSEABLE),
    ],
)
def test_kinds(gold, kind):
    assert gold_kind(gold) is kind


def test_what_an_audit_sees():
    rows = [
        Row("1", "0.5", r"so \boxed{\frac{1}{2}}", True),
        Row("2", "3", "#### 4", True),
        Row("3", r"\frac{1}{"),
        Row("4", "3", "no idea at all"),
    ]
    seen = audit(rows)
    assert seen.rows == 4
    assert seen.outcomes == {"right": 1, "wrong": 1, "no_answer": 1}
    assert seen.quarantined == [rows[2]]
    assert [finding.reason for finding in seen.findings] == [
        "the file calls it right, we do not",
        "the gold is unparseable",
    ]
    assert seen.formatting == [(rows[0], r"\frac{1}{2}")]
    text = report(seen, "some.jsonl")
    assert "4 rows" in text
    assert "1 to quarantine" in text
    assert r"| 3 | `\frac{1}{` | the gold is unparseable |" in text
