"""What every test runs under, and what the end of a run says."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.programs import missing_programs

# The same examples in every run, so that a red build is about the change in it. Deadlines are off: the
# machines are shared, and the tests that care about time say so themselves.
settings.register_profile(
    "toolyard",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("toolyard")

# A shell has what it runs in the background ignore Ctrl-C, and programs that tests start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end too: a reader of a green run sees what it did not show."""
    for reason in missing_programs():
        terminalreporter.write_line(f"tests left out: {reason}")
    if os.geteuid() != 0:
        terminalreporter.write_line("tests left out: boxes and workspaces of a gateway that root runs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed goes from one process to another, which only takes text that UTF-8 can hold."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report
