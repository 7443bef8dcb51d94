"""Requests to Composio's API, and transfers to and from the presigned addresses that it gives out.

The key goes to the API only. A presigned address comes out of a reply, so it is checked like any address of
the web: public unless allowed, checked after DNS, no redirects. A request that was rejected unread is sent
again; one that may have had an effect is not.
"""

import asyncio
import hashlib
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ...composio import BASE_URL, KEY_HEADER, MAX_DETAIL, read_error
from ...egress import AddressRules, resolve
from ...wire.text import clean
from ..protocol import ErrorCode, WorkbenchError

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import ResolveResult

T = TypeVar("T")

MAX_FILE = 100_000_000
"""Composio's own clients take no larger file."""
MAX_REPLY = 32 * 1024 * 1024
MAX_ERROR = 64 * 1024
CHUNK = 256 * 1024
CONNECT_SECONDS = 10.0
STALL_SECONDS = 60.0
"""How long a transfer may stand still."""
CELL_SECONDS = 180.0
"""Composio's limit for one cell."""
MAX_TRIES = 3
MAX_RETRY_AFTER = 5.0
MIN_SECRET = 6
MASK = "***"

ComposioFault = Literal[
    "unauthorized",  # it rejects the key
    "rate_limited",
    "refused",  # it rejects the request, and says why
    "unreachable",
    "failing",  # a server error, or no answer: the request may have had an effect
    "timeout",
    "garbled",  # the reply has an unknown form
    "blocked",  # a presigned address that may not be used
    "storage",  # the store behind a presigned address rejects the transfer
    "interrupted",  # a transfer ended before its end
    "mismatch",  # the bytes that arrived are others than those that were sent
    "changed",  # the local file changed while it was read
]
_CODES: dict[ComposioFault, ErrorCode] = {
    "unauthorized": "denied",
    "refused": "denied",
    "blocked": "denied",
    "garbled": "invalid",
    "mismatch": "invalid",
    "changed": "invalid",
}


class ComposioError(WorkbenchError):
    """Composio, or the store behind it, did not do what was asked."""

    def __init__(
        self, fault: ComposioFault, message: str, *, status: int = 0, fix: str = "", subject: str = ""
    ) -> None:
        super().__init__(_CODES.get(fault, "unavailable"), message, subject)
        self.fault: ComposioFault = fault
        self.status = status
        self.fix = fix
        """What Composio suggests to do."""


class ComposioAccess(Struct, frozen=True, kw_only=True):
    """Where Composio is, and who uses it."""

    api_key: str
    base_url: str = BASE_URL
    user_id: str = "{user}"
    """The user whose sandbox and accounts are used; the names in braces are the caller's."""
    default_user: str = ""
    """Who a caller is that is not known."""
    allow: tuple[str, ...] = ()
    """Private addresses that presigned addresses may have, as `egress.AddressRules` takes them."""
    max_bytes: int = MAX_FILE
    """Of one file, in either direction."""

    def __repr__(self) -> str:
        return f"ComposioAccess(base_url={self.base_url!r}, user_id={self.user_id!r})"  # never the key


OnProgress = Callable[[int, int], None]
"""Receives the bytes transferred so far, and those in all."""


class Digest(Protocol):
    def update(self, data: bytes, /) -> object: ...

    def hexdigest(self) -> str: ...


def silent(done: int, total: int) -> None:
    pass


