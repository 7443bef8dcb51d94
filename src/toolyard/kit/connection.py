"""A client in the same process: it calls the service directly, without a transport.

For tests, the command line, and programs that use their own tools. Its callbacks answer the server's
questions, in either era.
"""

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw

from ..wire.call import Call, Caller, ClientInfo, Identity, LegacySession, Secret, Service, StreamedResult
from ..wire.errors import McpError, MethodNotFound
from ..wire.seal import digest
from ..wire.types import Result
from ..wire.versions import LATEST_LEGACY, LATEST_MODERN

Answerer = Callable[[dict[str, Any]], Any | Awaitable[Any]]
"""Takes the params of a request and returns its result, both as plain data."""

MAX_ROUNDS = 20


class Connection:
    """`async with server.connect() as client: await client.call_tool("add", {"a": 1})`

    Results are plain data, as decoded from JSON. `keys` are the caller's keys, by header, as over HTTP.
    """

    def __init__(
        self,
        service: Service,
        *,
        era: Literal["modern", "legacy"] = "modern",
        capabilities: dict[str, Any] | None = None,
        client: ClientInfo = ClientInfo("in-process"),  # noqa: B008 (frozen)
        identity: Identity = Identity(),  # noqa: B008 (frozen)
        log_level: str | None = None,
        keys: Mapping[str, str] | None = None,
        on_elicit: Answerer | None = None,
        on_sample: Answerer | None = None,
        on_roots: Answerer | None = None,
        on_notification: Callable[[str, dict[str, Any]], None] | None = None,
    ) -> None:
        self._service = service
        self._answerers = {
            "elicitation/create": on_elicit,
            "sampling/createMessage": on_sample,
            "roots/list": on_roots,
        }
        self._on_notification = on_notification
        declared: dict[str, Any] = dict(capabilities or {})
        for name, answerer in (("elicitation", on_elicit), ("sampling", on_sample), ("roots", on_roots)):
            if answerer is not None:
                declared.setdefault(name, {})
        version = LATEST_MODERN if era == "modern" else LATEST_LEGACY
        self._caller = Caller(version, declared, client, identity, log_level)
        self._secrets = None
        if keys is not None:
            self._secrets = {name: Secret(key, digest(key.encode())) for name, key in keys.items()}
        self._listening: asyncio.Task[None] | None = None
        self._session = LegacySession(secrets.token_urlsafe(8)) if era == "legacy" else None

    async def __aenter__(self) -> "Connection":
        if self._session is not None:
            call = Call("", Raw(b"{}"), self._caller, self, session=self._session)
            self._listening = asyncio.create_task(self._service.listen(call))
            await asyncio.sleep(0)  # lets it start listening
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send any request; callbacks answer the server's questions."""
        arguments = dict(params or {})
        for _ in range(MAX_ROUNDS):
            result = await self._send(method, arguments)
            if isinstance(result, StreamedResult):
                return await _whole(result)
            plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
            if plain.get("resultType") != "input_required":
                return plain
            answers = {
                key: await self._reply(request["method"], request["params"])
                for key, request in plain["inputRequests"].items()
            }
            arguments |= {"inputResponses": answers}
            if "requestState" in plain:
                arguments["requestState"] = plain["requestState"]
        raise McpError(-32603, f"{method} asked for input more than {MAX_ROUNDS} times")

    async def _send(self, method: str, params: dict[str, Any]) -> Result:
        meta: dict[str, Any] = params.get("_meta") or {}
        token = meta.get("progressToken")
        raw = Raw(msgspec.json.encode(params))
        id = secrets.randbits(32)
        call = Call(method, raw, self._caller, self, id, token, self._session, secrets=self._secrets)
        return await self._service.handle(call)

    async def _reply(self, method: str, params: Any) -> Any:
        answerer = self._answerers.get(method)
        if answerer is None:
            raise MethodNotFound(method)
        value: Any = answerer(params)
        return await value if inspect.isawaitable(value) else value

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, progress_token: str | None = None
    ) -> dict[str, Any]:
        params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
        if progress_token is not None:
            params["_meta"] = {"progressToken": progress_token}
        return await self.request("tools/call", params)

    async def list_tools(self) -> list[dict[str, Any]]:
        return await self._all("tools/list", "tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        return await self._all("resources/list", "resources")

    async def list_prompts(self) -> list[dict[str, Any]]:
        return await self._all("prompts/list", "prompts")

    async def _all(self, method: str, member: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            answer = await self.request(method, {"cursor": cursor} if cursor else {})
            items += answer[member]
            cursor = answer.get("nextCursor")
            if cursor is None:
                return items

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        return (await self.request("resources/read", {"uri": uri}))["contents"]

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> dict[str, Any]:
        return await self.request("prompts/get", {"name": name, "arguments": arguments or {}})

    async def notify(self, method: str, params: Any) -> None:
        if self._on_notification is not None:
            self._on_notification(method, msgspec.json.decode(msgspec.json.encode(params)))

    async def ask(self, method: str, params: Any) -> Raw:
        return Raw(msgspec.json.encode(await self._reply(method, params)))

    async def release(self, retry_ms: int | None) -> None:
        return None


async def _whole(result: StreamedResult) -> dict[str, Any]:
    try:
        return msgspec.json.decode(b"".join([chunk async for chunk in result.chunks()]))
    finally:
        result.close()
