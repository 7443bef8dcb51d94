"""A thread that a target started does not keep the command from ending."""

import signal

import pytest

from tests.cli.running import PATIENCE, Toolyard

TARGET = """
import atexit, sys, threading
from concurrent.futures import ThreadPoolExecutor
from toolyard.kit import Server

server = Server("threads")
atexit.register(lambda: print("cleaned up", file=sys.stderr))

@server.tool
def ping() -> str:
    return "pong"
"""
ENDLESS = TARGET + "threading.Thread(target=threading.Event().wait, name='scheduler').start()"
POOL = TARGET + "pool = ThreadPoolExecutor(); pool.submit(int).result()"
WARNING = "warning: exited while threads of the target still ran: scheduler\n"


def test_serve_ends_on_sigterm(toolyard: Toolyard):
    toolyard.write("threads.py", ENDLESS)
    with toolyard.serving("threads.py") as served:
        outcome = served.stop(signal.SIGTERM)
    assert outcome.status == 0
    assert outcome.err.startswith(WARNING)


def test_stdio_ends_with_its_input(toolyard: Toolyard):
    toolyard.write("threads.py", ENDLESS)
    outcome = toolyard("stdio", "threads.py")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err.startswith(WARNING)


@pytest.mark.parametrize(("tool", "status", "out"), [("ping", 0, "pong\n"), ("pong", 2, "")])
def test_call_ends_with_its_own_status_and_all_of_its_output(
    toolyard: Toolyard, tool: str, status: int, out: str
):
    toolyard.write("threads.py", ENDLESS)
    outcome = toolyard("call", tool, "--target", "threads.py")
    assert (outcome.status, outcome.out) == (status, out)
    assert WARNING in outcome.err


@pytest.mark.parametrize("command", [["stdio"], ["call", "ping", "--target"]])
def test_threads_that_end_by_themselves_are_waited_for_and_so_is_what_comes_after(
    toolyard: Toolyard, command: list[str]
):
    toolyard.write("threads.py", POOL)
    process = toolyard.start(*command, "threads.py")
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "cleaned up\n")