class ComposioApi:
    """Connects with the first request. `close` ends what is under way."""

    def __init__(self, access: ComposioAccess) -> None:
        self.access = access
        self._base = access.base_url.rstrip("/")
        self._rules = AddressRules(access.allow)
        self._session: aiohttp.ClientSession | None = None
        self._transfers: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        sessions = [session for session in (self._session, self._transfers) if session is not None]
        self._session = self._transfers = None
        for session in sessions:
            await session.close()

    # The API

    async def get(self, path: str) -> bytes:
        return await self._request("GET", path, None)

    async def post(self, path: str, body: Any) -> bytes:
        return await self._request("POST", path, msgspec.json.encode(body))

    async def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        for _ in range(MAX_TRIES - 1):
            try:
                return await self._once(method, path, body)
            except _LaterError as error:
                if error.seconds > MAX_RETRY_AFTER:
                    raise error.reason from None
                await asyncio.sleep(error.seconds)
        try:
            return await self._once(method, path, body)
        except _LaterError as error:
            raise error.reason from None

    async def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=CELL_SECONDS + 30
                ),
                headers={KEY_HEADER: self.access.api_key, "Accept": "application/json"},
            )
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method, self._base + path, data=body, headers=headers, allow_redirects=False
            ) as reply:
                if 200 <= reply.status < 300:
                    return await self._read(reply)
                raise self._refusal(reply.status, reply.headers, await _start_of(reply))
        except aiohttp.ClientConnectorError as error:
            raise ComposioError("unreachable", self.redact(str(error))) from None
        except TimeoutError:
            raise ComposioError("timeout", f"no answer within {CELL_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ComposioError("failing", self.redact(str(error) or type(error).__name__)) from None

    async def _read(self, reply: "aiohttp.ClientResponse") -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in reply.content.iter_any():
            size += len(piece)
            if size > MAX_REPLY:
                raise ComposioError("garbled", f"its reply is larger than {MAX_REPLY} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
        message, fix = read_error(body)
        message = self.redact(message) or f"HTTP {status}"
        error = ComposioError(_fault(status), message, status=status, fix=self.redact(fix))
        if status == 429 or (status == 503 and "Retry-After" in headers):
            return _LaterError(error, _seconds(headers.get("Retry-After", "")))
        return error

    def decode(self, body: bytes, form: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ComposioError("garbled", self.redact(str(error))) from None

    def redact(self, text: str) -> str:
        key = self.access.api_key
        text = text.replace(key, MASK) if len(key) >= MIN_SECRET else text
        return clean(text)[:MAX_DETAIL]

    # Presigned addresses

    async def download(
        self, url: str, into: BinaryIO, digest: Digest, max_bytes: int, report: OnProgress = silent
    ) -> int:
        """Copy what is at a presigned address into a file; return its size."""
        size = 0
        async with self._transfer("GET", url) as reply:
            if reply.content_length is not None and reply.content_length > max_bytes:
                raise too_large(max_bytes)
            async for piece in reply.content.iter_chunked(CHUNK):
                size += len(piece)
                if size > max_bytes:
                    raise too_large(max_bytes)
                digest.update(piece)
                await asyncio.to_thread(into.write, piece)
                report(size, max(size, reply.content_length or 0))
        return size

    async def upload(
        self,
        url: str,
        source: BinaryIO,
        size: int,
        mimetype: str,
        *,
        md5: str,
        headers: Mapping[str, str] | None = None,
        report: OnProgress = silent,
    ) -> None:
        """Send a file to a presigned address. Nothing is stored if the file is not the one with this MD5."""
        async with self._transfer(
            "PUT",
            url,
            data=_pieces(source, size, md5, report),
            headers={"Content-Type": mimetype, "Content-Length": str(size), **(headers or {})},
        ):
            pass

    def _transfer(self, method: str, url: str, **what: Any) -> "_Transfer":
        return _Transfer(lambda: self._open(method, url, what))

    async def _open(self, method: str, url: str, what: dict[str, Any]) -> "aiohttp.ClientResponse":
        import aiohttp

        self._check(url)
        if self._transfers is None:
            self._transfers = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=_checked_resolver(self._may_connect), use_dns_cache=False
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=CONNECT_SECONDS, sock_read=STALL_SECONDS
                ),
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
            )
        from yarl import URL

        # As it was signed: quoting it again would break the signature.
        return await self._transfers.request(method, URL(url, encoded=True), allow_redirects=False, **what)

    def _check(self, url: str) -> None:
        """Check the parts of an address that need no DNS; the resolver checks the rest."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            host, port, parts = None, 0, urlsplit("")
        own = urlsplit(self._base)
        schemes = ("https", "http") if own.scheme == "http" else ("https",)
        if not host or parts.scheme not in schemes or parts.username is not None:
            raise ComposioError("blocked", f"{without_query(url)[:200]!r} is not an https address")
        try:
            address = str(ipaddress.ip_address(host))
        except ValueError:
            return
        if not self._may_connect(host, address, port):
            raise _blocked(host)

    def _may_connect(self, host: str, address: str, port: int) -> bool:
        own = urlsplit(self._base)
        own_port = own.port or (443 if own.scheme == "https" else 80)
        return (host, port) == (own.hostname, own_port) or self._rules.allows(host, address, port)


class _LaterError(Exception):
    """The request was rejected unread, and may be sent again."""

    def __init__(self, reason: ComposioError, seconds: float) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.seconds = seconds


class _Transfer:
    """A transfer whose reply's head has come and is good; as a context, it ends with the block."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open = open
        self._reply: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> "aiohttp.ClientResponse":
        try:
            self._reply = reply = await self._open()
        except Exception as error:
            raise _failed(error) from None
        if reply.status != 200:
            body = await _start_of(reply)
            reply.close()
            raise ComposioError("storage", _storage_reason(reply.status, body), status=reply.status)
        return reply

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        assert self._reply is not None
        if error is None:
            self._reply.release()
            return
        self._reply.close()
        if isinstance(error, Exception):
            raise _failed(error) from None


def _failed(error: Exception) -> Exception:
    """Return what a transfer's error means to its caller."""
    import aiohttp

    if isinstance(error, WorkbenchError):
        return error
    inner = error if isinstance(error, WorkbenchError) else error.__cause__
    if isinstance(inner, WorkbenchError):  # aiohttp wraps what the file or the resolver raises
        return inner
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error
        if isinstance(reason, _BlockedHostError):
            return _blocked(reason.host)
        return ComposioError("unreachable", f"its store cannot be reached ({reason.strerror or reason})")
    if isinstance(error, TimeoutError):
        return ComposioError("interrupted", f"the transfer stood still for {STALL_SECONDS:g} s")
    if isinstance(error, aiohttp.ClientError):
        return ComposioError("interrupted", f"the transfer broke off ({type(error).__name__})")
    return error


async def _pieces(source: BinaryIO, size: int, md5: str, report: OnProgress) -> AsyncGenerator[bytes]:
    digest, left = hashlib.md5(usedforsecurity=False), size
    while left:
        piece = await asyncio.to_thread(source.read, min(CHUNK, left))
        if not piece:
            raise ComposioError("changed", "the file became shorter while it was read")
        left -= len(piece)
        digest.update(piece)
        if not left and digest.hexdigest() != md5:
            raise ComposioError("changed", "the file changed while it was read")
        yield piece
        report(size - left, size)


async def _start_of(reply: "aiohttp.ClientResponse") -> bytes:
    try:
        return await reply.content.read(MAX_ERROR)
    except Exception:  # the status says enough
        return b""


def _fault(status: int) -> ComposioFault:
    if status in (401, 403):
        return "unauthorized" if status == 401 else "refused"
    if status == 429:
        return "rate_limited"
    return "refused" if status < 500 else "failing"


def _seconds(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        return 1.0


def _storage_reason(status: int, body: bytes) -> str:
    """Name the code in an error of S3 or Azure, such as AccessDenied, but not the address in it."""
    start = body.find(b"<Code>")
    code = (
        body[start + 6 : body.find(b"</Code>", start)].decode("ascii", "replace")[:80] if start >= 0 else ""
    )
    return f"HTTP {status}" + (f" {code}" if code.isalnum() else "")


def without_query(url: str) -> str:
    """An address without its signature."""
    return url.partition("?")[0].partition("#")[0]


def too_large(max_bytes: int) -> WorkbenchError:
    return WorkbenchError("too_large", f"larger than {max_bytes} bytes")


def _blocked(host: str) -> ComposioError:
    return ComposioError("blocked", f"{host!r} is a private address")


class _BlockedHostError(OSError):
    def __init__(self, host: str) -> None:
        super().__init__(f"{host!r} is a private address")
        self.host = host


def _checked_resolver(may_connect: Callable[[str, str, int], bool]) -> Any:
    """A resolver that returns only checked addresses, to which aiohttp then connects."""
    from aiohttp.abc import AbstractResolver

    class CheckedResolver(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> "list[ResolveResult]":
            addresses = await resolve(host, port)
            if not all(may_connect(host, address, port) for address in addresses):
                raise _BlockedHostError(host)
            return [
                {
                    "hostname": host,
                    "host": address,
                    "port": port,
                    "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                    "proto": 0,
                    "flags": socket.AI_NUMERICHOST,
                }
                for address in addresses
            ]

        async def close(self) -> None:
            pass

    return CheckedResolver()
