"""Is an operator what it says? Its gradient per token and in expectation, its edges, its sign.

`check(subject("atr"))` measures a registered operator, `check(function_subject(f))` anybody's
function of the same signature; `jaxgrpo check` is the same on the command line.
"""

from jaxgrpo.check.findings import Finding, Region, Report
from jaxgrpo.check.pool import check_all, on_cpu
from jaxgrpo.check.properties import PROPERTIES
from jaxgrpo.check.runner import check, measure, rehearse
from jaxgrpo.check.subject import (
    FAMILIES,
    Family,
    Subject,
    all_subjects,
    function_subject,
    subject,
)

__all__ = [
    "FAMILIES",
    "PROPERTIES",
    "Family",
    "Finding",
    "Region",
    "Report",
    "Subject",
    "all_subjects",
    "check",
    "check_all",
    "function_subject",
    "measure",
    "on_cpu",
    "rehearse",
    "subject",
]
