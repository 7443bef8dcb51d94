"""Records on their way to a webhook and to syslog, through outages and restarts."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.audit.records import KEY, record
from tests.waiting import PATIENCE
from toolyard.audit import AuditLog, open_audit
from toolyard.audit.delivery import AuditDelivery, WebhookSink
from toolyard.audit.record import ArgumentPolicy
from toolyard.config.callers import AuditConfig


class Receiver:
    """A webhook. `answers` are given first, one to a request; then 204."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[web.Response] = []
        self.largest = 10**6
        self._news = asyncio.Condition()

    async def post(self, request: web.Request) -> web.Response:
        body = await request.json()
        async with self._news:
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self._news.notify_all()
            if len(body["records"]) > self.largest:
                return web.Response(status=413)
            if self.answers:
                return self.answers.pop(0)
            self.lines += body["records"]
        return web.Response(status=204)

    async def until(self, *request_ids: str) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: set(request_ids) <= set(self.ids))

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.headers) >= times)

    @property
    def ids(self) -> list[str]:
        return [line["request_id"] for line in self.lines if line["event"] == "call"]


@pytest.fixture
async def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def address(receiver: Receiver) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/in", receiver.post)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/in"
    await runner.cleanup()


def opened(url: str, folder: Path, webhook: str, **changes: Any) -> AuditLog:
    return open_audit(AuditConfig(url=url, webhook=webhook, **changes), folder, KEY)


def adopting(url: str, folder: Path, webhook: str) -> AuditLog:
    """A log that at once takes over chains of others."""
    store = open_audit(AuditConfig(url=url), folder, KEY).store
    delivery = AuditDelivery(store, WebhookSink(webhook, {}), orphan_seconds=0.05)
    return AuditLog(store, ArgumentPolicy("none", KEY), deliveries=[delivery])


async def test_a_webhook_gets_every_line_once_in_order_with_the_headers(
    url: str, tmp_path: Path, receiver: Receiver, address: str
):
    log = opened(url, tmp_path, address, webhook_headers={"Authorization": "Bearer abc"})
    await log.start()
    for number in range(20):
        await log.append(record(number))
    await receiver.until("r-19")
    await log.append(record(20))
    await receiver.until("r-20")
    await log.close()
    assert receiver.ids == [f"r-{number}" for number in range(21)]
    assert [line["seq"] for line in receiver.lines] == list(range(22))
    assert receiver.headers[0]["authorization"] == "Bearer abc"
    assert receiver.headers[-1]["idempotency-key"].endswith("-21")


async def test_what_is_not_accepted_is_sent_again(tmp_path: Path, receiver: Receiver, address: str):
    receiver.answers = [web.Response(status=500), web.Response(status=302, headers={"Location": "/else"})]
    log = opened("file:", tmp_path, address)
    await log.start()
    await log.append(record(1))
    await receiver.until("r-1")
    await log.close()
    assert receiver.ids == ["r-1"]
    assert len(receiver.headers) == 3


async def test_a_batch_that_is_too_large_is_halved(tmp_path: Path, receiver: Receiver, address: str):
    receiver.largest = 3
    log = opened("file:", tmp_path, address)
    await log.start()
    for number in range(10):
        await log.append(record(number))
    await receiver.until("r-9")
    await log.close()
    assert receiver.ids == [f"r-{number}" for number in range(10)]


async def test_the_next_process_sends_what_a_dead_one_did_not(
    url: str, tmp_path: Path, receiver: Receiver, address: str
):
    receiver.answers = [web.Response(status=503) for _ in range(9)]
    dead = opened(url, tmp_path, address)
    await dead.start()
    await dead.append(record(1))
    await receiver.until_asked(1)
    await dead.close()
    receiver.answers = []
    heir = adopting(url, tmp_path, address)
    await heir.start()
    await heir.append(record(2))
    await receiver.until("r-1", "r-2")
    await heir.close()
    assert sorted(receiver.ids) == ["r-1", "r-2"]


async def test_what_was_recorded_before_the_webhook_was_set_is_not_sent(
    tmp_path: Path, receiver: Receiver, address: str
):
    before = open_audit(AuditConfig(url="file:"), tmp_path, KEY)
    await before.append(record(1))
    await before.close()
    log = adopting("file:", tmp_path, address)
    await log.start()
    await log.append(record(2))
    await receiver.until("r-2")
    await log.close()
    assert receiver.ids == ["r-2"]


_MESSAGE = re.compile(
    rb"<(\d+)>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \S+ toolyard \d+ (\w+) - (\{.*\})", re.S
)


@pytest.mark.parametrize("kind", ["udp", "socket"])
async def test_syslog_gets_a_datagram_for_each_line(tmp_path: Path, kind: str):
    if kind == "udp":
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{listening.getsockname()[1]}"
    else:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening.bind(str(tmp_path / "log"))
        target = str(tmp_path / "log")
    listening.setblocking(False)
    log = open_audit(AuditConfig(url="file:", syslog=target), tmp_path, KEY)
    await log.start()
    await log.append(record(1))
    await log.append(record(2, outcome="refused"))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE):
        messages = [_MESSAGE.fullmatch(await loop.sock_recv(listening, 65536)) for _ in range(3)]
    await log.close()
    listening.close()
    assert [message and (message[1], message[2]) for message in messages] == [
        (b"110", b"start"),
        (b"110", b"call"),
        (b"108", b"call"),
    ]
