"""What counts as passed when the conformance suite looks at our client."""

import pytest

from scripts.conformance.clients import AUTH_SCENARIOS, ClientResult, reason_apart
from scripts.conformance.suite import Check, Result, Scenario

REVISION = "2026-07-28"


def ran(*statuses: str, expected: int | None, missing: int = 0) -> ClientResult:
    """`missing`: how many of the scenarios about authorization did not run."""
    checks = [Check(f"check-{number}", status, "", "") for number, status in enumerate(statuses)]
    others = [Scenario(f"auth/{number}", True, []) for number in range(AUTH_SCENARIOS[REVISION] - missing)]
    return ClientResult(Result(REVISION, [Scenario("tools_call", True, checks), *others]), {}, expected)


def test_all_checks_that_are_expected_have_to_pass() -> None:
    assert ran("SUCCESS", "SUCCESS", "INFO", "SKIPPED", expected=2).passed


@pytest.mark.parametrize("status", ["FAILURE", "WARNING"])
def test_a_failure_or_a_warning_does_not_pass(status: str) -> None:
    assert not ran("SUCCESS", status, expected=1).passed


def test_checks_that_are_gone_do_not_go_unnoticed() -> None:
    assert not ran("SUCCESS", expected=2).passed
    assert ran("SUCCESS", expected=None).passed, "unless only some scenarios were wanted"


def test_scenarios_about_authorization_that_did_not_run_do_not_go_unnoticed() -> None:
    assert not ran("SUCCESS", expected=1, missing=1).passed


def test_nothing_that_the_suite_asks_of_a_client_is_left_out() -> None:
    assert reason_apart("auth/metadata-default") is None
    assert reason_apart("tools_call") is None
