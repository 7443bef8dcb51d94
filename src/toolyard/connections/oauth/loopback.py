"""The end of a login on this machine: a small server on loopback that waits for the browser to come back."""

import asyncio
import hmac
from urllib.parse import parse_qs, urlsplit

from ..pages import language_of, page, policy
from .errors import OAuthError

MAX_HEAD = 32 * 1024
READ_SECONDS = 10.0


class LoopbackRedirect:
    """Listens at the host and port of `redirect`. Only an answer with this `state` ends the wait."""

    def __init__(self, redirect: str, state: str, server: str = "") -> None:
        parts = urlsplit(redirect)
        if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise OAuthError(f"{redirect!r} is not on this machine", "use http://127.0.0.1:PORT/callback")
        self._redirect = redirect
        self._host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
        self._port = parts.port or 80
        self._path = parts.path or "/"
        self._state = state
        self._name = server
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> "LoopbackRedirect":
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_HEAD)
        except OSError as error:
            raise OAuthError(
                f"port {self._port} of this machine cannot be used ({error.strerror})",
                "another login may be waiting there; end it, or choose another one with --port",
            ) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._answer.cancel()

    async def answer(self) -> str:
        """The address that the browser was sent to."""
        return await asyncio.shield(self._answer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.split("\r\n")
            method, target, _ = line.split(" ", 2)
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
            }
            writer.write(self._respond(method, target, headers))
            await writer.drain()
        except (ValueError, OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser that comes back
        finally:
            writer.close()

    def _respond(self, method: str, target: str, headers: dict[str, str]) -> bytes:
        language = language_of(headers.get("accept-language", ""))
        parts = urlsplit(target)
        if method != "GET" or parts.path != self._path or parts.netloc:
            return _reply(404, b"")
        given = parse_qs(parts.query).get("state", [""])[0]
        if not hmac.compare_digest(given.encode(), self._state.encode()) or self._answer.done():
            return _reply(400, page("expired", language, self._name))
        denied = "error=" in parts.query
        self._answer.set_result(f"{self._redirect.partition('?')[0]}?{parts.query}")
        return _reply(200, page("denied" if denied else "returned", language, self._name))


def _reply(status: int, body: bytes) -> bytes:
    words = {200: "OK", 400: "Bad Request", 404: "Not Found"}[status]
    head = (
        f"HTTP/1.1 {status} {words}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Security-Policy: {policy()}\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
