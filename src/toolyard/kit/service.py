"""A server as the edges see it: one table of methods per era, and who we are."""

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from ..wire.call import Call
from ..wire.eras import SERVER_KEY, TASKS_EXTENSION, UI_EXTENSION
from ..wire.errors import MethodNotFound
from ..wire.messages import decode_params
from ..wire.types import DiscoverResult, InitializeResult, Result, SetLevelParams
from ..wire.versions import MODERN_VERSIONS
from .methods.base import Methods
from .methods.listening import ListeningMethods
from .methods.prompts import PromptMethods
from .methods.resources import ResourceMethods
from .methods.tools import ToolMethods

if TYPE_CHECKING:
    from .server import Server


class KitService:
    """Implements `wire.call.Service` for a `Server`."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._stamp = {SERVER_KEY: Raw(msgspec.json.encode(server.implementation))}
        self._listening = ListeningMethods(server)
        features = [
            _Identity(server),
            ToolMethods(server),
            ResourceMethods(server),
            PromptMethods(server),
            self._listening,
        ]
        self._modern = {k: v for feature in features for k, v in (feature.shared | feature.modern).items()}
        self._legacy = {k: v for feature in features for k, v in (feature.shared | feature.legacy).items()}

    async def handle(self, call: Call) -> Any:
        modern = call.caller.era == "modern"
        answer = (self._modern if modern else self._legacy).get(call.method)
        if answer is None:
            if call.id is None:
                return None
            raise MethodNotFound(call.method[:80])
        result = await answer(call)
        if modern:
            if result.result_type is UNSET:
                result.result_type = "complete"
            result.meta = self._stamp if result.meta is UNSET else {**result.meta, **self._stamp}
        return result

    async def listen(self, call: Call) -> None:
        await self._listening.listen_legacy(call)

    async def end_session(self, call: Call) -> None:
        """What a session set is with the edge; nothing is kept here."""

    async def close(self) -> None:
        self._server.hub.close()
        await self._server.tasks.close()
        await self._server.run_closing()

    def health(self) -> dict[str, Any]:
        server = self._server
        return {
            "status": "ok",
            "server": {"name": server.name, "version": server.version},
            "tools": server.count_tools(),
            "resources": len(server.resources),
            "prompts": len(server.prompts),
        }


class _Identity(Methods):
    """What a client asks first: who are you, and what can you do?"""

    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self.modern = {"server/discover": self._discover}
        self.legacy = {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
        }

    def _capabilities(self, modern: bool) -> dict[str, Any]:
        declared: dict[str, Any] = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
        }
        features = self._server.features
        found: dict[str, Any] = {"logging": {}}
        found |= {name: value for name, value in declared.items() if name in features}
        extensions: dict[str, Any] = {}
        if modern and "tasks" in features:
            extensions[TASKS_EXTENSION] = {}
        if "ui" in features:
            extensions[UI_EXTENSION] = {}
        if extensions:
            found["extensions"] = extensions
        return found

    async def _discover(self, call: Call) -> DiscoverResult:
        result = DiscoverResult(
            supported_versions=list(MODERN_VERSIONS),
            capabilities=self._capabilities(modern=True),
            instructions=self._server.instructions,
        )
        return self._cached(call, result)

    async def _initialize(self, call: Call) -> InitializeResult:
        return InitializeResult(
            protocol_version=call.caller.version,
            capabilities=self._capabilities(modern=False),
            server_info=self._server.implementation,
            instructions=self._server.instructions,
        )

    async def _ping(self, call: Call) -> Result:
        return Result()

    async def _set_level(self, call: Call) -> Result:
        level = decode_params(call.params, SetLevelParams).level
        if call.session is not None:
            call.session.log_level = level
        return Result()
