"""Every broken operator is caught, in the words that name its fault."""

import pytest
from zoo import ZOO

from jaxgrpo.check import check, function_subject, measure

IDS = [f"{function.__name__}-{name.replace(' ', '_')}" for function, _, name, _ in ZOO]


@pytest.mark.parametrize(("function", "family", "name", "words"), ZOO, ids=IDS)
def test_the_fault_is_named(function, family, name, words):
    finding = measure(function_subject(function, family), name)
    assert not finding.passed
    assert words in finding.diagnosis


# Some of them: that a report holds the finding is the same for all.
@pytest.mark.slow
@pytest.mark.parametrize(("function", "family", "name", "words"), ZOO[::6], ids=IDS[::6])
def test_the_whole_check_fails(function, family, name, words):
    report = check(function_subject(function, family))
    assert words in {finding.name: finding.diagnosis for finding in report.failures}[name]


def test_there_are_many_of_them():
    assert len({function for function, *_ in ZOO}) >= 30
