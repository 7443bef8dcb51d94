"""Translates between the eras: params and `_meta` on the way out, notifications and results back."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from ..upstream.attribution import MESSAGE, PROGRESS, notice, question
from ..upstream.base import Outcome
from ..upstream.connection import REQUEST_CAPABILITIES, Params, RawResult, askable
from ..upstream.messages.router import LISTS_CHANGED
from ..upstream.messages.spool import Spooled
from ..wire.call import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LOG_LEVEL_KEY,
    PREFIX,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    TASKS_EXTENSION,
    VERSION_KEY,
    Call,
    Caller,
    StreamedResult,
)
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import decode_params, encode
from ..wire.versions import LATEST_MODERN

MAX_REMEMBERED = 256
VERSION_JSON = VERSION_KEY.encode()
"""Occurs in `_meta` if a modern client made the request."""
_tokens = count(1)


def meta_of(params: Params) -> Params:
    found = params.get("_meta")
    return {} if found is None or bytes(found) == b"null" else decode_params(found, dict[str, Raw])


def with_meta(params: Params, meta: Params) -> Params:
    changed = dict(params)
    if meta:
        changed["_meta"] = Raw(encode(meta))
    else:
        changed.pop("_meta", None)
    return changed


def new_token() -> str:
    """A progress token that no other request has."""
    return f"toolyard-{next(_tokens)}"


def raw(value: Any) -> Raw:
    return Raw(encode(value))


def for_legacy(call: Call, params: Params) -> tuple[Params, str | None]:
    """Remove members of the modern era, and set our own progress token if the caller wants progress."""
    if "_meta" not in params:
        return params, None
    meta = meta_of(params)
    if call.caller.era == "modern":
        meta = {key: value for key, value in meta.items() if not key.startswith(PREFIX)}
    token = None
    if call.progress_token is not None:
        token = new_token()
        meta["progressToken"] = raw(token)
    return with_meta(params, meta), token


def with_own_token(params: Params) -> tuple[Params, str]:
    token = new_token()
    return with_meta(params, meta_of(params) | {"progressToken": raw(token)}), token


class ModernMeta:
    """Adds the `_meta` about the caller that a modern upstream requires, if the request lacks it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Caller, bool], Params] = {}

    def add(self, call: Call, params: Params, tasks: bool) -> Params:
        """`tasks`: declare support for tasks, because we follow them for the caller."""
        meta = meta_of(params) if "_meta" in params else {}
        told = {**meta, **self._of(call.caller, tasks)}
        level = call.caller.log_level
        if call.caller.era == "legacy":
            level = (call.session.log_level if call.session is not None else None) or "info"
        if level is not None:
            told[LOG_LEVEL_KEY] = raw(level)
        return with_meta(params, told)

    def _of(self, caller: Caller, tasks: bool) -> Params:
        known = self._known.get((caller, tasks))
        if known is None:
            capabilities = dict(caller.capabilities)
            if tasks:
                extensions: dict[str, Any] = dict(capabilities.get("extensions") or {})
                capabilities["extensions"] = {**extensions, TASKS_EXTENSION: {}}
            known = {
                VERSION_KEY: raw(LATEST_MODERN),
                CAPABILITIES_KEY: raw(capabilities),
                CLIENT_KEY: Raw(msgspec.json.encode(caller.client)),
            }
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[caller, tasks] = known
        return known


PASSED_ON = frozenset((PROGRESS, MESSAGE, "notifications/elicitation/complete"))
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class LoneListener(Struct, eq=False):
    """Passes on whatever is said to the one client that it can be meant for, as it is."""

    call: Call
    server: str
    """Whose words they are; empty if they need no mark."""

    @property
    def asks_immediately(self) -> bool:
        return True

    @property
    def principal(self) -> str:
        return self.call.caller.principal.binding

    async def notify(self, method: str, params: Raw) -> None:
        said = notice(self.server, method, params) if self.server else params
        await self.call.channel.notify(method, said)

    async def ask(self, method: str, params: Raw) -> Raw:
        """Legacy callers only: pass the request on."""
        if not self.server:
            return await self.call.channel.ask(method, params)
        if REQUEST_CAPABILITIES.get(method) not in askable(self.call.caller):
            raise McpError(METHOD_NOT_FOUND, f"the client does not support {method[:80]!r}")
        return await self.call.channel.ask(method, question(self.server, method, params))

    async def release(self, retry_ms: int | None) -> None:
        """The upstream closes the connection meanwhile, so let our client do the same."""
        await self.call.channel.release(retry_ms)

    def alive(self) -> None:
        """Does nothing: our edge keeps the client's connection alive itself."""


