"""`python -m bench.aws_lambda.api --port N`: a fast stand-in for the part of TiFlux's API that `get_ticket`
needs.

Every ticket names the key that requested it, so that replies can be checked for mix-ups.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from functools import cache
from typing import Any

import httptools
import msgspec

from bench.kit_servers import end_with_parent
from bench.process import HOST

BASE = "/api/v2"
ME = msgspec.json.encode({"id": 1, "name": "Ana", "_type": "admin", "active": True, "enable_mcp": True})
DESCRIPTION = "<p>The printer on the second floor prints every page twice since this morning.</p>" * 4


def mark_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


@cache
def ticket(number: str, mark: str) -> bytes:
    """A ticket with every field that the facts name, of about 2 kB."""
    fields: dict[str, Any] = {
        "id": int(number) + 1_000_000,
        "ticket_number": int(number),
        "title": f"Ticket {number} of {mark}",
        "description": DESCRIPTION,
        "status": {"id": 1, "name": "Open", "default_open": True},
        "priority": {"id": 2, "name": "High"},
        "desk": {"id": 3, "name": "support", "display_name": "Support", "active": True},
        "stage": {"id": 4, "name": "To do", "first_stage": True, "last_stage": False, "max_time": "08:00"},
        "services_catalog": {
            "id": 5,
            "item_name": "Printer",
            "area_id": 6,
            "area_name": "Hardware",
            "catalog_id": 7,
            "catalog_name": "Office",
        },
        "client": {"id": 8, "name": f"Client {mark}", "social": "Client Ltd", "status": True},
        "responsible": {
            "id": 7,
            "name": f"Ana {mark}",
            "email": "ana@example.com",
            "_type": "attendant",
            "active": True,
            "technical_group_id": 9,
        },
        "created_by": {"name": "Rui"},
        "created_by_id": 10,
        "created_by_way_of": "email",
        "updated_by": {"name": "Ana"},
        "updated_by_id": 7,
        "followers": "rui@example.com,eva@example.com",
        "tags": ["printer", "office"],
        "worked_hours": "01:30",
        "reopen_count": 0,
        "last_reopen_date": None,
        "is_closed": False,
        "is_grouped": False,
        "is_revised": False,
        "closed_at": None,
        "created_at": "2026-11-02T09:14:00Z",
        "updated_at": "2026-11-03T10:00:00Z",
        "sla_info": {
            "attend_sla": "2026-11-02T13:14:00Z",
            "attend_expiration": "2026-11-02T13:14:00Z",
            "solve_expiration": "2026-11-04T09:14:00Z",
            "solved_in_time": None,
            "stage_expiration": "2026-11-03T09:14:00Z",
            "stopped": False,
        },
        "url_internal_path": f"https://app.example.com/v/tickets/{number}",
        "url_external_path": f"https://app.example.com/r/externals/tickets/{number}",
        "entities": [],
    }
    return msgspec.json.encode(fields)


class Responder(asyncio.Protocol):
    """One keep-alive connection: parsed in C, answered from memory."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._key = b"", ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._path, self._key = b"", ""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._key = value.decode("latin-1").removeprefix("Bearer ")

    def on_message_complete(self) -> None:
        status, body = self._reply(self._path.decode("latin-1").partition("?")[0])
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)

    def _reply(self, path: str) -> tuple[str, bytes]:
        if not self._key:
            return "401 Unauthorized", b'{"error":"no key"}'
        if path == f"{BASE}/users/me":
            return "200 OK", ME
        number = path.removeprefix(f"{BASE}/tickets/")
        if not number.isdigit():
            return "404 Not Found", b'{"error":"no such path"}'
        return "200 OK", ticket(number, mark_of(self._key))


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Responder, HOST, port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.aws_lambda.api", description="Serve tickets.")
    parser.add_argument("--port", type=int, required=True)
    end_with_parent()
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
