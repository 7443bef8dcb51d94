"""Many tenants at a few instances, in turn: each request gets what belongs to its key, and nothing else."""

import asyncio
import json
import random
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.aws.events import Answered, Asked, event_of
from tests.aws.runtime_api import Runtime, running
from tests.aws.works import write
from tests.emulators.tiflux import Tenant, TifluxEmulator

INSTANCES = 2
TENANTS = 50
REQUESTS = 1000
MARK = re.compile(r"\bt\d{4}\b")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_ticket", {"ticket_number": "1"}),
    ("list_tickets", {"desk_name": "Suporte"}),
    ("search_client", {"client_name": "Padaria"}),
]


async def test_a_thousand_interleaved_requests_of_fifty_tenants_get_what_is_theirs(tmp_path: Path):
    async with TifluxEmulator() as upstream, AsyncExitStack() as stack:
        tenants = [upstream.add_tenant(f"key-of-tenant-{number:04}") for number in range(TENANTS)]
        turns = [tenant for tenant in tenants for _ in range(REQUESTS // TENANTS)]
        random.Random(7).shuffle(turns)
        variables = {"TIFLUX_API_BASE_URL": upstream.url, "TOOLYARD_STREAM": "0", "TOOLYARD_KEY": "k" * 32}
        command = (sys.executable, "-m", "toolyard.edge.aws.runtime")
        folder = write(tmp_path, "tiflux")
        instances = [
            await stack.enter_async_context(
                running(folder, folder / f"{number}.log", variables, command=command)
            )
            for number in range(INSTANCES)
        ]
        shares = [turns[number::INSTANCES] for number in range(INSTANCES)]
        await asyncio.gather(*map(serve_in_turn, instances, shares))
        assert {request.key for request in upstream.requests} == {tenant.key for tenant in tenants}
        for instance in instances:
            assert instance.log.count("tools/call") >= REQUESTS // INSTANCES
            assert not any(tenant.key in instance.log for tenant in tenants)


async def serve_in_turn(instance: Runtime, tenants: list[Tenant]) -> None:
    """One call after the other: every mark in an answer is that of the tenant whose key was sent."""
    for number, tenant in enumerate(tenants):
        name, arguments = CALLS[number % len(CALLS)]
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        headers = [("content-type", "application/json"), ("x-tiflux-api-key", tenant.key)]
        answer = await instance.invoke(event_of(Asked("POST", "/mcp", "", headers, encoded(message))))
        assert isinstance(answer, Answered)
        reply = json.loads(answer.body)
        assert reply["id"] == number
        assert not reply["result"].get("isError"), reply
        assert set(MARK.findall(json.dumps(reply["result"]["structuredContent"]))) == {tenant.mark}


def encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()
