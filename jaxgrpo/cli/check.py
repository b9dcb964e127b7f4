"""`jaxgrpo check [NAME | FAMILY | module:function ...]`."""

import argparse
import json
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxgrpo.cli.arguments import Parser, positive, writable
from jaxgrpo.core.errors import UserError

if TYPE_CHECKING:
    from jaxgrpo.check import Finding, Report, Subject

EXAMPLES = """\
  jaxgrpo check atr
  jaxgrpo check my_losses:soft_clip
  jaxgrpo check my_losses:my_kl --as penalty --claims reverse_kl
  jaxgrpo check trust_region --option divergence=chi2 --option delta=0.04
  jaxgrpo check --json checks.json --html checks.html
  jaxgrpo check --list
"""


def main(words: Sequence[str]) -> int:
    """Prove operators' gradients; 0 if every property of every one holds, 1 if not."""
    arguments = _parse(words)
    files = {name: writable(getattr(arguments, name)) for name in ("json", "html")}
    if arguments.list:
        from jaxgrpo.cli.operators import listing

        print("\n".join(listing()))
        return 0

    from jaxgrpo.check import check, check_all, on_cpu
    from jaxgrpo.check.html import page

    on_cpu()
    subjects = _subjects(arguments)
    reports: list[Report] = []
    began = time.perf_counter()
    if len(subjects) == 1:
        reports.append(check(subjects[0]))
        _print_whole(reports[0])
    else:
        for report in check_all(subjects, arguments.jobs):
            reports.append(report)
            _print_line(report, len(reports), len(subjects), time.perf_counter() - began)
        order = [(each.family.name, each.name) for each in subjects]
        reports.sort(key=lambda report: order.index((report.family, report.name)))
    failed = [report for report in reports if not report.passed]
    if len(subjects) > 1:
        count = sum(len(report.findings) for report in reports)
        print(
            f"{len(reports) - len(failed)} of {len(reports)} operators passed, {count} properties, "
            f"{time.perf_counter() - began:.0f} s"
        )
    if files["json"]:
        text = json.dumps([report.as_json() for report in reports], indent=1, allow_nan=False)
        files["json"].write_text(text + "\n", encoding="utf-8")
    if files["html"]:
        files["html"].write_text(page(reports), encoding="utf-8")
    return 1 if failed else 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        "check",
        "Check what gradient operators have, per token and in expectation, and everything else "
        "that they should be: without a name all of them, or a family, or your own function "
        "before anything is registered. The exit code is 1 if a property doesn't hold.",
        EXAMPLES,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="an operator, a family, or module:function"
    )
    parser.add_argument(
        "--as",
        dest="family",
        metavar="FAMILY",
        help="what it is: loss, penalty, divergence, row-divergence, top-divergence or weight; a "
        "function of yours is a loss otherwise",
    )
    parser.add_argument(
        "--claims",
        metavar="GRADIENT",
        help="the gradient it should have in expectation: policy_gradient, reverse_kl (of "
        "KL(policy || reference)), forward_kl or none; otherwise what its card says, and of your "
        "function policy_gradient for a loss, reverse_kl for a penalty, none for a divergence",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the operator; may be given again",
    )
    parser.add_argument("--json", metavar="FILE", help="write everything found as JSON")
    parser.add_argument("--html", metavar="FILE", help="write a page to look at")
    parser.add_argument("--jobs", type=positive, help="processes, one a core otherwise")
    parser.add_argument("--list", action="store_true", help="what there is, from the cards")
    return parser.parse_args(words)


def _subjects(arguments: argparse.Namespace) -> "list[Subject]":
    from jaxgrpo.check import FAMILIES, all_subjects, rehearse, subject

    options = _options(arguments.option)
    names = arguments.names or [None]
    found = []
    for name in names:
        if name is None or name in FAMILIES:
            if options or arguments.claims:
                raise UserError("--option and --claims go with one operator, not a family")
            found.extend(all_subjects(name or arguments.family))
        else:
            one = subject(name, arguments.family, claims=arguments.claims, options=options)
            if options:
                rehearse(one)
            found.append(one)
    return found


def _options(words: Sequence[str]) -> dict[str, Any]:
    import yaml

    options = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"--option wants NAME=VALUE, got {word!r}")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"--option {name}: {value!r} is not a value") from error
    return options


def _print_whole(report: "Report") -> None:
    print(f"{report.family} {report.name}, claims {report.claims}")
    width = max(len(finding.name) for finding in report.findings)
    for finding in report.findings:
        print(f"  {_mark(finding)}  {finding.name:<{width}}  {_error(finding):<22} {finding.note}")
        if finding.diagnosis:
            print(f"        {'':<{width}}  {finding.diagnosis}")
    if report.regions:
        print("where gradient flows:")
        for region in report.regions:
            print(f"  {region}")
    failures = len(report.failures)
    broken = "1 property does not hold" if failures == 1 else f"{failures} properties do not hold"
    verdict = "every property holds" if report.passed else broken
    print(f"{report.name}: {verdict}, {report.seconds:.1f} s")


def _print_line(report: "Report", done: int, total: int, seconds: float) -> None:
    left = seconds / done * (total - done)
    eta = f"ETA {left:.0f} s" if done < total else ""
    verdict = "pass" if report.passed else "FAIL"
    count = f"{len(report.findings) - len(report.failures)}/{len(report.findings)}"
    place = f"{done:>{len(str(total))}}/{total}"
    print(
        f"{place}  {verdict}  {report.family:<14}  {report.name:<27} {count:>6}  "
        f"{_largest(report):<34} {eta}".rstrip(),
        flush=True,
    )
    for finding in report.failures:
        print(f"          {finding.name}: {finding.diagnosis}", flush=True)


def _largest(report: "Report") -> str:
    """The largest error of a float64 derivative."""
    errors = {
        finding.name: finding.error
        for finding in report.findings
        if finding.error is not None and finding.name in ("gradient against differences",)
    }
    return "".join(f"differences {error:.0e}" for error in errors.values())


def _mark(finding: "Finding") -> str:
    return "pass" if finding.passed else "FAIL"


def _error(finding: "Finding") -> str:
    if finding.error is None:
        return ""
    if finding.tolerance is None or not math.isfinite(finding.tolerance):
        return f"{finding.error:.1e}"
    return f"{finding.error:.1e} <= {finding.tolerance:.0e}".replace(
        "<=", "<=" if finding.error <= finding.tolerance else ">"
    )
