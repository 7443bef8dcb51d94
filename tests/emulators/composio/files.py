"""Files: the upload request, the mounts of a session, and the store behind the presigned addresses."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from .asked import Asked, Operation, Reply
from .refusals import not_found
from .schemas import closed, text
from .world import Blob, Grant, Session, World

MAX_FILE = 100 * 1024 * 1024
PREFIX = "/mnt/"
"""Where a mount is in the sandbox."""


async def request_upload(asked: Asked) -> Reply:
    body, world = asked.body, asked.world
    world.toolkit(body["toolkit_slug"])
    if body["tool_slug"] not in world.catalogue.tools:
        raise not_found("Tool", body["tool_slug"])
    key = f"proj_emulated/{body['toolkit_slug']}/{body['tool_slug']}/{body['filename']}"
    held = world.blobs.get(key)
    backend = {"metadata": {"storage_backend": world.backend}}
    if world.knows_files and held is not None and held.content is not None and held.md5 == body["md5"]:
        url = world.address(key, "GET")
        shown = {"type": "existing", "existing_url": url, "existingUrl": url}
        return Reply({"id": key, "key": key, **shown, **backend})
    kind, camel = (
        ("update", "updatePresignedUrl") if world.knows_files and held else ("new", "newPresignedUrl")
    )
    blob = Blob(key, body["mimetype"], None, body["md5"], body["filename"])
    blob.toolkit, blob.tool = body["toolkit_slug"], body["tool_slug"]
    world.blobs[key] = blob
    url = world.address(key, "PUT", body["mimetype"])
    shown = {"type": kind, f"{kind}_presigned_url": url, camel: url}
    return Reply({"id": key, "key": key, **shown, **backend})


async def listed(asked: Asked) -> Reply:
    items = [
        {
            "toolkit_slug": blob.toolkit,
            "tool_slug": blob.tool,
            "filename": blob.filename,
            "mimetype": blob.mimetype,
            "md5": blob.md5,
        }
        for blob in asked.world.blobs.values()
        if blob.toolkit
        and asked.one("toolkit_slug") in ("", blob.toolkit)
        and asked.one("tool_slug") in ("", blob.tool)
    ]
    return Reply(asked.page(items))


async def put(asked: Asked) -> Reply:
    """Like S3: the signature covers the content type, and a body must say how long it is."""
    grant = _grant(asked, "PUT")
    if grant is None or asked.headers.get("content-type") != grant.mimetype:
        return _denied("SignatureDoesNotMatch")
    if grant.is_expired:
        return _denied("AccessDenied")
    if "content-length" not in asked.headers:
        return _denied("MissingContentLength", 411)
    if asked.world.backend != "s3" and asked.headers.get("x-ms-blob-type") != "BlockBlob":
        return _denied("MissingRequiredHeader", 400)
    if len(asked.raw) > MAX_FILE:
        return _denied("EntityTooLarge", 400)
    blob = asked.world.blobs[grant.key]
    arrived = asked.raw[:-1] if asked.spoiled == "corrupt" else asked.raw
    if blob.md5 and hashlib.md5(arrived).hexdigest() != blob.md5:
        return _denied("BadDigest", 400)
    blob.content = arrived
    return Reply(b"", headers={"Content-Type": "text/plain"})


async def get(asked: Asked) -> Reply:
    grant = _grant(asked, "GET")
    blob = asked.world.blobs.get(grant.key) if grant else None
    if grant is None or grant.is_expired or blob is None or blob.content is None:
        return _denied("AccessDenied")
    content = blob.content[:-1] + b"?" if asked.spoiled == "corrupt" else blob.content
    return Reply(content, headers={"Content-Type": blob.mimetype})


def _grant(asked: Asked, method: str) -> Grant | None:
    grant = asked.world.grants.get(asked.one("X-Amz-Signature"))
    return grant if grant is not None and grant.method == method else None


def _denied(code: str, status: int = 403) -> Reply:
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code></Error>'
    return Reply(body.encode(), status, {"Content-Type": "application/xml"})


async def mounted(asked: Asked) -> Reply:
    root, prefix = _root(asked), asked.one("mount_relative_prefix")
    held = {
        key.removeprefix(root): blob
        for key, blob in asked.world.blobs.items()
        if key.startswith(root + prefix) and blob.content is not None
    }
    items = [
        {
            "mount_relative_path": path,
            "sandbox_mount_prefix": _prefix(asked),
            "size": len(blob.content or b""),
            "last_modified": blob.made,
        }
        for path, blob in sorted(held.items())
    ]
    page = asked.page(items, size=100, most=500)
    return Reply({"items": page["items"], "next_cursor": page["next_cursor"]})


async def upload_url(asked: Asked) -> Reply:
    path = asked.body["mount_relative_path"].lstrip("/")
    mimetype = asked.body.get("mimetype", "application/octet-stream")
    key = _root(asked) + path
    asked.world.blobs.setdefault(key, Blob(key, mimetype)).mimetype = mimetype
    return Reply({"upload_url": asked.world.address(key, "PUT", mimetype), **_place(asked, path)})


async def download_url(asked: Asked) -> Reply:
    path, key = _held(asked)
    return Reply({"download_url": asked.world.address(key, "GET"), **_place(asked, path)})


async def unmount(asked: Asked) -> Reply:
    path, key = _held(asked)
    del asked.world.blobs[key]
    place = _place(asked, path)
    del place["expires_at"]
    return Reply(place)


def _held(asked: Asked) -> tuple[str, str]:
    path = asked.body["mount_relative_path"].lstrip("/")
    key = _root(asked) + path
    if key not in asked.world.blobs or asked.world.blobs[key].content is None:
        raise not_found("File", path)
    return path, key


def _root(asked: Asked) -> str:
    session = asked.world.session(asked.path["session_id"])
    return f"mounts/{session.id}/{quote(asked.path['mount_id'], safe='')}/"


def of_session(world: World, session: Session) -> dict[str, bytes]:
    """The files in the mounts of a session, by mount and path."""
    root = f"mounts/{session.id}/"
    held = {key.removeprefix(root): blob.content for key, blob in world.blobs.items() if key.startswith(root)}
    return {name: content for name, content in held.items() if content is not None}


def _prefix(asked: Asked) -> str:
    return PREFIX + asked.path["mount_id"]


def _place(asked: Asked, path: str) -> dict[str, Any]:
    until = datetime.now(UTC) + timedelta(hours=1)
    return {
        "mount_relative_path": path,
        "sandbox_mount_prefix": _prefix(asked),
        "expires_at": until.isoformat(),
    }


MOUNT = "/tool_router/session/{session_id}/mounts/{mount_id}"
PATH = text(minLength=1)
OPERATIONS = (
    Operation(
        "files.upload_request",
        "POST",
        "/files/upload/request",
        request_upload,
        closed(
            toolkit_slug_=text(),
            tool_slug_=text(),
            filename_=text(minLength=1),
            mimetype_=text(minLength=1),
            md5_=text(pattern="^[0-9a-f]{32}$"),
        ),
    ),
    Operation(
        "files.list", "GET", "/files/list", listed, query=("toolkit_slug", "tool_slug", "limit", "cursor")
    ),
    Operation(
        "mounts.list",
        "GET",
        MOUNT + "/items",
        mounted,
        query=("mount_relative_prefix", "cursor", "limit"),
        apis=("v3.1",),
    ),
    Operation(
        "mounts.upload_url",
        "POST",
        MOUNT + "/upload_url",
        upload_url,
        closed(mount_relative_path_=PATH, mimetype=text()),
        apis=("v3.1",),
    ),
    Operation(
        "mounts.download_url",
        "POST",
        MOUNT + "/download_url",
        download_url,
        closed(mount_relative_path_=PATH),
        apis=("v3.1",),
    ),
    Operation(
        "mounts.delete", "POST", MOUNT + "/delete", unmount, closed(mount_relative_path_=PATH), apis=("v3.1",)
    ),
)
STORE = (
    Operation("store.put", "PUT", "/store/{key}", put, query=("X-Amz-Signature",)),
    Operation("store.get", "GET", "/store/{key}", get, query=("X-Amz-Signature",)),
)
