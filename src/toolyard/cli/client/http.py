"""One HTTP exchange with a server, and the MCP messages in its reply. Knows nothing of eras.

Uses `http.client`, because the base install has no HTTP library.
"""

import http.client
import io
import socket
import ssl
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from ...wire.errors import ErrorObject, McpError
from ...wire.messages import JsonRpcMessage, parse
from ...wire.sse import SseDecoder
from ..ui.messages import CommandError

MAX_INTERIM = 20


class ReplyDeadline:
    """Time to give the next whole thing in: an answer, or an event of a stream.

    A socket's own timeout starts anew with every byte, so that a server which trickles them is waited
    for without an end.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + self._seconds

    def left(self) -> float:
        """Seconds; TimeoutError when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class DeadlineResponse(http.client.HTTPResponse):
    """Reads its head and its body while there is patience; passes over interim replies, of any kind."""

    _interim = 0

    def __init__(self, patience: ReplyDeadline, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_DeadlineReader(patience, sock, self.fp.detach()))

    def _read_status(self) -> tuple[str, int, str]:
        unknown: Any = super()
        found: tuple[str, int, str] = unknown._read_status()
        version, status, reason = found
        if not 100 <= status < 200 or status == 101:
            return found
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise http.client.HTTPException(f"more than {MAX_INTERIM} interim replies (status {status})")
        return version, http.client.CONTINUE, reason  # the only one that `http.client` passes over


class _DeadlineReader(io.RawIOBase):
    def __init__(self, patience: ReplyDeadline, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._patience = patience
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._patience.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_REFUSAL_BYTES = 64 * 1024
CHUNK = 64 * 1024
AUTH_STATUSES = (401, 403, 407)  # about who asks, not about what

_PATH_SAFE = "/%:@!$&'()*+,;=~"

Headers = dict[str, str]


class _ErrorBody(Struct):
    error: ErrorObject


class HttpRefusedError(CommandError):
    """The server's HTTP side said no, in words that are not MCP's."""

    def __init__(self, status: int, message: str, *hints: str) -> None:
        super().__init__(message, *hints)
        self.status = status


class HttpEndpoint:
    """Where a server is, and what to say at the door."""

    def __init__(self, url: str, headers: tuple[str, ...], timeout: float) -> None:
        self.url = url
        self._headers = dict(_header(line) for line in headers)
        self.timeout = timeout
        self._secure, self._host, self._port, self._path = _split(url)

    @contextmanager
    def send(
        self, verb: str, headers: Headers, body: bytes | None = None
    ) -> "Generator[HttpReply, None, None]":
        """Send a request and read its reply within the `with`; Failure when there is none."""
        _check_sendable(headers)
        with self._explained():
            connection = self._connect()
            try:
                connection.request(verb, self._path, body, {**headers, **self._headers})
                patience = ReplyDeadline(self.timeout)
                connection.response_class = cast(type[DeadlineResponse], partial(DeadlineResponse, patience))
                yield HttpReply(connection.getresponse(), self.url, patience)
            finally:
                connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self.timeout)
        return http.client.HTTPConnection(self._host, self._port, timeout=self.timeout)

    @contextmanager
    def _explained(self) -> Generator[None, None, None]:
        try:
            yield
        except ConnectionRefusedError:
            advice = "is the server running? `toolyard serve` starts one"
            raise CommandError(f"nothing listens at {self.url}", advice) from None
        except (socket.gaierror, UnicodeError) as error:
            raise CommandError(f"no host {self._host!r}: {error.args[-1]}", "check the URL") from None
        except TimeoutError:
            seconds = f"{self.timeout:g} seconds"
            advice = "--timeout SECONDS waits longer"
            raise CommandError(f"{self.url} gave no answer within {seconds}", advice) from None
        except ssl.SSLError as error:
            advice = "is it an http:// address? a private certificate authority goes into SSL_CERT_FILE"
            raise CommandError(
                f"no secure connection to {self.url}: {error.reason or error}", advice
            ) from None
        except http.client.IncompleteRead:
            raise CommandError(f"{self.url} broke off in the middle of its answer") from None
        except http.client.HTTPException as error:
            what = str(error) or type(error).__name__
            advice = "is it an https:// address, or not an HTTP server at all?"
            raise CommandError(f"{self.url} does not answer in HTTP: {what}", advice) from None
        except OSError as error:
            raise CommandError(f"the connection to {self.url} failed: {error.strerror or error}") from None


