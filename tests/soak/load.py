"""The load of the soak: what a client does, in which proportion, and what the answers must say."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

from tests.soak.clients import Client
from tests.soak.ledger import Message

_tokens = count(1)
_SIZES = (10_000, 100_000, 1_000_000)


class Customer:
    """One client that goes on and on, at a pace of its own."""

    def __init__(self, client: Client, upstreams: list[str], pause: float, choice: random.Random) -> None:
        self._client = client
        self._ledger = client.ledger
        self._upstreams = upstreams
        self._pause = pause
        self._choice = choice
        self._pages: dict[str, str] = {}

    _MIX: tuple[tuple[str, int], ...] = (
        ("echo", 50),
        ("once", 15),
        ("linger", 6),
        ("think", 6),
        ("steps", 6),
        ("ask", 6),
        ("page", 5),
        ("prompt", 5),
        ("large", 5),
        ("list", 4),
        ("abandon", 4),
    )

    async def run(self, stop: asyncio.Event) -> None:
        names, weights = zip(*self._MIX, strict=True)
        try:
            await self._client.open()
            await self._find_pages()
            while not stop.is_set():
                (name,) = self._choice.choices(names, weights)
                does: Callable[[str], Awaitable[None]] = getattr(self, f"_{name}")
                started = time.monotonic()
                await does(self._choice.choice(self._upstreams))
                self._ledger.took(f"{self._client.era} {name}", time.monotonic() - started)
                await asyncio.sleep(self._choice.expovariate(1 / self._pause))
        finally:
            await self._client.close()

    async def _find_pages(self) -> None:
        answer = await self._client.request("resources/list", {})
        uris: list[str] = [resource["uri"] for resource in (answer or {})["result"]["resources"]]
        for upstream in self._upstreams:
            self._pages[upstream] = next(uri for uri in uris if f"{upstream}/page" in uri)

    async def _echo(self, upstream: str) -> None:
        text = f"{upstream} {next(_tokens)} é\u2028"
        await self._tool(upstream, "echo", {"text": text}, text)

    async def _once(self, upstream: str) -> None:
        token = f"{upstream}-{next(_tokens)}"
        self._ledger.tokens[token] = False
        self._ledger.tokens[token] = await self._tool(upstream, "once", {"token": token}, token)

    async def _linger(self, upstream: str) -> None:
        token = f"{upstream}-{next(_tokens)}"
        self._ledger.tokens[token] = False
        arguments = {"token": token, "seconds": self._choice.uniform(0, 1)}
        self._ledger.tokens[token] = await self._tool(upstream, "linger", arguments, token)

    async def _think(self, upstream: str) -> None:
        await self._tool(upstream, "think", {"seconds": self._choice.uniform(0, 1)}, "thought")

    async def _steps(self, upstream: str) -> None:
        await self._tool(upstream, "steps", {"count": 5}, "5 steps", progress=True)

    async def _ask(self, upstream: str) -> None:
        await self._tool(upstream, "ask", {}, "Hello Ada")

    async def _large(self, upstream: str) -> None:
        size = self._choice.choice(_SIZES)
        await self._tool(upstream, "large", {"size": size}, "x" * size)

    async def _abandon(self, upstream: str) -> None:
        params = {"name": f"mcp__{upstream}__wait", "arguments": {"seconds": 20}}
        await self._client.abandon("tools/call", params, after=self._choice.uniform(0.01, 0.2))

    async def _list(self, _: str) -> None:
        answer = await self._client.request("tools/list", {})
        if answer is None:
            return
        listed = {tool["name"] for tool in answer.get("result", {}).get("tools", ())}
        missing = {f"mcp__{upstream}__echo" for upstream in self._upstreams} - listed
        if missing:
            self._ledger.complain("missing in the list", f"{sorted(missing)}: {answer}")

    async def _page(self, upstream: str) -> None:
        started = time.monotonic()
        answer = await self._client.request("resources/read", {"uri": self._pages[upstream]})
        said = answer and _text(answer, "contents", 0, "text")
        self._check(upstream, "page", started, answer, said, f"page of {upstream}")

    async def _prompt(self, upstream: str) -> None:
        started = time.monotonic()
        params = {"name": f"mcp__{upstream}__greet", "arguments": {"who": "Ada"}}
        answer = await self._client.request("prompts/get", params)
        said = answer and _text(answer, "messages", 0, "content", "text")
        self._check(upstream, "prompt", started, answer, said, "Greet Ada")

    async def _tool(
        self, upstream: str, tool: str, arguments: Message, expected: str, progress: bool = False
    ) -> bool:
        started = time.monotonic()
        params = {"name": f"mcp__{upstream}__{tool}", "arguments": arguments}
        answer = await self._client.request("tools/call", params, progress)
        said = answer and _text(answer, "content", 0, "text")
        return self._check(upstream, tool, started, answer, said, expected)

    def _check(
        self, upstream: str, what: str, started: float, answer: Message | None, said: Any, expected: str
    ) -> bool:
        """Whether the answer is the right one. An error has to have a reason that we know of."""
        if answer is None:
            return False
        if "error" in answer:
            error = answer["error"]
            self._ledger.failed(upstream, started, what, f"{error['code']} {error['message']}"[:160])
            return False
        if answer["result"].get("isError"):
            self._ledger.failed(upstream, started, what, f"isError {said}"[:160])
            return False
        if said != expected:
            self._ledger.complain("wrong answer", f"{upstream} {what}: {answer}"[:300])
            return False
        return True


def _text(answer: Message, *path: str | int) -> Any:
    """What stands at a place in a result; None when the result has another shape."""
    found: Any = answer.get("result")
    with suppress(KeyError, IndexError, TypeError):
        for step in path:
            found = found[step]
        return found
    return None
