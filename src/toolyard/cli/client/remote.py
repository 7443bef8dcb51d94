"""A server at an HTTP address: modern first, the legacy handshake when it does not know better."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from ... import __version__
from ...wire.call import CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY, SERVER_KEY, VERSION_KEY
from ...wire.errors import McpError
from ...wire.headers import NAME_PARAMS, encode_value, param_headers
from ...wire.messages import JsonRpcMessage, JsonRpcRequest, encode
from ...wire.versions import LATEST_MODERN
from ..json_values import as_list, as_object
from ..ui.messages import CommandError
from .connection import (
    CAPABILITIES,
    LOG_LEVEL,
    MAX_ROUNDS,
    PROGRESS_TOKEN,
    CliClient,
    ServerDescription,
    UserInterface,
    read_description,
)
from .http import AUTH_STATUSES, Headers, HttpEndpoint, HttpRefusedError

JSON_HEADERS: Headers = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "User-Agent": f"toolyard/{__version__}",
}
CLIENT_INFO = {"name": "toolyard", "version": __version__}


def open_remote(url: str, headers: tuple[str, ...], timeout: float, user: UserInterface) -> CliClient:
    address = HttpEndpoint(url, headers, timeout)
    modern = Modern(address, user)
    try:
        modern.discover()
    except (McpError, HttpRefusedError) as error:
        if isinstance(error, HttpRefusedError) and (
            error.status in AUTH_STATUSES or not 400 <= error.status < 500
        ):
            raise
        # Whatever a server has against a modern request, `initialize` shows whether it is a legacy one.
        from .legacy import Legacy

        return Legacy(address, user)
    return modern


class Modern:
    """2026-07-28: every request stands for itself."""

    def __init__(self, address: HttpEndpoint, user: UserInterface) -> None:
        self._address = address
        self._user = user
        self._ids = count(1)
        self._meta: dict[str, Any] = {
            VERSION_KEY: LATEST_MODERN,
            CAPABILITIES_KEY: CAPABILITIES,
            CLIENT_KEY: CLIENT_INFO,
            LOG_LEVEL_KEY: LOG_LEVEL,
        }
        self.about = ServerDescription({}, {})

    def discover(self) -> None:
        found = self.request("server/discover", {})
        if LATEST_MODERN not in as_list(found.get("supportedVersions")):
            raise McpError(0, f"the server does not speak {LATEST_MODERN}")
        self.about = read_description(as_object(found.get("_meta")).get(SERVER_KEY), found)

    def request(
        self,
        method: str,
        params: dict[str, Any],
        headers: Headers | None = None,
        progress_token: str | None = None,
    ) -> dict[str, Any]:
        meta = self._meta | ({"progressToken": progress_token} if progress_token is not None else {})
        params = {**params, "_meta": meta}
        for _ in range(MAX_ROUNDS):
            result = self._once(method, params, headers or {})
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            if kind != "input_required":
                raise CommandError(f"the server answered {method!r} with a {kind!r}, which was not asked for")
            params = params | self._answers(result)
        raise CommandError(f"{method!r} asked for input {MAX_ROUNDS} times without an end")

    def _answers(self, result: dict[str, Any]) -> dict[str, Any]:
        requests = {key: as_object(item) for key, item in as_object(result.get("inputRequests")).items()}
        found = {
            key: self._user.answer(str(item.get("method")), dict(as_object(item.get("params"))))
            for key, item in requests.items()
        }
        state = result.get("requestState")
        return {"inputResponses": found} | ({"requestState": state} if state is not None else {})

    def _once(self, method: str, params: dict[str, Any], headers: Headers) -> dict[str, Any]:
        id = next(self._ids)
        mirrored = {"MCP-Protocol-Version": LATEST_MODERN, "Mcp-Method": method}
        if method in NAME_PARAMS:
            mirrored["Mcp-Name"] = encode_value(params[NAME_PARAMS[method]])
        body = encode(JsonRpcRequest(id, method, params))
        with self._address.send("POST", {**JSON_HEADERS, **mirrored, **headers}, body) as reply:
            for message in without_notifications(reply.messages(), self._user):
                if message.id == id:
                    return result_of(message)
        raise CommandError(f"{self._address.url} closed the connection before it answered {method!r}")

    def call_tool(self, tool: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool["name"], "arguments": arguments}
        return self.request("tools/call", params, _param_headers(tool, arguments), PROGRESS_TOKEN)

    def close(self) -> None:
        """Nothing is held."""


def without_notifications(
    messages: Iterator[JsonRpcMessage], user: UserInterface
) -> Iterator[JsonRpcMessage]:
    """The messages that are no notifications; those go to the user."""
    for message in messages:
        if message.is_notification:
            user.hear(str(message.method), msgspec.json.decode(message.params))
        else:
            yield message


def result_of(message: JsonRpcMessage) -> dict[str, Any]:
    if not isinstance(message.error, msgspec.UnsetType):
        raise McpError(message.error.code, message.error.message, message.error.data)
    if isinstance(message.result, msgspec.UnsetType):  # a request, with the id of ours
        raise CommandError("the server answered with a question of its own")
    try:
        return msgspec.json.decode(message.result, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise CommandError(f"the server's answer is not an object: {error}") from None


def _param_headers(tool: dict[str, Any], arguments: dict[str, Any]) -> Headers:
    """The arguments that the tool wants to see in headers too."""
    try:
        wanted = param_headers(dict(as_object(tool.get("inputSchema"))))
    except ValueError as error:
        raise CommandError(f"tool {tool['name']!r} cannot be called over HTTP: {error}") from None
    found: Headers = {}
    for item in wanted:
        value: Any = arguments
        for key in item.path:
            value = as_object(value).get(key)
        if value is not None:
            found[item.header] = encode_value(value)
    return found