class HttpReply:
    def __init__(self, response: http.client.HTTPResponse, url: str, patience: ReplyDeadline) -> None:
        self._response = response
        self._url = url
        self._patience = patience
        self.status = response.status
        self.last_event_id: str | None = None
        self.retry_ms: int | None = None

    def header(self, name: str) -> str | None:
        """Its value; Failure when there are several, of which nobody knows which one counts."""
        values = self._response.headers.get_all(name, [])
        if len(values) > 1:
            raise CommandError(f"{self._url} answered with the header {name!r} more than once")
        return values[0] if values else None

    def check(self) -> None:
        """Raises McpError for a refusal that speaks JSON-RPC, Refused for any other."""
        if self.status >= 300:
            self._refuse()

    def messages(self) -> Iterator[JsonRpcMessage]:
        """The reply's messages as they come."""
        self.check()
        kind = (self.header("content-type") or "").split(";")[0].strip().lower()
        try:
            if kind == "text/event-stream":
                yield from self._stream()
            elif kind == "application/json":
                yield parse(b"".join(self._chunks()))
            else:
                raise self._not_mcp(f"its answer is {kind or 'of no type'}")
        except McpError as error:
            raise self._not_mcp(error.message) from None

    def _stream(self) -> Iterator[JsonRpcMessage]:
        decoder, tail = SseDecoder(), b""
        for chunk in self._chunks():
            for event in decoder.feed(chunk):
                self.last_event_id = event.id or self.last_event_id
                self.retry_ms = event.retry_ms if event.retry_ms is not None else self.retry_ms
                if event.data:
                    yield parse(event.data.encode())
            tail = _lines(tail + chunk)
            if b"\n\n" in tail:  # a whole event has been dealt with, or a ping came
                self._patience.renew()
            tail = tail[-1:]

    def _chunks(self) -> Iterator[bytes]:
        size = 0
        while chunk := self._response.read1(CHUNK):
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise CommandError(f"the reply of {self._url} is over {MAX_REPLY_BYTES // 1024**2} MiB")
            yield chunk

    def _refuse(self) -> None:
        body = self._response.read(MAX_REFUSAL_BYTES)
        said = ""
        try:
            error = msgspec.json.decode(body, type=_ErrorBody).error
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if self.status not in AUTH_STATUSES:
                raise McpError(error.code, error.message, error.data)
            said = f": {error.message}"
        message = f"{self._url} answered {self.status} {self._response.reason}{said}"
        raise HttpRefusedError(self.status, message, *self._advice())

    def _advice(self) -> list[str]:
        if 300 <= self.status < 400:
            return [f"it has moved to {self.header('location')}"]
        if self.status == 401:
            return ["give what it asks for: --header 'Authorization: Bearer …'"]
        if self.status == 403:
            return ["a Toolyard admits names and web pages by `serve --allow-host` and `--allow-origin`"]
        if self.status in (404, 405):
            return ["is the path right? an MCP endpoint often ends in /mcp"]
        return []

    def _not_mcp(self, why: str) -> CommandError:
        return CommandError(f"{self._url} does not speak MCP: {why}", "an MCP endpoint often ends in /mcp")


def _lines(chunk: bytes) -> bytes:
    return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _check_sendable(headers: Headers) -> None:
    """Session and event ids are the server's, which may want to have back what no header can carry."""
    for name, value in headers.items():
        if not all(" " <= character <= "\xff" and character != "\x7f" for character in value):
            raise CommandError(
                f"the server wants to have {value[:80]!r} back as {name}, which cannot be sent"
            )


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or not line.isascii() or not line.isprintable():
        raise CommandError(f"--header {line!r} is not a header", "write it as 'Name: value'")
    return name.strip(), value.strip()


def _split(url: str) -> tuple[bool, str, int | None, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        path = quote(parts.path or "/", safe=_PATH_SAFE)
        query = f"?{quote(parts.query, safe=_PATH_SAFE + '?')}" if parts.query else ""
    except ValueError as error:
        raise CommandError(f"{url!r} is not an address: {error}", "as in http://127.0.0.1:8321/mcp") from None
    if parts.scheme not in ("http", "https") or not host:
        raise CommandError(
            f"{url!r} is not an http:// or https:// address", "as in http://127.0.0.1:8321/mcp"
        )
    if parts.username is not None:
        raise CommandError(
            "a URL with a password in it is not supported", "--header 'Authorization: Basic …'"
        )
    return parts.scheme == "https", host, port, path + query