class CallListener(LoneListener, eq=False):
    """Passes an upstream's notifications to the client of a call, with the client's progress token.

    Others may speak on the same connection, so only what belongs to the call is passed on.
    """

    token: str | None
    passed_on: ClassVar[frozenset[str]] = PASSED_ON

    async def notify(self, method: str, params: Raw) -> None:
        if method not in self.passed_on:
            return
        if method == PROGRESS:
            if self.call.progress_token is None:
                return
            if self.token is not None:
                members = decode_params(params, dict[str, Raw])
                members["progressToken"] = raw(self.call.progress_token)
                params = raw(members)
        elif method == MESSAGE and not self._wants(params):
            return
        await super().notify(method, params)

    def _wants(self, params: Raw) -> bool:
        """Whether the caller wants a log message: callers that share a session may have different levels."""
        call = self.call
        if call.caller.era == "modern":
            wanted = call.caller.log_level
            if wanted is None:
                return False
        else:
            wanted = (call.session.log_level if call.session is not None else None) or "debug"
        try:
            level = decode_params(decode_params(params, dict[str, Raw]).get("level", Raw(b'""')), str)
        except McpError:
            return False
        return level in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)


class BareCallListener(CallListener, eq=False):
    """Passes on changed lists too, which some modern servers announce in a call alone, and all log lines:
    what a client without a progress token hears, one with a token hears as well.
    """

    passed_on = CallListener.passed_on | LISTS_CHANGED

    def _wants(self, params: Raw) -> bool:
        return True


class SubscriptionListener:
    """Passes on the notifications of a subscription, with the caller's own subscription id."""

    asks_immediately = False
    principal = ""  # not a call of one principal

    def __init__(self, call: Call) -> None:
        self._call = call

    async def notify(self, method: str, params: Raw) -> None:
        members = decode_params(params, dict[str, Raw])
        await self._call.channel.notify(method, with_subscription_id(members, self._call))

    async def ask(self, method: str, params: Raw) -> Raw:
        raise McpError(METHOD_NOT_FOUND, "a subscription does not carry requests")

    async def release(self, retry_ms: int | None) -> None:
        return None

    def alive(self) -> None:
        return None


def with_subscription_id(members: Params, call: Call) -> Params:
    return with_meta(members, meta_of(members) | {SUBSCRIPTION_KEY: raw(call.id)})


# Legacy results have no cache hints. These say: private, and stale at once.
_UNCACHED = b'"ttlMs":0,"cacheScope":"private",'
_CACHEABLE = frozenset(
    (
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "server/discover",
    )
)


class PrefixedResult(StreamedResult):
    """A spooled object with members put in front of its own."""

    def __init__(self, prefix: bytes, rest: Spooled) -> None:
        self._prefix = prefix
        self._rest = rest
        self.size = len(prefix) + rest.size

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._prefix
        async for chunk in self._rest.chunks():
            yield chunk

    def close(self) -> None:
        self._rest.close()


def as_modern(method: str, result: RawResult, info: Raw) -> "Raw | PrefixedResult":
    """Add the members that the modern era requires, and the server's info unless there is a `_meta`."""
    prefix = b'{"resultType":"complete",' + (_UNCACHED if method in _CACHEABLE else b"")
    if isinstance(result, Spooled):
        return PrefixedResult(prefix, result.window(1, result.size))
    body = bytes(result).strip()
    if b'"resultType"' in body:
        # `resultType` has no meaning in the legacy era, so a legacy server must not set it.
        members = decode_params(result, dict[str, Raw])
        members.pop("resultType", None)
        body = encode(members)
    if b'"_meta"' not in body:
        prefix += b'"_meta":{"%s":%s},' % (SERVER_KEY.encode(), bytes(info))
    rest = body[1:].lstrip()
    return Raw(prefix.removesuffix(b",") + b"}" if rest == b"}" else prefix + rest)


_MODERN_MEMBERS = (b'"resultType"', b'"ttlMs"', b'"cacheScope"', PREFIX.encode())


def as_legacy(outcome: Outcome) -> Outcome:
    """Without the members of the modern era, for a caller who does not know them."""
    body = outcome.body
    if not isinstance(body, Raw) or not any(member in bytes(body) for member in _MODERN_MEMBERS):
        return outcome
    members = decode_params(body, dict[str, Raw])
    for name in ("resultType", "ttlMs", "cacheScope"):
        members.pop(name, None)
    meta = {key: value for key, value in meta_of(members).items() if not key.startswith(PREFIX)}
    return outcome.with_body(Raw(encode(with_meta(members, meta))))
