"""The gate: asks the API about a caller's key, and shows only the tools that the answer allows.

Caches the answer's flags for a while, under the keyed hash of the key and for a limited number of callers.
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

MOST_CALLERS = 10_000
SECONDS = 5.0
"""How long a caller waits for it at most; then it is let through, and the API itself will say no."""

_CHALLENGE = (b"www-authenticate", b'Bearer error="invalid_token"')


class CallerAccess(Struct, frozen=True):
    """What the API said of a key."""

    since: float
    allowed: bool
    flags: frozenset[str]


class CallerGate:
    def __init__(self, gate: Gate, table: ApiDefinition, api: RestApi) -> None:
        self._gate = gate
        self._table = table
        self._api = api
        self._known: OrderedDict[str, CallerAccess] = OrderedDict()
        self._flags = {tool.flag for tool in table.tools.values() if tool.flag}

    async def admit(self, secret: Secret) -> None:
        """Raises `Refused` when the API knows the key not, or says that it may not enter."""
        standing = await self._standing(secret)
        if standing is not None and not standing.allowed:
            raise Refused(403, self._gate.denied)

    def viewer(self, keyring: Keyring) -> Visible:
        """What `Server.show_tools` takes: the tools without a flag, and those whose flag the caller has."""
        flags = {name: tool.flag for name, tool in self._table.tools.items() if tool.flag}

        async def visible(call: Call) -> Callable[[KitTool], bool] | None:
            sent = call.secrets or {}
            key = next((sent[name] for name in self._table.auth.caller if name in sent), keyring.own)
            has = frozenset[str]() if key is None else await self._flags_of(key)
            return lambda tool: tool.name not in flags or flags[tool.name] in has

        return visible

    async def _flags_of(self, key: Secret) -> frozenset[str]:
        """None when the API cannot say, or does not know the key: a list is no place to turn anybody away."""
        try:
            standing = await self._standing(key)
        except Refused:
            standing = None
        return frozenset() if standing is None else standing.flags

    async def _standing(self, secret: Secret) -> CallerAccess | None:
        """None when the API cannot say: a failure shuts nobody out and is not remembered."""
        known = self._known.get(secret.fingerprint)
        if known is not None and 0 <= time.time() - known.since < self._gate.seconds:
            self._known.move_to_end(secret.fingerprint)
            return known
        standing = await self._asked(secret)
        if standing is not None:
            self._known[secret.fingerprint] = standing
            self._known.move_to_end(secret.fingerprint)
            while len(self._known) > MOST_CALLERS:
                self._known.popitem(last=False)
        return standing

    async def _asked(self, secret: Secret) -> CallerAccess | None:
        draft = RequestDraft("GET", self._gate.path, headers=dict(self._table.headers), repeatable=True)
        try:
            reply = await self._api.once(draft, secret, SECONDS)
        except RestTransportError:
            return None
        if reply.status == 401:
            raise Refused(401, "The API does not know this key", [_CHALLENGE])
        if reply.status == 403:
            return CallerAccess(time.time(), False, frozenset())
        if not 200 <= reply.status < 300:
            return None
        try:
            value = decoded(reply, self._api.words)
        except ToolError:
            return None
        if value is UNSET:
            return None
        flags = frozenset(flag for flag in self._flags if at(value, flag) is True)
        return CallerAccess(time.time(), at(value, self._gate.field) is True, flags)
