"""The soak counts right: a good server has nothing to complain about, and each fault is one complaint."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from tests.serving import serving
from tests.soak.clients import Client, LegacyClient, ModernClient
from tests.soak.ledger import Ledger
from tests.soak.load import Customer
from tests.soak.upstream import soak_server
from tests.waiting import PATIENCE

NAME = "plain"


@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
async def test_a_good_server_answers_everything_once(kind: type[Client], tmp_path: Path):
    ledger, stop = Ledger(), asyncio.Event()
    server = soak_server(NAME, tmp_path / "journal", prefix=f"mcp__{NAME}__")
    async with serving(server.asgi()) as http, asyncio.timeout(PATIENCE):
        customer = Customer(kind(http.url, ledger), [NAME], 0.001, random.Random(1))
        running = asyncio.create_task(customer.run(stop))
        while len(ledger.seconds) < 11 or not ledger.rounds or not ledger.progress:
            await asyncio.sleep(0.01)
            assert not running.done()
        stop.set()
        await running
    ledger.check_tokens((tmp_path / "journal").read_text().split())
    assert ledger.examples == []
    assert not ledger.errors
    assert ledger.sent == ledger.answered + ledger.cancelled
    assert (ledger.doubled, ledger.unanswered) == (0, 0)


def test_a_second_answer_is_seen():
    ledger = Ledger()
    ledger.answers(1, [{"id": 1, "result": {}}, {"id": 1, "result": {}}], "a call")
    assert (ledger.doubled, ledger.complaints) == (1, {"answered twice": 1})


def test_a_missing_answer_is_seen():
    ledger = Ledger()
    assert ledger.answers(1, [{"method": "notifications/progress"}], "a call") is None
    assert (ledger.unanswered, ledger.complaints) == (1, {"no answer": 1})


def test_an_answer_to_somebody_else_is_seen():
    ledger = Ledger()
    ledger.answers(1, [{"id": 2, "result": {}}], "a call")
    assert ledger.complaints == {"answer to somebody else": 1}


def test_an_error_needs_a_kill_for_a_reason():
    ledger, before = Ledger(), time.monotonic()
    ledger.failed("good", before, "echo", "broken")
    ledger.killed("bad")
    ledger.failed("bad", before, "echo", "gone")
    ledger.back("bad")
    ledger.failed("bad", time.monotonic(), "echo", "not yet back")
    assert ledger.complaints == {"error without a kill": 1}
    assert sum(ledger.errors.values()) == 3


def test_what_was_done_twice_or_only_said_to_be_done_is_seen():
    ledger = Ledger()
    ledger.tokens = {"good": True, "twice": True, "lost": False, "claimed": True}
    ledger.check_tokens(["good", "twice", "twice", "stray"])
    assert ledger.complaints == {
        "done twice": 1,
        "done without being asked for": 1,
        "said to be done and not done": 1,
    }
