"""What counts as passed when the conformance suite looks at our client."""

import pytest

from scripts.conformance.clients import ClientResult, reason_apart
from scripts.conformance.suite import Check, Result, Scenario


def ran(*statuses: str, expected: int | None) -> ClientResult:
    checks = [Check(f"check-{number}", status, "", "") for number, status in enumerate(statuses)]
    return ClientResult(Result("2026-07-28", [Scenario("tools_call", True, checks)]), {}, expected)


def test_all_checks_that_are_expected_have_to_pass() -> None:
    assert ran("SUCCESS", "SUCCESS", "INFO", "SKIPPED", expected=2).passed


@pytest.mark.parametrize("status", ["FAILURE", "WARNING"])
def test_a_failure_or_a_warning_does_not_pass(status: str) -> None:
    assert not ran("SUCCESS", status, expected=1).passed


def test_checks_that_are_gone_do_not_go_unnoticed() -> None:
    assert not ran("SUCCESS", expected=2).passed
    assert ran("SUCCESS", expected=None).passed, "unless only some scenarios were wanted"


def test_only_what_is_about_authorization_is_left_out() -> None:
    assert reason_apart("auth/metadata-default")
    assert reason_apart("tools_call") is None
