"""Many tenants at one instance, in turn: each request gets what belongs to its key, and nothing else."""

import asyncio
import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.aws.events import Asked, answer_of, event_of
from tests.emulators.tiflux import Tenant, TifluxEmulator
from toolyard.app.aws_lambda import Function, function

TENANTS = 50
REQUESTS = 1000
MARK = re.compile(r"\bt\d{4}\b")


@dataclass
class Context:
    """What AWS tells a handler of an invocation."""

    aws_request_id: str = "0"
    left_ms: int = field(default=30_000)

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TOOLYARD_KEY", "the key of these tests, no secret")
    return monkeypatch


async def test_a_thousand_interleaved_requests_of_fifty_tenants_get_what_is_theirs(
    environment: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    async with TifluxEmulator() as upstream:
        environment.setenv("TIFLUX_API_BASE_URL", upstream.url)
        tenants = [upstream.add_tenant(f"key-of-tenant-{number:04}") for number in range(TENANTS)]
        handler = function(["tiflux"])
        turns = [tenant for tenant in tenants for _ in range(REQUESTS // TENANTS)]
        random.Random(7).shuffle(turns)
        # Four at a time, in threads, as a real client would not be able to: the handler gives each its turn.
        free = asyncio.Semaphore(4)

        async def ask(number: int, tenant: Tenant) -> None:
            async with free:
                await asyncio.to_thread(check, handler, tenant, number)

        await asyncio.gather(*(ask(number, tenant) for number, tenant in enumerate(turns)))
    assert {request.key for request in upstream.requests} == {tenant.key for tenant in tenants}
    logged = capfd.readouterr()
    assert not any(tenant.key in logged.out + logged.err for tenant in tenants)


TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("get_ticket", {"ticket_number": "1"}),
    ("list_tickets", {"desk_name": "Suporte"}),
    ("search_client", {"client_name": "Padaria"}),
]


def check(handler: Function, tenant: Tenant, number: int) -> None:
    """One call with the tenant's key: every mark in the answer is that tenant's."""
    tool, arguments = TOOLS[number % len(TOOLS)]
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    headers = [("content-type", "application/json"), ("x-tiflux-api-key", tenant.key)]
    event = event_of(Asked("POST", "/mcp", "", headers, json.dumps(message).encode()))
    reply = json.loads(answer_of(json.dumps(handler(event, Context(str(number)))).encode()).body)
    assert reply["id"] == number
    assert not reply["result"].get("isError"), reply
    assert set(MARK.findall(json.dumps(reply["result"]["structuredContent"]))) == {tenant.mark}
