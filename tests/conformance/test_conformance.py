"""Every test of ONNX's suite passes, or is on the list of expected failures and fails in the way that the list says."""

from __future__ import annotations

import pytest

from tests.conformance.suite import DIFFERENT, ERROR, REFUSED, cases, expected_failures, run

EXPECTED = expected_failures()


def test_the_list_names_tests() -> None:
    assert sorted(set(EXPECTED) - set(cases())) == []
    assert {status for status, _ in EXPECTED.values()} <= {REFUSED, DIFFERENT, ERROR}


@pytest.mark.parametrize("name", sorted(cases()))
def test_conformance(name: str) -> None:
    outcome = run(cases()[name])
    status, reason = EXPECTED.get(name, ("passed", ""))
    if outcome.status == status:
        return
    if outcome.status == "passed":
        pytest.fail(f"{name} passes; take it off the list ({reason})")
    pytest.fail(f"{name}: {outcome.status}: {outcome.reason}")
