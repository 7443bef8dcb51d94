"""One request: as it came (`Request`, for tests to look at), and as endpoints get it (`Asked`, checked)."""

from dataclasses import dataclass, field
from typing import Any

from .shelves import Json
from .tenant import Tenant


@dataclass(frozen=True)
class Attachment:
    filename: str
    content_type: str
    content: bytes


@dataclass
class Request:
    method: str
    path: str
    """Without the base, as it was written: with its percent signs."""
    query: list[tuple[str, str]]
    headers: dict[str, str]
    """By lower-case names."""
    key: str = ""
    """What came as Bearer."""
    raw: bytes = b""
    """The body, unless it is multipart."""
    body: Any = None
    """The body as JSON."""
    form: dict[str, str] = field(default_factory=dict[str, str])
    files: list[Attachment] = field(default_factory=list[Attachment])
    status: int = 0
    """How it was answered; 0 when it was not."""

    @property
    def parameters(self) -> dict[str, str]:
        return dict(self.query)


@dataclass
class Asked:
    tenant: Tenant
    ids: dict[str, int]
    """Of the path."""
    query: dict[str, Any]
    body: Json
    """Members of the JSON body without what they are wrapped in, or fields of the form."""
    files: list[Attachment]


@dataclass
class Reply:
    body: Any
    status: int = 200
    total: int | None = None
    """For the header `X-Total-Items`."""


GONE = Reply(None, 204)


def made(thing: Any) -> Reply:
    return Reply(thing, 201)
