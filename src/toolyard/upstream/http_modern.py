"""A modern upstream at an address: every request stands for itself."""

from collections.abc import Mapping

from msgspec import UNSET
from multidict import CIMultiDict

from ..wire.errors import UNSUPPORTED_VERSION, McpError
from ..wire.headers import NAMED_BY, encode_value
from ..wire.messages import Request, decode_params, encode
from .errors import Garbled, Lost, NotReached, Refused, Spoken, Stale, UpstreamError
from .expiry import says_expired
from .http_client import Address, Reply
from .link import About, Ear, Params, Result, Standing, Watcher
from .replies import result_of, understand

# Without JSON-RPC in the body, this is how servers of another era answer us.
_OTHER_ERA = (400, 404, 405, 406, 415)


MAX_REMEMBERED = 1024


class ModernHttp:
    shares_tokens = False
    busy = False  # nothing is held between requests, so closing it harms none

    def __init__(self, address: Address, about: About) -> None:
        self.server = address.server
        self.about = about
        self.closed = False
        self.standing = Standing()
        self._address = address
        self._id = 0
        # In the form that aiohttp would otherwise make of them for every request.
        self._headers: dict[str, CIMultiDict[str]] = {}
        self._named: dict[tuple[str, bytes], CIMultiDict[str]] = {}

    async def request(
        self,
        method: str,
        params: Params,
        ear: Ear,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Result:
        self._id = id = self._id + 1
        body = encode(Request(id, method, params))
        reply = await self._address.send("POST", self._head(method, params, headers), body)
        if reply.status != 200:
            raise await self._refused(reply, method)
        if reply.is_stream:
            return await self._follow(reply, id, ear)
        return result_of(self._address.server, understand(self._address.server, await reply.body()), id)

    def _head(self, method: str, params: Params, more: Mapping[str, str] | None) -> "CIMultiDict[str]":
        fixed = self._headers.get(method)
        if fixed is None:
            version = {"MCP-Protocol-Version": self.about.version, "Mcp-Method": method}
            fixed = self._headers[method] = CIMultiDict({**self._address.headers, **version})
        name = params.get(NAMED_BY.get(method, ""))
        if name is None and not more:
            return fixed
        # Tools are called again and again, and their headers are the same each time.
        key = (method, bytes(name)) if name is not None else None
        found = self._named.get(key) if key is not None else fixed.copy()
        if found is None:
            found = fixed.copy()
            found["Mcp-Name"] = encode_value(decode_params(name, str))  # type: ignore[arg-type]
            if len(self._named) >= MAX_REMEMBERED:
                self._named.clear()
            self._named[key] = found  # type: ignore[index]
        if more:
            found = found.copy()
            found.update(more)
        return found

    async def _follow(self, reply: Reply, id: int, ear: Ear) -> Result:
        """A stream: what is said on the way, then the answer."""
        server = self._address.server
        done = False
        try:
            async for event in reply.events():
                if not event.data:
                    continue
                message = understand(server, event.data)
                if message.is_notification:
                    await ear.notify(str(message.method), message.params)
                elif message.is_request:
                    raise Garbled(
                        server, f"it sent a request ({message.method!r}), which its era does not know"
                    )
                elif message.id == id:
                    done = True
                    return result_of(server, message, id)
            raise Lost(server, "the stream ended without an answer")
        finally:
            # A connection whose stream was read to its answer can be used again, any other not.
            reply.release() if done else reply.abandon()

    async def _refused(self, reply: Reply, method: str) -> McpError:
        """What an HTTP error means: the upstream's own words if there are any."""
        body = await reply.refusal()
        error = spoken(body, status=reply.status)
        if error is not None:
            if error.code == UNSUPPORTED_VERSION:
                self.closed = True  # it was replaced by one of another revision: negotiate anew
                return Stale(self._address.server, "it does not speak this revision any more")
            return error
        if reply.status in _OTHER_ERA or (method == "server/discover" and reply.status in (500, 501)):
            self.closed = True
            if method != "server/discover":  # it spoke our era before: whoever tries again negotiates anew
                stale = Stale(self.server, f"it answered HTTP {reply.status}, as one of another era would")
                stale.expired = names_session(body)
                return stale
        return refusal(self._address.server, reply, body)

    async def notify(self, method: str, params: Params) -> None:
        """The modern era has none to send over HTTP: hanging up cancels."""

    def watch(self, watcher: Watcher) -> None:
        raise NotImplementedError("a modern upstream is listened to by subscriptions/listen")

    def unwatch(self, watcher: Watcher) -> None:
        return None

    async def close(self) -> None:
        self.closed = True


def spoken(body: bytes, id: int | None = None, status: int = 0) -> McpError | None:
    """The JSON-RPC error in the body of an HTTP error, if there is one; with `id`, only the answer to it."""
    try:
        message = understand("", body)
    except UpstreamError:
        return None
    error = message.error
    if error is UNSET or (id is not None and message.id != id):
        return None
    return Spoken(error.code, error.message, error.data, status)


def refusal(server: str, reply: Reply, body: bytes = b"") -> UpstreamError:
    """An HTTP error without JSON-RPC in it."""
    status = reply.status
    expired = names_session(body)
    if expired and 400 <= status < 500:
        return Refused(server, f"it answered HTTP {status}: its session is over", status, expired)
    if status in (401, 403):
        wants = f"it answered HTTP {status}: it wants other credentials than 'headers' has"
        return Refused(server, wants, status)
    if status in (429, 503):
        return NotReached(server, f"it answered HTTP {status}", retry_after(reply))
    if 400 <= status < 500 or 300 <= status < 400:
        return Refused(server, f"it answered HTTP {status}; is this the address of an MCP endpoint?", status)
    return Lost(server, f"it answered HTTP {status}")


def names_session(body: bytes) -> bool:
    """Whether the body of an HTTP error is about a session that is over."""
    return says_expired(body.decode(errors="replace"))


def retry_after(reply: Reply) -> float | None:
    """Seconds to wait, if it says so in seconds."""
    try:
        seconds = float(reply.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 100_000 else None
