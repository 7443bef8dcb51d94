"""The clients of the soak, one of each era, over HTTP. They see every message that comes for a request."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp

from tests.soak.ledger import Ledger, Message

LIMIT_S = 30.0
"""A request without an answer by then counts as one without an answer."""
PREFIX = "io.modelcontextprotocol/"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
ADA = {"action": "accept", "content": {"name": "Ada"}}
INFO = {"name": "soak", "version": "1"}
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_ids = itertools.count(1)


class Client:
    """What both eras have in common: sending one request and taking what comes until the reply ends."""

    era = ""

    def __init__(self, url: str, ledger: Ledger) -> None:
        self._url = url
        self.ledger = ledger
        timeout = aiohttp.ClientTimeout(total=LIMIT_S)
        self._http = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))

    async def open(self) -> None:
        """Whatever the era wants before the first request."""

    async def close(self) -> None:
        await self._http.close()

    async def request(self, method: str, params: Message, progress: bool = False) -> Message | None:
        """The one answer to a request, with its questions answered on the way; None if there was not one."""
        raise NotImplementedError

    async def abandon(self, method: str, params: Message, after: float) -> None:
        """Send a request that takes long, and take it back."""
        raise NotImplementedError

    async def _exchange(self, headers: Message, message: Message) -> AsyncIterator[Message]:
        body = json.dumps(message)
        async with self._http.post(self._url, data=body, headers=BOTH | headers) as response:
            if response.content_type == "text/event-stream":
                async for found in _events(response.content):
                    yield found
            elif response.status != 202:
                yield json.loads(await response.read())


class ModernClient(Client):
    era = "modern"

    async def request(self, method: str, params: Message, progress: bool = False) -> Message | None:
        answer = await self._send(method, params, progress)
        while answer and answer.get("result", {}).get("resultType") == "input_required":
            result = answer["result"]
            self.ledger.rounds += 1
            answers = dict.fromkeys(result.get("inputRequests", {}), ADA)
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            answer = await self._send(method, params | {"inputResponses": answers} | state, progress)
        return answer

    async def abandon(self, method: str, params: Message, after: float) -> None:
        headers, message = self._message(method, params, False)
        self.ledger.sent += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(after):
                async for _ in self._exchange(headers, message):
                    pass
        self.ledger.cancelled += 1

    async def _send(self, method: str, params: Message, progress: bool) -> Message | None:
        headers, message = self._message(method, params, progress)
        self.ledger.sent += 1
        messages: list[Message] = []
        with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
            messages += [found async for found in self._exchange(headers, message)]
        self.ledger.progress += sum(m.get("method") == "notifications/progress" for m in messages)
        return self.ledger.answers(message["id"], messages, f"modern {method} {params.get('name', '')}")

    def _message(self, method: str, params: Message, progress: bool) -> tuple[Message, Message]:
        id = next(_ids)
        meta = {
            PREFIX + "protocolVersion": MODERN,
            PREFIX + "clientCapabilities": {"elicitation": {"form": {}}},
            PREFIX + "clientInfo": INFO,
        }
        meta |= {"progressToken": f"p{id}"} if progress else {}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if (name := params.get("name", params.get("uri"))) is not None:
            headers["Mcp-Name"] = name
        return headers, {"jsonrpc": "2.0", "id": id, "method": method, "params": params | {"_meta": meta}}


class LegacyClient(Client):
    era = "legacy"

    async def open(self) -> None:
        params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": INFO}
        message = {"jsonrpc": "2.0", "id": next(_ids), "method": "initialize", "params": params}
        async with self._http.post(self._url, data=json.dumps(message), headers=BOTH) as response:
            await response.read()
            session = response.headers["Mcp-Session-Id"]
        self._headers = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
        await self._tell({"method": "notifications/initialized", "params": {}})
        self._listening = asyncio.create_task(self._listen())

    async def close(self) -> None:
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening
        async with self._http.delete(self._url, headers=self._headers):
            await super().close()

    async def request(self, method: str, params: Message, progress: bool = False) -> Message | None:
        id = next(_ids)
        if progress:
            params = params | {"_meta": {"progressToken": f"p{id}"}}
        self.ledger.sent += 1
        messages: list[Message] = []
        with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
            messages = await self._converse({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        self.ledger.progress += sum(m.get("method") == "notifications/progress" for m in messages)
        return self.ledger.answers(id, messages, f"legacy {method} {params.get('name', '')}")

    async def abandon(self, method: str, params: Message, after: float) -> None:
        id = next(_ids)
        self.ledger.sent += 1
        call = asyncio.create_task(
            self._converse({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        )
        await asyncio.wait({call}, timeout=after)
        await self._tell({"method": "notifications/cancelled", "params": {"requestId": id}})
        started = time.monotonic()
        with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
            await call
        if time.monotonic() - started > LIMIT_S / 2:
            self.ledger.complain("a cancelled call goes on", f"{params.get('name')}")
        self.ledger.cancelled += 1

    async def _converse(self, message: Message) -> list[Message]:
        messages: list[Message] = []
        async for found in self._exchange(self._headers, message):
            if "method" in found and "id" in found:
                self.ledger.rounds += 1
                await self._tell({"id": found["id"], "result": ADA})
            else:
                messages.append(found)
        return messages

    async def _tell(self, message: Message) -> None:
        body = json.dumps({"jsonrpc": "2.0"} | message)
        async with self._http.post(self._url, data=body, headers=BOTH | self._headers) as response:
            await response.read()

    async def _listen(self) -> None:
        """The session's own stream: changes come here, and answers must not."""
        headers = self._headers | {"Accept": "text/event-stream"}
        forever = aiohttp.ClientTimeout(total=None)
        async with self._http.get(self._url, headers=headers, timeout=forever) as response:
            async for found in _events(response.content):
                if "method" not in found:
                    self.ledger.doubled += 1
                    self.ledger.complain("an answer on the session's stream", json.dumps(found))


async def _events(content: Any) -> AsyncIterator[Message]:
    rest = bytearray()
    async for chunk in content.iter_any():
        rest += chunk
        if b"\n\n" not in chunk and b"\n\n" not in rest[-len(chunk) - 2 :]:
            continue
        *blocks, rest = rest.split(b"\n\n")
        for block in blocks:
            data = [line[5:].strip() for line in bytes(block).split(b"\n") if line.startswith(b"data:")]
            if data and (joined := b"\n".join(data)):
                yield json.loads(joined)
