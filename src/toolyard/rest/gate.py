"""The gate: asks the API about a caller's key, and shows only the tools that the answer allows.

Caches the answers for a while, by the keyed hash of the key, for a limited number of callers.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import UNSET, Struct

from ..kit import Refused, Secret, ToolError
from ..kit.features.tools import Tool as KitTool
from ..kit.server import Visible
from ..wire.call import Call
from .api import RestApi
from .definition.model import ApiDefinition, Gate
from .http.connection import RestTransportError
from .request.auth import Keyring
from .request.builder import RequestDraft
from .response.result import at, decoded

MAX_CALLERS = 10_000
SECONDS = 5.0
"""How long a caller waits for the gate. Then the call proceeds, and the API itself decides."""

_CHALLENGE = (b"www-authenticate", b'Bearer error="invalid_token"')


class CallerAccess(Struct, frozen=True):
    """The API's answer about a key."""

    since: float
    allowed: bool
    flags: frozenset[str]


class CallerGate:
    def __init__(self, gate: Gate, definition: ApiDefinition, api: RestApi) -> None:
        self._gate = gate
        self._definition = definition
        self._api = api
        self._cache: OrderedDict[str, CallerAccess] = OrderedDict()
        self._flags = {tool.flag for tool in definition.tools.values() if tool.flag}

    async def admit(self, secret: Secret) -> None:
        """Raises `Refused` if the API rejects the key or denies access."""
        access = await self._access(secret)
        if access is not None and not access.allowed:
            raise Refused(403, self._gate.denied)

    def viewer(self, keyring: Keyring) -> Visible:
        """For `Server.show_tools`: tools without a flag, and those whose flag the caller has."""
        flags = {name: tool.flag for name, tool in self._definition.tools.items() if tool.flag}

        async def visible(call: Call) -> Callable[[KitTool], bool] | None:
            sent = call.secrets or {}
            key = next((sent[name] for name in self._definition.auth.caller if name in sent), keyring.own)
            has = frozenset[str]() if key is None else await self._flags_of(key)
            return lambda tool: tool.name not in flags or flags[tool.name] in has

        return visible

    async def _flags_of(self, key: Secret) -> frozenset[str]:
        """No flags if the API fails or rejects the key: listing tools refuses nobody."""
        try:
            access = await self._access(key)
        except Refused:
            access = None
        return frozenset() if access is None else access.flags

    async def _access(self, secret: Secret) -> CallerAccess | None:
        """None if the API fails: a failure refuses nobody and is not cached."""
        cached = self._cache.get(secret.fingerprint)
        if cached is not None and 0 <= time.time() - cached.since < self._gate.seconds:
            self._cache.move_to_end(secret.fingerprint)
            return cached
        access = await self._request(secret)
        if access is not None:
            self._cache[secret.fingerprint] = access
            self._cache.move_to_end(secret.fingerprint)
            while len(self._cache) > MAX_CALLERS:
                self._cache.popitem(last=False)
        return access

    async def _request(self, secret: Secret) -> CallerAccess | None:
        draft = RequestDraft("GET", self._gate.path, headers=dict(self._definition.headers), repeatable=True)
        try:
            reply = await self._api.try_once(draft, secret, SECONDS)
        except RestTransportError:
            return None
        if reply.status == 401:
            raise Refused(401, "The API does not know this key", [_CHALLENGE])
        if reply.status == 403:
            return CallerAccess(time.time(), False, frozenset())
        if not 200 <= reply.status < 300:
            return None
        try:
            value = decoded(reply, self._api.texts)
        except ToolError:
            return None
        if value is UNSET:
            return None
        flags = frozenset(flag for flag in self._flags if at(value, flag) is True)
        return CallerAccess(time.time(), at(value, self._gate.field) is True, flags)
