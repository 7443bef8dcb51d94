"""The command itself: its version, its help, and how it fails."""

import subprocess
import sys

import pytest

from tests.cli.running import Toolyard
from toolyard import __version__


def test_version_is_one_line(toolyard: Toolyard):
    outcome = toolyard("--version")
    assert (outcome.status, outcome.out, outcome.err) == (0, f"toolyard {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_names_every_command(toolyard: Toolyard, arguments: list[str]):
    outcome = toolyard(*arguments)
    assert outcome.status == 0
    assert all(f"  {name}  " in outcome.out for name in ("serve", "stdio", "list", "call"))


def test_help_says_which_servers_are_meant_without_a_target(toolyard: Toolyard):
    told = " ".join(toolyard("--help").out.split())
    assert "Without a TARGET, commands use the servers of toolyard.toml" in told
    assert "the bundled demo" in told


@pytest.mark.parametrize("arguments", [["xyz"], ["list", "--nope"], ["call"], ["serve", "--port", "many"]])
def test_wrong_usage_exits_with_2_and_points_to_the_help(toolyard: Toolyard, arguments: list[str]):
    outcome = toolyard(*arguments)
    assert outcome.status == 2
    assert outcome.out == ""
    first, second = outcome.err.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("hint: toolyard")
    assert second.endswith("-h")


@pytest.mark.parametrize(("typed", "meant"), [("lst", "list"), ("serv", "serve"), ("serach", "search")])
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(
    toolyard: Toolyard, typed: str, meant: str
):
    outcome = toolyard(typed)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == f"error: no command {typed!r}\nhint: did you mean {meant!r}?\nhint: toolyard -h\n"


BROKEN = r"""
from toolyard.kit import Server

class Odd(BaseException): ...

server = Server("broken")

async def handle(call):
    raise {error}

server.service.handle = handle
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("TypeError('un\\x1b[2Jhashable')", r"TypeError: un\x1b[2Jhashable"),
        ("Odd", "Odd"),
        ("EOFError", "EOFError"),
    ],
)
def test_what_nobody_foresaw_is_an_error_with_a_traceback_for_those_who_ask(
    toolyard: Toolyard, error: str, said: str
):
    toolyard.write("broken.py", BROKEN.replace("{error}", error))
    outcome = toolyard("list", "broken.py")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.splitlines() == [
        f"error: {said}",
        "hint: unexpected error; --debug shows the traceback",
    ]
    outcome = toolyard("list", "broken.py", "--debug")
    assert outcome.status == 2
    assert outcome.err.startswith("Traceback (most recent call last):")
    assert outcome.err.splitlines()[-1] == f"error: {said}"
    assert "\x1b" not in outcome.err


def imported(*arguments: str) -> set[str]:
    """The modules that a command loads."""
    command = [sys.executable, "-X", "importtime", "-m", "toolyard", *arguments]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


def test_the_version_is_told_without_loading_the_framework():
    assert not imported("--version") & {"asyncio", "logging", "msgspec", "rich", "uvicorn", "toolyard.kit"}


def test_stdio_starts_without_what_only_http_and_terminals_need():
    assert not imported("stdio") & {"uvicorn", "httptools", "rich", "http.client", "jsonschema_rs"}


def test_listing_into_a_pipe_needs_neither_http_nor_rich():
    assert not imported("list") & {"uvicorn", "rich", "http.client", "jsonschema_rs"}
