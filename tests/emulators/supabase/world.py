"""Buckets and what lies in them, and what is refused."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

KEY = re.compile(r"[A-Za-z0-9_/!.*'() &$=@;:+,?-]+")
NAME = re.compile(r"[A-Za-z0-9_!.*'() &$=@;:+,?-]{1,100}")


class Refusal(Exception):
    """Sent as HTTP 400 unless it is 500, with the status that is meant in the body, as the server does."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.sent_as = 500 if status == 500 else 400
        self.body = {"statusCode": str(status), "error": error, "message": message}


def no_bucket() -> Refusal:
    return Refusal(404, "Bucket not found", "Bucket not found")


def no_object() -> Refusal:
    return Refusal(404, "not_found", "Object not found")


def _moment() -> str:
    return datetime.now(UTC).isoformat()


@dataclass
class Object:
    name: str
    content: bytes
    content_type: str
    cache_control: str
    metadata: dict[str, Any] | None
    id: str = field(default_factory=lambda: str(uuid4()))
    created_at: str = field(default_factory=_moment)

    @property
    def shown(self) -> dict[str, Any]:
        known = {"size": len(self.content), "mimetype": self.content_type, "cacheControl": self.cache_control}
        times = dict.fromkeys(("created_at", "updated_at", "last_accessed_at"), self.created_at)
        return {"name": self.name, "id": self.id, "metadata": known, **times}

    @property
    def info(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "version": self.id,
            "size": len(self.content),
            "content_type": self.content_type,
            "cache_control": self.cache_control,
            "etag": f'"{self.id}"',
            "metadata": self.metadata,
            "last_modified": self.created_at,
            "created_at": self.created_at,
        }


@dataclass
class Bucket:
    id: str
    public: bool = False
    file_size_limit: int | None = None
    allowed_mime_types: list[str] | None = None
    created_at: str = field(default_factory=_moment)
    objects: dict[str, Object] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, Any]:
        limits = {"file_size_limit": self.file_size_limit, "allowed_mime_types": self.allowed_mime_types}
        times = {"created_at": self.created_at, "updated_at": self.created_at}
        return {"id": self.id, "name": self.id, "owner": "", "public": self.public, **limits, **times}

    def object(self, key: str) -> Object:
        if key not in self.objects:
            raise no_object()
        return self.objects[key]

    def put(self, made: Object, replace: bool) -> None:
        if not KEY.fullmatch(made.name):
            raise Refusal(400, "InvalidKey", f"Invalid key: {made.name}")
        if self.file_size_limit is not None and len(made.content) > self.file_size_limit:
            raise Refusal(413, "Payload too large", "The object exceeded the maximum allowed size")
        if made.name in self.objects and not replace:
            raise Refusal(409, "Duplicate", "The resource already exists")
        self.objects[made.name] = made

    def listed(self, folder: str, limit: int, offset: int) -> list[dict[str, Any]]:
        """What is directly in a folder; folders have no id."""
        start = f"{folder.rstrip('/')}/" if folder else ""
        found: dict[str, dict[str, Any]] = {}
        for key, kept in self.objects.items():
            if key.startswith(start):
                name, slash, _ = key.removeprefix(start).partition("/")
                folded = {"name": name, "id": None, "metadata": None, "created_at": None, "updated_at": None}
                found[name] = folded if slash else kept.shown | {"name": name}
        return [found[name] for name in sorted(found)][offset : offset + limit]


class World:
    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}

    def bucket(self, id: str) -> Bucket:
        if id not in self.buckets:
            raise no_bucket()
        return self.buckets[id]

    def create(self, id: str, **options: Any) -> Bucket:
        if not NAME.fullmatch(id):
            raise Refusal(400, "Invalid Input", "Bucket name invalid")
        if id in self.buckets:
            raise Refusal(409, "Duplicate", "The resource already exists")
        self.buckets[id] = Bucket(id, **options)
        return self.buckets[id]
