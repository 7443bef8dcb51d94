"""A legacy server at an HTTP address: a handshake, a session, and questions in the middle of a reply."""

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from ...wire.errors import InternalError, McpError
from ...wire.messages import (
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    encode,
    encode_error,
)
from ...wire.versions import LATEST_LEGACY, LEGACY_VERSIONS, MODERN_VERSIONS
from ..ui.messages import CommandError
from .connection import CAPABILITIES, PROGRESS_TOKEN, UserInterface, read_description
from .http import Headers, HttpEndpoint
from .remote import CLIENT_INFO, JSON_HEADERS, result_of, without_notifications

MAX_RECONNECTS = 100
MAX_QUESTIONS = 100


class Legacy:
    def __init__(self, address: HttpEndpoint, user: UserInterface) -> None:
        self._address = address
        self._user = user
        self._ids = count(1)
        self._session: Headers = {}
        opening = {"protocolVersion": LATEST_LEGACY, "capabilities": CAPABILITIES, "clientInfo": CLIENT_INFO}
        found = self.request("initialize", opening)
        self._session["MCP-Protocol-Version"] = _version_of(found)
        self._tell(encode(JsonRpcNotification("notifications/initialized", {})))
        self.about = read_description(found.get("serverInfo"), found)

    def call_tool(self, tool: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        meta = {"progressToken": PROGRESS_TOKEN}
        return self.request("tools/call", {"name": tool["name"], "arguments": arguments, "_meta": meta})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        id, asked = next(self._ids), 0
        for message in without_notifications(
            self._replies(encode(JsonRpcRequest(id, method, params))), self._user
        ):
            if message.is_request:
                asked += message.method != "ping"
                if asked > MAX_QUESTIONS:
                    raise CommandError(f"{method!r} asked for input {MAX_QUESTIONS} times without an end")
                self._answer(message)
            elif message.id == id:
                return result_of(message)
        raise CommandError(f"{self._address.url} closed the connection before it answered {method!r}")

    def _replies(self, body: bytes) -> Iterator[JsonRpcMessage]:
        """The messages of a reply; where it was cut, the client comes back for the rest."""
        verb, headers, sent = "POST", JSON_HEADERS, body
        for _ in range(MAX_RECONNECTS):
            with self._address.send(verb, {**headers, **self._session}, sent) as reply:
                if session := reply.header("mcp-session-id"):
                    self._session["Mcp-Session-Id"] = session
                yield from reply.messages()
            if reply.last_event_id is None:
                return
            time.sleep(min((reply.retry_ms or 0) / 1000, self._address.timeout))
            verb, sent = "GET", None
            headers = {"Accept": "text/event-stream", "Last-Event-ID": _as_bytes(reply.last_event_id)}

    def _answer(self, message: JsonRpcMessage) -> None:
        assert isinstance(message.id, int | str)
        method = str(message.method)
        try:
            params = msgspec.json.decode(message.params, type=dict[str, Any])
            result = {} if method == "ping" else self._user.answer(method, params)
            self._tell(encode(JsonRpcResponse(message.id, result)))
        except McpError as error:
            self._tell(encode_error(message.id, error))
        except KeyboardInterrupt:
            self._tell(encode_error(message.id, InternalError("The user interrupted the call")))
            raise

    def _tell(self, body: bytes) -> None:
        with self._address.send("POST", {**JSON_HEADERS, **self._session}, body) as reply:
            reply.check()

    def close(self) -> None:
        """End the session, and with it what may still be running."""
        if "Mcp-Session-Id" not in self._session:
            return
        with suppress(CommandError), self._address.send("DELETE", self._session):
            pass


def _version_of(opened: dict[str, Any]) -> str:
    version = opened.get("protocolVersion", LATEST_LEGACY)
    if version not in LEGACY_VERSIONS:
        advice = f"this command speaks {', '.join((*LEGACY_VERSIONS, *MODERN_VERSIONS))}"
        raise CommandError(
            f"the server speaks version {str(version)[:80]!r} of MCP, which is none we know", advice
        )
    return version


def _as_bytes(id: str) -> str:
    """In UTF-8, as the standard for events has it: `http.client` sends each character as one byte."""
    return id.encode().decode("latin-1")
