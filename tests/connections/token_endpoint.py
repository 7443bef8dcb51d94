"""A token endpoint on loopback of which a test writes every byte, and tokens that are refreshed there."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs

from toolyard.config.server_auth import OAuthAuth
from toolyard.connections.oauth.fetching import GuardedFetcher
from toolyard.connections.oauth.metadata import Challenge
from toolyard.connections.oauth.session import OAuthSession
from toolyard.connections.oauth.token_endpoint import ClientIdentity
from toolyard.connections.oauth.tokens import TokenRecord, TokenStore
from toolyard.upstream.errors import ConsentRequiredError
from toolyard.vault.base import SecretAddress

SERVER_URL = "http://127.0.0.1:9/mcp"
ADDRESS = SecretAddress("local", "token", "guarded", "ana")
LIFETIME = 3600.0


def http(body: str | bytes, status: int = 200, kind: str = "application/json") -> bytes:
    body = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def granted(**members: Any) -> bytes:
    """A usable answer, less what is set to None."""
    answer = {"access_token": "new", "token_type": "Bearer", "expires_in": LIFETIME, "refresh_token": "r2"}
    return http(json.dumps({name: value for name, value in (answer | members).items() if value is not None}))


def refused(code: str, status: int = 400) -> bytes:
    return http(json.dumps({"error": code, "error_description": "<b>words of theirs</b>"}), status)


class WrittenEndpoint:
    """Answers with `answer`: bytes, or a coroutine that writes them."""

    def __init__(self) -> None:
        self.answer: bytes | Callable[[asyncio.StreamWriter], Any] = b""
        self.asked: list[str] = []
        """The refresh tokens that it got."""
        self.connections = 0
        self.gate = asyncio.Event()
        self.gate.set()
        """A request is answered when this is set."""
        self.arrived = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].split("\r\n")[0])
                form = parse_qs((await reader.readexactly(length)).decode())
                self.asked.append(form["refresh_token"][0])
                self.arrived.set()
                await self.gate.wait()
                if isinstance(self.answer, bytes):
                    writer.write(self.answer)
                    if not self.answer:
                        return
                else:
                    await self.answer(writer)
                await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def written_endpoint() -> AsyncIterator[WrittenEndpoint]:
    endpoint = WrittenEndpoint()
    working: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        working.add(task)
        with suppress(asyncio.CancelledError):
            await endpoint.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
    try:
        yield endpoint
    finally:
        server.close()
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def token(endpoint: WrittenEndpoint, *, obtained: float, **members: Any) -> TokenRecord:
    values: dict[str, Any] = {
        "access_token": "old",
        "obtained": obtained,
        "lifetime": LIFETIME,
        "refresh_token": "r1",
        "issuer": endpoint.url.removesuffix("/token"),
        "token_endpoint": endpoint.url,
        "client": ClientIdentity(id="yard", issuer=endpoint.url.removesuffix("/token")),
        "server_url": SERVER_URL,
    }
    return TokenRecord(**(values | members))


class AskingSource:
    """What a gateway does without a token: it asks its caller."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    async def obtain(self, challenge: Challenge, before: TokenRecord | None) -> TokenRecord:
        raise ConsentRequiredError("guarded", "it wants you to log in")

    async def forget_client(self, client: ClientIdentity) -> None:
        self.forgotten.append(client.id)


def session_of(tokens: TokenStore, source: AskingSource | None = None, seconds: float = 20.0) -> OAuthSession:
    """One replica's view of the token; the issuer has so many seconds to answer."""
    fetcher = GuardedFetcher([SERVER_URL], seconds)
    return OAuthSession(
        "guarded", SERVER_URL, OAuthAuth(), ADDRESS, tokens, fetcher, source or AskingSource()
    )
