"""A request as an operation sees it, after the door has let it in, and what the operation replies."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from .refusals import Refusal, invalid
from .schemas import Schema
from .world import World

MOST = 1000
"""The biggest page."""


@dataclass
class Reply:
    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Asked:
    operation: str
    world: World
    url: str
    """Where the emulator is, for the addresses in its replies."""
    api: str
    """`v3` or `v3.1`."""
    path: dict[str, str]
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    raw: bytes
    is_empty: bool = False
    """A fault asks for a good reply with nothing found."""
    spoiled: str = ""
    """A fault that the operation itself has to show: `corrupt` or `lie`."""
    shape: str = "2026"
    """Which of the known forms a search replies in: `2026` or `2025`."""

    def one(self, name: str, default: str = "") -> str:
        values = self.query.get(name)
        return values[-1] if values else default

    def several(self, name: str) -> list[str]:
        """A list in the query: repeated, or joined by commas."""
        joined = [part for value in self.query.get(name, ()) for part in value.split(",")]
        return [part.strip() for part in joined if part.strip()]

    def flag(self, name: str) -> bool | None:
        value = self.one(name)
        if value not in ("", "true", "false"):
            raise invalid([f"query.{name}: expected true or false, got {value!r}"])
        return None if value == "" else value == "true"

    def among(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.one(name)
        if value and value not in choices:
            raise invalid([f"query.{name}: expected one of {', '.join(choices)}, got {value!r}"])
        return value

    def page(self, items: Sequence[Any], size: int = 20, most: int = MOST) -> dict[str, Any]:
        """One page of these, as `limit` and `cursor` ask for it."""
        items = [] if self.is_empty else items
        limit = _limit(self.one("limit"), size, most)
        number = 1
        if cursor := self.one("cursor"):
            number, limit = _opened(cursor)
        pages = max(1, -(-len(items) // limit))
        following = _cursor(number + 1, limit) if number < pages else None
        return {
            "items": list(items[(number - 1) * limit : number * limit]),
            "next_cursor": following,
            "total_pages": pages,
            "current_page": number,
            "total_items": len(items),
        }


Handler = Callable[[Asked], Awaitable[Reply]]


@dataclass(frozen=True)
class Operation:
    """One endpoint: its name for faults, where it is, what body and query it takes."""

    name: str
    method: str
    path: str
    answer: Handler
    body: Schema | None = None
    query: tuple[str, ...] = ()
    apis: tuple[str, ...] = ("v3", "v3.1")
    fallback_body: dict[str, Any] | None = None
    """What an empty body stands for, where one is allowed."""

    def checked(self, raw: bytes, query: dict[str, list[str]]) -> Any:
        """The body, if it and the query are what the API takes."""
        strange = sorted(set(query) - set(self.query))
        if strange:
            raise invalid([f"query.{name}: unknown parameter" for name in strange])
        if self.body is None:
            return None
        if not raw and self.fallback_body is not None:
            return self.fallback_body
        try:
            value = json.loads(raw)
        except ValueError as error:
            raise Refusal(400, f"Invalid JSON in request body: {error}") from None
        if errors := mistakes(self.body, value):
            raise invalid(errors)
        return value


def mistakes(schema: Schema, value: Any) -> list[str]:
    """What is wrong with a value, in sentences that name the place."""
    found = jsonschema_rs.validator_for(schema).iter_errors(value)
    return [f"{'.'.join(map(str, error.instance_path)) or 'body'}: {error.message}" for error in found]


def _limit(value: str, size: int, most: int) -> int:
    if not value:
        return size
    if not value.isdigit() or not 1 <= int(value) <= most:
        raise invalid([f"query.limit: expected a number from 1 to {most}, got {value!r}"])
    return int(value)


def _cursor(page: int, limit: int) -> str:
    return base64.b64encode(f"{page}-{limit}".encode()).decode()


def _opened(cursor: str) -> tuple[int, int]:
    try:
        page, limit = base64.b64decode(cursor, validate=True).decode().split("-")
        return int(page), int(limit)
    except (binascii.Error, ValueError):
        raise invalid([f"query.cursor: not a cursor of ours: {cursor!r}"]) from None
