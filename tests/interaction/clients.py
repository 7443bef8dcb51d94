"""A small client of our own over raw JSON-RPC, once per edge, in both eras.

Owns how a conversation is held: the handshake, the `_meta` and headers of each era, the answers to what the
server asks, and where notifications come in. Takes nothing from `toolyard` but the in-process connection,
so that the server's own reading of the protocol does not vouch for itself.
"""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
from msgspec import Raw

from tests.waiting import PATIENCE
from toolyard.client.memory import MemoryConnector
from toolyard.kit import Server
from toolyard.upstream.connection import ClientProfile
from toolyard.wire.errors import McpError

T = TypeVar("T")
Json = dict[str, Any]
Answerer = Callable[[Json], Any]


LEGACY, MODERN = "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
SUBSCRIPTION = PREFIX + "subscriptionId"
TASKS = PREFIX + "tasks"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


async def soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await awaitable


class RpcError(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message
        self.data = data


def result_of(message: Json) -> Json:
    if "error" in message:
        error = message["error"]
        raise RpcError(error["code"], error["message"], error.get("data"))
    return message["result"]


class Inbox:
    """Notifications as they came, and the means to wait for one."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Json]] = []
        self._unread: list[tuple[str, Json]] = []
        self._news = asyncio.Event()

    def put(self, method: str, params: Json) -> None:
        self.all.append((method, params))
        self._unread.append((method, params))
        self._news.set()

    def of(self, method: str) -> list[Json]:
        return [params for name, params in self.all if name == method]

    async def next(self, method: str, **members: Any) -> Json:
        """The next unread one of that method with these members; what it is not stays unread."""

        async def find() -> Json:
            while True:
                self._news.clear()
                for position, (name, params) in enumerate(self._unread):
                    if name == method and members.items() <= params.items():
                        del self._unread[position]
                        return params
                await self._news.wait()

        return await soon(find())


@dataclass
class Habits:
    """What a client can do, and how it answers."""

    era: str
    elicit: Answerer | None = None
    sample: Answerer | None = None
    roots: Answerer | None = None
    links: bool = False
    tasks: bool = False
    level: str | None = None
    """Log lines from here upwards, please."""
    asked: list[tuple[str, Json]] = field(default_factory=list)

    @property
    def capabilities(self) -> Json:
        found: Json = {}
        if self.elicit is not None:
            found["elicitation"] = {"form": {}, "url": {}} if self.links else {}
        if self.sample is not None:
            found["sampling"] = {}
        if self.roots is not None:
            found["roots"] = {}
        if self.tasks:
            found["extensions"] = {TASKS: {}}
        return found

    async def answer(self, method: str, params: Json) -> Any:
        """What a question gets; RpcError when there is nobody to answer it."""
        self.asked.append((method, params))
        answerers = {
            "elicitation/create": self.elicit,
            "sampling/createMessage": self.sample,
            "roots/list": self.roots,
        }
        answerer = answerers.get(method)
        if answerer is None:
            raise RpcError(-32601, f"nobody answers {method}")
        value = answerer(params)
        return await value if isinstance(value, Awaitable) else value


class Pending:
    """A request that is under way."""

    def __init__(self, running: Coroutine[Any, Any, Json], cancel: Callable[[], Awaitable[None]]) -> None:
        self._task = asyncio.create_task(running)
        self._cancel = cancel

    async def answer(self) -> Json:
        return await soon(asyncio.shield(self._task))

    async def cancel(self) -> None:
        """Cancel it in the way of its edge and era, and wait until nothing of it is left on this side."""
        await self._cancel()
        self._task.cancel()
        with suppress(asyncio.CancelledError, RpcError):
            await self._task


class Client:
    """One connected client. Subclasses carry single messages; the conversation is held here."""

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self.era = habits.era
        self.manner = habits.era
        """In which era's way a question that goes wrong is told: the upstream's, where that judges it."""
        self.inbox = Inbox()
        self.about: Json = {}
        """What the server said of itself."""
        self._ids = itertools.count(1)
        self._tokens = itertools.count(1)
        self._answering: dict[Any, asyncio.Task[None]] = {}

    @property
    def asked(self) -> list[tuple[str, Json]]:
        return self.habits.asked

    # What a test says

    async def request(self, method: str, params: Json | None = None, *, progress: bool = False) -> Json:
        """Ask the server something, answering what it asks back."""
        return await self.start(method, params, progress=progress).answer()

    def start(self, method: str, params: Json | None = None, *, progress: bool = False) -> Pending:
        """Ask, and do something else meanwhile."""
        sent: list[int] = []
        running = self._converse(method, dict(params or {}), sent, progress)
        return Pending(running, lambda: self.cancel(sent[-1]) if sent else _nothing())

    async def call(self, tool: str, arguments: Json | None = None, *, progress: bool = False) -> Json:
        params = {"name": tool, "arguments": arguments or {}}
        return await self.request("tools/call", params, progress=progress)

    async def text(self, tool: str, arguments: Json | None = None) -> str:
        """The text of a result that is one piece of text."""
        (block,) = (await self.call(tool, arguments))["content"]
        return block["text"]

    async def step(self, method: str, params: Json) -> Json:
        """One request, without answering what comes back."""
        return await self.carry(next(self._ids), method, {**params, "_meta": self._meta(False)})

    async def pages(self, method: str, member: str) -> list[list[Json]]:
        found: list[list[Json]] = []
        params: Json = {}
        while True:
            answer = await self.request(method, params)
            found.append(answer[member])
            if "nextCursor" not in answer:
                return found
            params = {"cursor": answer["nextCursor"]}

    @asynccontextmanager
    async def hearing(self, *uris: str, tasks: list[str] | None = None) -> AsyncIterator[Json]:
        """Hear of every list's changes, and of these resources and tasks. Gives what was agreed to."""
        if self.era == "legacy":
            async with self.listening():
                for uri in uris:
                    await self.request("resources/subscribe", {"uri": uri})
                yield {}
                return
        wanted: Json = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
        wanted |= {"resourceSubscriptions": list(uris)} if uris else {}
        wanted |= {"taskIds": tasks} if tasks is not None else {}
        stream = self.start("subscriptions/listen", {"notifications": wanted})
        try:
            yield (await self.inbox.next(ACKNOWLEDGED))["notifications"]
        finally:
            await stream.cancel()

    # What an edge does

    async def carry(self, id: int, method: str, params: Json) -> Json:
        """One request to its result."""
        raise NotImplementedError

    async def cancel(self, id: int) -> None:
        """Tell the server that a request is no longer wanted."""
        raise NotImplementedError

    async def stop_server(self) -> None:
        """Make the server close in the way it would on this edge."""
        raise NotImplementedError

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Legacy: be where change notifications come."""
        yield

    # The conversation

    async def shake_hands(self) -> None:
        if self.era == "legacy":
            opening = {
                "protocolVersion": LEGACY,
                "capabilities": self.habits.capabilities,
                "clientInfo": {"name": "talker", "version": "1"},
            }
            self.about = await self.request("initialize", opening)
            assert self.about["protocolVersion"] == LEGACY
            await self.notify("notifications/initialized")
            if self.habits.level is not None:
                await self.request("logging/setLevel", {"level": self.habits.level})
        else:
            self.about = await self.request("server/discover")

    async def notify(self, method: str) -> None:
        raise NotImplementedError

    async def _converse(self, method: str, params: Json, sent: list[int], progress: bool) -> Json:
        meta = self._meta(progress)
        if meta:
            params["_meta"] = meta
        while True:
            sent.append(next(self._ids))
            result = await self.carry(sent[-1], method, params)
            if result.get("resultType") != "input_required":
                return result
            params |= {
                "inputResponses": {
                    key: await self.habits.answer(question["method"], question["params"])
                    for key, question in result["inputRequests"].items()
                },
                "requestState": result["requestState"],
            }

    def _meta(self, progress: bool) -> Json:
        meta: Json = {"progressToken": f"p-{next(self._tokens)}"} if progress else {}
        if self.era == "modern":
            meta |= {
                PREFIX + "protocolVersion": MODERN,
                PREFIX + "clientCapabilities": self.habits.capabilities,
                PREFIX + "clientInfo": {"name": "talker", "version": "1"},
            }
            if self.habits.level is not None:
                meta[PREFIX + "logLevel"] = self.habits.level
        return meta

    def take(self, message: Json, respond: Callable[[Json], Awaitable[None]]) -> None:
        """What the server says of its own accord: news, a question, or that it no longer asks one."""
        params = message.get("params", {})
        if "id" in message:
            assert self.era == "legacy", f"a modern client was sent a request: {message}"
            task = asyncio.create_task(self._answer(message, respond))
            self._answering[message["id"]] = task
            task.add_done_callback(lambda _: self._answering.pop(message["id"]))
            return
        self.inbox.put(message["method"], params)
        if message["method"] == "notifications/cancelled" and params["requestId"] in self._answering:
            self._answering[params["requestId"]].cancel()

    async def stop_answering(self) -> None:
        """Give up the answers that are still being thought about."""
        tasks = list(self._answering.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, message: Json, respond: Callable[[Json], Awaitable[None]]) -> None:
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = await self.habits.answer(message["method"], message.get("params", {}))
        except RpcError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        await respond(reply)


async def _nothing() -> None:
    return None


class InProcessClient(Client):
    """Through the connection that `toolyard.Client(server)` has, one message at a time."""

    def __init__(self, habits: Habits, server: Server) -> None:
        super().__init__(habits)
        self._server = server
        self._listener = _InProcessListener(self)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        era: Any = self.habits.era
        able = self.habits.capabilities
        profile = ClientProfile(json.dumps(able).encode(), info=b'{"name":"talker","version":"1"}')
        self._connection = await MemoryConnector(self._server.service, era).open(profile)
        self._connection.adopt(self._listener)
        self._connection.watch(self._changed)
        try:
            yield
        finally:
            self._connection.unwatch(self._changed)
            await self._connection.close()

    def _changed(self, method: str, params: Raw) -> None:
        self.inbox.put(method, json.loads(bytes(params)))

    async def carry(self, id: int, method: str, params: Json) -> Json:
        members = {name: Raw(json.dumps(value).encode()) for name, value in params.items()}
        token = params.get("_meta", {}).get("progressToken")
        try:
            result: Any = await self._connection.request(method, members, self._listener, token)
        except McpError as error:
            raise RpcError(error.code, error.message, error.data) from None
        return json.loads(bytes(result))

    async def cancel(self, id: int) -> None:
        """There is no message for it: whoever awaits the call lets go of it."""

    async def stop_server(self) -> None:
        await self._server.service.close()

    async def notify(self, method: str) -> None:
        return None


class _InProcessListener:
    """Hears the server during a call, and outside of any."""

    principal = "in process"
    asks_immediately = True

    def __init__(self, client: InProcessClient) -> None:
        self._client = client

    async def notify(self, method: str, params: Raw) -> None:
        self._client.inbox.put(method, json.loads(bytes(params)))

    async def ask(self, method: str, params: Raw) -> Raw:
        try:
            answer = await self._client.habits.answer(method, json.loads(bytes(params)))
        except RpcError as error:
            raise McpError(error.code, error.message, error.data) from None
        return Raw(json.dumps(answer).encode())

    async def release(self, retry_ms: int | None) -> None:
        return None

    def alive(self) -> None:
        return None


class StdioClient(Client):
    """Lines over a pair of pipes."""

    def __init__(self, habits: Habits, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(habits)
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while line := await self._reader.readline():
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                self.take(message, self.send)
            else:
                waiting = self._waiting.pop(message["id"], None)
                assert waiting is not None, f"an answer to nothing: {message}"
                if not waiting.done():
                    waiting.set_result(message)
        for waiting in self._waiting.values():
            waiting.cancel()

    async def send(self, message: Json) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()

    async def carry(self, id: int, method: str, params: Json) -> Json:
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return result_of(await waiting)

    async def cancel(self, id: int) -> None:
        self._waiting.pop(id, None)
        await self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        await self.request("ping")  # once it is answered, `notifications/initialized` has been read too
        yield

    async def stop_server(self) -> None:
        self._writer.close()

    async def notify(self, method: str) -> None:
        await self.send({"jsonrpc": "2.0", "method": method})

    async def end(self) -> None:
        """After the server has closed its side."""
        await soon(self._reading)
        await self.stop_answering()


class HttpClient(Client):
    """POST, GET and DELETE, with server-sent events read by hand."""

    def __init__(
        self, habits: Habits, http: aiohttp.ClientSession, url: str, stop: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(habits)
        self._http = http
        self._url = url
        self._stop = stop
        self._session: str | None = None

    async def carry(self, id: int, method: str, params: Json) -> Json:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        async with self._http.post(self._url, json=message, headers=self._headers(method, params)) as answer:
            if method == "initialize":
                self._session = answer.headers["Mcp-Session-Id"]
            if answer.content_type == "application/json":
                reply = await answer.json()
                self._check_status(answer.status, reply)
                return result_of(reply)
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            async for event in _events(answer):
                if "method" not in event:
                    assert event["id"] == id
                    return result_of(event)
                self.take(event, self._tell)
        raise RpcError(0, "the stream ended without an answer")

    def _check_status(self, status: int, reply: Json) -> None:
        error = reply.get("error", {}).get("code")
        expected = {-32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}
        assert status == (expected.get(error, 200) if self.era == "modern" else 200), (status, reply)

    def _headers(self, method: str, params: Json) -> dict[str, str]:
        headers = {"Accept": "application/json, text/event-stream"}
        if self.era == "legacy":
            opened = {"Mcp-Session-Id": self._session or "", "MCP-Protocol-Version": LEGACY}
            return headers | (opened if self._session else {})
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        name = params.get("taskId", params.get("uri", params.get("name")))
        if name is not None:
            headers["Mcp-Name"] = name if name.isascii() else _encoded(name)
        return headers

    async def _tell(self, message: Json) -> None:
        async with self._http.post(self._url, json=message, headers=self._headers("", {})) as answer:
            assert answer.status == 202, await answer.text()

    async def notify(self, method: str) -> None:
        await self._tell({"jsonrpc": "2.0", "method": method})

    async def cancel(self, id: int) -> None:
        """Modern: closing the connection says it, which letting go of the request does."""
        if self.era == "legacy":
            params = {"requestId": id}
            await self._tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def stop_server(self) -> None:
        await self._stop()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        headers = self._headers("", {}) | {"Accept": "text/event-stream"}
        async with self._http.get(self._url, headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            reading = asyncio.create_task(self._follow(answer))
            try:
                yield
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    async def _follow(self, answer: aiohttp.ClientResponse) -> None:
        async for event in _events(answer):
            self.take(event, self._tell)

    async def end(self) -> None:
        if self._session is not None:
            async with self._http.delete(self._url, headers=self._headers("", {})) as answer:
                assert answer.status == 204
        await self.stop_answering()


def _encoded(name: str) -> str:
    return f"=?base64?{base64.b64encode(name.encode()).decode()}?="


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Json]:
    """The messages of a stream; comments and empty events are passed over."""
    data: list[str] = []
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and any(data):
            yield json.loads("\n".join(data))
            data = []
        elif not line:
            data = []
