"""Bodies of requests: which form an endpoint takes, which members, of which type; the rest is refused."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import BodyPartReader, web

from .asked import Attachment, Request
from .queries import number
from .refusals import Refusal, invalid
from .shelves import Json

Kind = Literal["text", "int", "number", "bool", "ints", "texts", "list", "any"]
MOST_FILES = 10
MIB = 1024 * 1024


@dataclass(frozen=True)
class Body:
    form: Literal["none", "json", "multipart"] = "none"
    required: dict[str, Kind] = field(default_factory=dict[str, Kind])
    optional: dict[str, Kind] = field(default_factory=dict[str, Kind])
    wrap: str = ""
    """The member in which all others must come."""
    files: int = 0
    """The most bytes of one file; none may come where it is 0."""


NOTHING = Body()


async def read(request: web.Request, into: Request) -> None:
    """Take the body in, whatever the endpoint will say to it."""
    if request.content_type == "multipart/form-data":
        try:
            await _read_parts(request, into)
        except (ValueError, AssertionError, RuntimeError):
            raise Refusal(400, "The multipart body cannot be read") from None
        return
    into.raw = await request.read()
    if request.content_type == "application/json" and into.raw:
        try:
            into.body = json.loads(into.raw)
        except ValueError:
            raise Refusal(400, "The body is not JSON") from None


async def _read_parts(request: web.Request, into: Request) -> None:
    reader = await request.multipart()
    while (part := await reader.next()) is not None:
        if not isinstance(part, BodyPartReader) or not part.name:
            raise invalid("form", "has a part without a name")
        content = bytes(await part.read())
        if part.name == "files[]":
            _take_file(part, content, into)
        elif part.filename is not None or part.name in into.form:
            raise invalid(part.name, "is no file, or came twice")
        else:
            into.form[part.name] = content.decode()


def _take_file(part: BodyPartReader, content: bytes, into: Request) -> None:
    if not part.filename or set(part.filename) & set('/\\"\r\n\0'):
        raise invalid("files[]", "needs a file name without a path")
    kind = part.headers.get("Content-Type", "application/octet-stream")
    into.files.append(Attachment(part.filename, kind, content))


def checked(body: Body, request: web.Request, came: Request) -> Json:
    """The members or fields, without what they are wrapped in."""
    if body.form == "multipart":
        return _form(body, request, came)
    if came.form or came.files:
        raise Refusal(415, "multipart/form-data is not accepted here")
    if body.form == "none":
        if came.body not in (None, {}) or (came.raw and came.body is None):
            raise Refusal(400, "No body is expected here")
        return {}
    if came.raw and request.content_type != "application/json":
        raise Refusal(415, "The body must be application/json")
    members = {} if came.body is None else came.body
    if body.wrap:
        members = _unwrapped(body.wrap, members)
    return _members(body, members)


def _unwrapped(name: str, members: Any) -> Any:
    if not isinstance(members, dict) or set(members) != {name}:
        raise invalid(name, "must be the only member, with all others in it")
    return members[name]


def _members(body: Body, members: Any) -> Json:
    if not isinstance(members, dict):
        raise Refusal(400, "The body must be a JSON object")
    _names(body, members)
    for name, value in members.items():
        kind = body.required.get(name) or body.optional[name]
        if not _fits(kind, value):
            raise invalid(name, f"must be of the type {kind}")
    return dict(members)


def _form(body: Body, request: web.Request, came: Request) -> Json:
    if request.content_type != "multipart/form-data":
        raise Refusal(415, "The body must be multipart/form-data")
    _names(body, came.form)
    _files(body, came.files)
    values: Json = {}
    for name, text in came.form.items():
        kind = body.required.get(name) or body.optional[name]
        values[name] = number(name, text) if kind == "int" else text
        if kind == "bool" and text not in ("true", "false"):
            raise invalid(name, "must be true or false")
    return values


def _files(body: Body, files: list[Attachment]) -> None:
    if len(files) > MOST_FILES:
        raise invalid("files", f"cannot be more than {MOST_FILES}")
    for file in files:
        if not file.content:
            raise invalid("files", f"{file.filename} is empty")
        if len(file.content) > body.files:
            raise invalid("files", f"{file.filename} is larger than {body.files // MIB} MB")


def _names(body: Body, members: Json) -> None:
    for name in members:
        if name not in body.required and name not in body.optional:
            raise invalid(name, "is not a known field")
    for name in body.required:
        if members.get(name) in (None, "", []):
            raise invalid(name, "can't be blank")


def _fits(kind: Kind, value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "text":
            return isinstance(value, str)
        case "int":
            return whole
        case "number":
            return whole or isinstance(value, float)
        case "bool":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case "any":
            return True
        case "ints" | "texts":
            wanted = "int" if kind == "ints" else "text"
            return isinstance(value, list) and all(_fits(wanted, item) for item in value)
