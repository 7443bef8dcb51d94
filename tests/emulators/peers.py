"""Who talks to the emulated Composio in the tests: the official package in its process, and plain HTTP."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.emulators.composio import ComposioEmulator
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "envs" / "composio" / "bin" / "python"


class Official:
    """The process with the official package in it."""

    def __init__(self, home: Path) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment = {**kept, "HOME": str(home), "COMPOSIO_CACHE_DIR": str(home / "cache")}
        # -P, because beside the program is the emulator, which is called `composio` too.
        program = [str(PYTHON), "-P", str(ROOT / "tests" / "emulators" / "official.py")]
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(home / "stderr.txt").open("w"),
            env=environment,
            text=True,
            cwd=home,
        )
        self.home = home

    async def do(
        self,
        emulator: ComposioEmulator,
        name: str,
        /,
        settings: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        **arguments: Any,
    ) -> Any:
        """What came of it; raises what the package raised as a `Raised`."""
        order = {
            "do": name,
            "at": emulator.url,
            "key": emulator.api_key,
            "with": arguments,
            "settings": settings or {},
            "environment": environment or {},
        }
        answer = await asyncio.to_thread(self._ask, order)
        if "failed" in answer:
            raise Raised(answer["failed"], answer["status"], answer["message"])
        return answer["done"]

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, (self.home / "stderr.txt").read_text()
        return json.loads(line)

    def close(self) -> None:
        # It has nothing left to do, and takes seconds to fold its modules up by itself.
        self._process.kill()
        self._process.communicate()


class Raised(Exception):
    """What the official package raised: the name of the class, the HTTP status if any, the message."""

    def __init__(self, kind: str, status: int | None, message: str) -> None:
        super().__init__(f"{kind} {status}: {message}")
        self.kind = kind
        self.status = status


class Plain:
    """Requests of which the test says every field, with the right key."""

    def __init__(self, emulator: ComposioEmulator, session: aiohttp.ClientSession) -> None:
        self._emulator = emulator
        self._session = session

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any, Any]:
        """The status, the body decoded, the headers."""
        url = path if path.startswith("http") else self._emulator.url + path
        given = {} if body is None else {"json": body}
        async with self._session.request(method, url, **given, **more) as answer:
            raw = await answer.read()
            kind = answer.headers.get("Content-Type", "")
            return answer.status, json.loads(raw) if kind == "application/json" else raw, answer.headers

    async def get(self, path: str, **more: Any) -> Any:
        return await self._good("GET", path, None, **more)

    async def post(self, path: str, body: Any) -> Any:
        return await self._good("POST", path, body)

    async def _good(self, method: str, path: str, body: Any, **more: Any) -> Any:
        status, answer, _ = await self.ask(method, path, body, **more)
        assert status in (200, 201), answer
        return answer


@asynccontextmanager
async def plain(emulator: ComposioEmulator) -> AsyncIterator[Plain]:
    async with aiohttp.ClientSession(headers={"x-api-key": emulator.api_key}) as session:
        yield Plain(emulator, session)


async def open_in_browser(link: str) -> int:
    """What a user does with a link: no key, only the address."""
    async with aiohttp.ClientSession() as browser, browser.get(link, allow_redirects=False) as page:
        return page.status


@asynccontextmanager
async def mcp_client(url: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """The `mcp` SDK's client; `mode` is `auto` for the modern era or `legacy`."""
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def called(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the call was an error, and the `{data, error, successful}` in its text."""
    result = await client.call_tool(tool, arguments)
    return bool(result.is_error), json.loads(result.content[0].text)  # type: ignore[union-attr]
