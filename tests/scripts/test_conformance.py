"""What counts as a loss between two runs of the conformance suite."""

from scripts.conformance.apart import ON_LAMBDA, ON_PIPES, Apart
from scripts.conformance.pairs import Comparison, compare
from scripts.conformance.suite import DID_NOT_RUN, ROOT, Check, Result, Scenario


def ran(*checks: tuple[str, str], scenario: str = "tools-list") -> Result:
    found = [Check(id, status, "", f"about {id}") for id, status in checks]
    return Result("2026-07-28", [Scenario(scenario, True, found)])


def compared(direct: Result, through: Result, strict: bool = False) -> Comparison:
    return compare("pair", strict, direct, through)


def test_what_passes_on_both_sides_is_no_loss() -> None:
    found = compared(ran(("a", "SUCCESS")), ran(("a", "SUCCESS")))
    assert found.passed
    assert not found.lost + found.gained


def test_a_check_that_fails_only_through_the_gateway_is_lost_with_its_message() -> None:
    found = compared(ran(("a", "SUCCESS")), ran(("a", "FAILURE")))
    assert not found.passed
    assert [(loss.check, loss.message) for loss in found.lost] == [("a", "FAILURE: about a")]


def test_a_warning_is_a_loss_too() -> None:
    assert compared(ran(("a", "SUCCESS")), ran(("a", "WARNING"))).lost


def test_a_check_that_is_missing_through_the_gateway_is_lost() -> None:
    assert compared(ran(("a", "SUCCESS"), ("b", "SUCCESS")), ran(("b", "SUCCESS"))).lost


def test_every_check_of_a_scenario_that_did_not_run_is_lost() -> None:
    found = compared(ran(("a", "SUCCESS"), ("b", "SUCCESS")), ran((DID_NOT_RUN, "FAILURE")))
    assert [loss.check for loss in found.lost] == ["a", "b"]
    assert {loss.message for loss in found.lost} == {f"FAILURE: about {DID_NOT_RUN}"}


def test_an_id_that_is_checked_several_times_is_counted() -> None:
    direct = ran(("a", "SUCCESS"), ("a", "SUCCESS"), ("a", "FAILURE"))
    assert len(compared(direct, ran(("a", "SUCCESS"), ("a", "FAILURE"), ("a", "FAILURE"))).lost) == 1
    assert not compared(direct, direct).lost


def test_what_passes_only_through_the_gateway_is_gained() -> None:
    found = compared(ran(("a", "FAILURE")), ran(("a", "SUCCESS"), ("b", "SUCCESS")))
    assert [gain.check for gain in found.gained] == ["a", "b"]
    assert found.passed


def test_a_failure_on_both_sides_is_no_loss_unless_every_check_has_to_pass() -> None:
    failing = ran(("a", "FAILURE"))
    assert compared(failing, failing).passed
    assert not compared(failing, failing, strict=True).passed


def test_info_in_place_of_success_is_a_loss_over_http() -> None:
    scenario, check = "server-sse-polling", "server-sse-disconnect-resume"
    direct = ran((check, "SUCCESS"), scenario=scenario)
    assert compared(direct, ran((check, "INFO"), scenario=scenario)).lost
    assert compared(ran(("a", "SUCCESS")), ran(("a", "INFO"))).lost


def test_on_a_pipe_a_stream_that_cannot_be_cut_is_counted_apart_and_nothing_else() -> None:
    scenario, check = "server-sse-polling", "server-sse-disconnect-resume"
    direct = ran((check, "SUCCESS"), scenario=scenario)
    found = compare("pair", False, direct, ran((check, "INFO"), scenario=scenario), known=ON_PIPES)
    assert found.passed
    assert [one.check for one in found.apart] == [check]
    failing = compare("pair", False, direct, ran((check, "FAILURE"), scenario=scenario), known=ON_PIPES)
    assert failing.lost
    other = compare("pair", False, ran(("a", "SUCCESS")), ran(("a", "INFO")), known=ON_PIPES)
    assert other.lost


def test_what_does_not_apply_on_a_way_may_fail_there_and_nothing_else_may() -> None:
    direct = ran(("a", "SUCCESS"), ("b", "SUCCESS"), scenario="some")
    failing = ran(("a", "FAILURE"), ("b", "SUCCESS"), scenario="some")
    known = (Apart("some", "no such thing there", ("a",)),)
    found = compare("pair", True, direct, failing, known)
    assert found.passed
    assert [(one.check, one.message) for one in found.apart] == [("a", "no such thing there")]
    assert not compare(
        "pair", True, direct, ran(("a", "FAILURE"), ("b", "WARNING"), scenario="some"), known
    ).passed


def test_what_is_said_not_to_apply_and_passes_fails_the_run() -> None:
    direct = ran(("a", "SUCCESS"), scenario="some")
    assert not compare("pair", True, direct, direct, (Apart("some", "no such thing there"),)).passed
    assert compare("pair", True, direct, direct, (Apart("another", "no such thing there"),)).passed


def test_what_does_not_apply_on_lambda_is_documented_with_its_reason() -> None:
    page = (ROOT / "docs/concepts/eras.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for one in ON_LAMBDA:
        assert any(f"`{one.scenario}`" in row and one.reason in row for row in rows), one.scenario
