"""The words of a server, marked as its own where they could pass for those of the gateway.

Owns the forms of the marks: a question begins with `Server 'x' asks`, progress with `Server 'x':`, a log line
has the server's name as its logger, and an error with a code of the gateway's own gets another. A text
cannot leave its form: what is invisible in it is spelled out, of several lines each is quoted, and it is cut.
Where only one server can speak its words pass as they are (`Forward.marks`).
"""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from ..wire.call import Channel
from ..wire.errors import GATEWAY_CODES, INTERNAL_ERROR, ErrorObject, McpError
from ..wire.messages import decode_params, encode
from ..wire.text import printable

URL_ELICITATION_REQUIRED = -32042
_MARKED_CODES = GATEWAY_CODES | {URL_ELICITATION_REQUIRED}
_OUR_FORM = re.compile(r"^\W*(?:server\s+\W|toolyard\b)", re.I | re.M)
"""How a line of the gateway's own begins: `Server 'x': it is down`, `Toolyard asks`."""
MAX_QUESTION = 4_000
MAX_PROMPT = 20_000
MAX_LABEL = 500

ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
PROGRESS, MESSAGE = "notifications/progress", "notifications/message"

Members = dict[str, Any]


class _Question(Struct):
    method: str
    params: Raw = Raw(b"{}")


def cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def quoted(text: str, size: int) -> str:
    """The text line by line behind `>`."""
    return "\n".join(f"> {line}" for line in cut(printable(text), size).split("\n"))


def one_line(text: str, size: int = MAX_LABEL) -> str:
    return cut(" ".join(printable(text).split()), size)


def asks(server: str, text: str, size: int = MAX_QUESTION) -> str:
    text = text.strip()
    if not text:
        return f"Server {server!r} asks."
    shown = "\n" + quoted(text, size) if "\n" in text else " " + cut(printable(text), size)
    return f"Server {server!r} asks:{shown}"


def question(server: str, method: str, params: Any) -> Members:
    """The params of a server's request to the client."""
    members = _members(params)
    if method == ELICIT:
        members["message"] = asks(server, _text(members.get("message")))
        if "requestedSchema" in members:
            members["requestedSchema"] = _labelled(_plain(members["requestedSchema"]))
        if "url" in members:
            url = _text(members["url"])
            members["url"] = "".join(one if one.isprintable() else quote(one) for one in url)
    elif method == SAMPLE:
        members["systemPrompt"] = asks(server, _text(members.get("systemPrompt")), MAX_PROMPT)
    return members


def questions(server: str, requests: Any) -> Members:
    """The `inputRequests` of a result or a task."""
    found = decode_params(_raw(requests), dict[str, _Question])
    return {
        key: {"method": one.method, "params": question(server, one.method, one.params)}
        for key, one in found.items()
    }


def task(server: str, members: Members) -> Members:
    """The state of a task."""
    marked = dict(members)
    if "inputRequests" in marked:
        marked["inputRequests"] = questions(server, marked["inputRequests"])
    if _text(marked.get("statusMessage")):
        marked["statusMessage"] = _told(server, marked["statusMessage"])
    if marked.get("error") is not None:
        found = decode_params(_raw(marked["error"]), ErrorObject)
        failed = McpError(found.code, found.message, found.data)
        if passes_for_ours(failed):
            marked["error"] = error(server, failed).to_wire()
    return marked


def notice(server: str, method: str, params: Any) -> Any:
    """The params of a notification about a call."""
    if method not in (PROGRESS, MESSAGE):
        return params
    members = _members(params)
    if method == MESSAGE:
        logger = one_line(_text(members.get("logger")))
        members["logger"] = f"{server}/{logger}" if logger else server
    elif "message" in members:
        members["message"] = _told(server, members["message"])
    return members


def _told(server: str, value: Any) -> str:
    return f"Server {server!r}: {one_line(_text(value))}"


def passes_for_ours(failed: McpError) -> bool:
    """Whether an error of a server has the code, the data or the form of one that the gateway says, or hides
    what form it has.
    """
    message = failed.message
    if failed.code in _MARKED_CODES or _OUR_FORM.search(message) or printable(message) != message:
        return True
    data = _plain(failed.data) if failed.code == INTERNAL_ERROR else None
    return isinstance(data, dict) and "server" in data


def error(server: str, failed: McpError) -> McpError:
    """An error of a server that asks, or that passes for one of the gateway's."""
    if failed.code == URL_ELICITATION_REQUIRED:
        return McpError(failed.code, _told(server, failed.message), _asking(server, failed.data))
    data = {"server": server, "code": failed.code}
    if failed.data is not None:
        data["data"] = failed.data
    return McpError(INTERNAL_ERROR, _told(server, failed.message), data)


def _asking(server: str, data: Any) -> Any:
    """With the pages that the user has to open first, in `elicitations`."""
    members = _plain(data)
    pages = cast(Members, members).get("elicitations") if isinstance(members, dict) else None
    if not isinstance(pages, list):
        return data
    shown = [question(server, ELICIT, one) for one in cast(list[Any], pages) if isinstance(one, dict)]
    return {**cast(Members, members), "elicitations": shown}


class ServerChannel:
    """A call's channel, as a server speaks on it."""

    __slots__ = ("_channel", "_server")

    def __init__(self, channel: Channel, server: str) -> None:
        self._channel = channel
        self._server = server

    async def notify(self, method: str, params: Any) -> None:
        await self._channel.notify(method, notice(self._server, method, params))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._channel.ask(method, question(self._server, method, params))

    async def release(self, retry_ms: int | None) -> None:
        await self._channel.release(retry_ms)


def _raw(value: Any) -> Raw:
    return value if isinstance(value, Raw) else Raw(encode(value))


def _members(params: Any) -> Members:
    if isinstance(params, Mapping):
        return dict(cast(Members, params))
    return cast(Members, decode_params(_raw(params), dict[str, Raw]))


def _plain(value: Any) -> Any:
    return msgspec.json.decode(_raw(value))


def _text(value: Any) -> str:
    """A text, or nothing if it is something else."""
    found = _plain(value) if isinstance(value, Raw) else value
    return found if isinstance(found, str) else ""


def _labelled(schema: Any) -> Any:
    """A form with labels that hide nothing. Values stay, since the server knows its answers by them."""
    if isinstance(schema, list):
        return [_labelled(item) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    shown: Members = {}
    for key, value in cast(Members, schema).items():
        if key in ("title", "description") and isinstance(value, str):
            shown[key] = one_line(value)
        elif key == "enumNames" and isinstance(value, list):
            shown[key] = [one_line(_text(name)) for name in cast(list[Any], value)]
        elif key == "properties" and isinstance(value, dict):
            shown[key] = {name: _named(name, field) for name, field in cast(Members, value).items()}
        else:
            shown[key] = _labelled(value)
    return shown


def _named(name: str, field: Any) -> Any:
    """A field of a form; its name is its label if it has no title."""
    title = one_line(name)
    return _labelled(
        {"title": title, **cast(Members, field)} if isinstance(field, dict) and title != name else field
    )
