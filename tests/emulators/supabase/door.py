"""The endpoints: who asks, what for, and the reply."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from aiohttp import BodyPartReader, web

from .world import Object, Refusal, World, no_bucket

OPTIONS = ("public", "file_size_limit", "allowed_mime_types")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    def __init__(self, world: World, service_key: str, anon_key: str) -> None:
        self.world = world
        self._keys = {service_key: "service_role", anon_key: "anon"}
        self._secret = service_key.encode()

    def routes(self) -> list[web.RouteDef]:
        """The first that fits is taken, so the general ones come last."""
        at, key = "/storage/v1", "{key:.+}"
        known: list[tuple[str, str, Handler]] = [
            ("GET", "/bucket", self.buckets),
            ("POST", "/bucket", self.create_bucket),
            ("GET", "/bucket/{bucket}", self.bucket),
            ("PUT", "/bucket/{bucket}", self.update_bucket),
            ("POST", "/bucket/{bucket}/empty", self.empty_bucket),
            ("DELETE", "/bucket/{bucket}", self.delete_bucket),
            ("POST", "/object/list/{bucket}", self.list),
            ("POST", "/object/move", self.move),
            ("POST", "/object/copy", self.copy),
            ("POST", "/object/sign/{bucket}", self.sign_many),
            ("POST", f"/object/sign/{{bucket}}/{key}", self.sign),
            ("GET", f"/object/sign/{{bucket}}/{key}", self.signed),
            ("GET", f"/object/public/{{bucket}}/{key}", self.public),
            ("GET", f"/object/info/{{bucket}}/{key}", self.info),
            ("GET", f"/object/authenticated/{{bucket}}/{key}", self.download),
            ("DELETE", "/object/{bucket}", self.remove),
            ("GET", f"/object/{{bucket}}/{key}", self.download),
            ("POST", f"/object/{{bucket}}/{key}", self.upload),
            ("PUT", f"/object/{{bucket}}/{key}", self.upload),
        ]
        return [web.route(method, at + path, handler) for method, path, handler in known]

    def _role(self, request: web.Request) -> str:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self._keys:
            raise Refusal(403, "Unauthorized", "Invalid Compact JWS")
        return self._keys[token]

    def _bucket(self, request: web.Request) -> Any:
        """Row level security has no policies here: who is not the service role sees nothing."""
        if self._role(request) != "service_role":
            raise no_bucket()
        return self.world.bucket(request.match_info["bucket"])

    async def buckets(self, request: web.Request) -> web.Response:
        seen = self._role(request) == "service_role"
        return web.json_response([kept.shown for kept in self.world.buckets.values() if seen])

    async def create_bucket(self, request: web.Request) -> web.Response:
        if self._role(request) != "service_role":
            raise Refusal(403, "Unauthorized", "new row violates row-level security policy")
        body = await request.json()
        self.world.create(body.get("id") or body["name"], **{k: body[k] for k in OPTIONS if k in body})
        return web.json_response({"name": body["name"]})

    async def bucket(self, request: web.Request) -> web.Response:
        return web.json_response(self._bucket(request).shown)

    async def update_bucket(self, request: web.Request) -> web.Response:
        kept, body = self._bucket(request), await request.json()
        for name in OPTIONS:
            setattr(kept, name, body.get(name, getattr(kept, name)))
        return web.json_response({"message": "Successfully updated"})

    async def empty_bucket(self, request: web.Request) -> web.Response:
        self._bucket(request).objects.clear()
        return web.json_response({"message": "Successfully emptied"})

    async def delete_bucket(self, request: web.Request) -> web.Response:
        kept = self._bucket(request)
        if kept.objects:
            raise Refusal(409, "InvalidRequest", "The bucket you tried to delete is not empty")
        del self.world.buckets[kept.id]
        return web.json_response({"message": "Successfully deleted"})

    async def upload(self, request: web.Request) -> web.Response:
        kept, key = self._bucket(request), request.match_info["key"]
        if request.content_type == "multipart/form-data":
            made = await _from_form(request, key)
        else:
            made = await _from_body(request, key)
        replace = request.method == "PUT" or request.headers.get("x-upsert") == "true"
        kept.put(made, replace)
        return web.json_response({"Key": f"{kept.id}/{key}", "Id": made.id})

    async def download(self, request: web.Request) -> web.Response:
        return _content(request, self._bucket(request).object(request.match_info["key"]))

    async def info(self, request: web.Request) -> web.Response:
        kept = self._bucket(request)
        return web.json_response(kept.object(request.match_info["key"]).info | {"bucket_id": kept.id})

    async def list(self, request: web.Request) -> web.Response:
        kept, body = self._bucket(request), await request.json()
        return web.json_response(kept.listed(body["prefix"], body.get("limit", 100), body.get("offset", 0)))

    async def remove(self, request: web.Request) -> web.Response:
        kept, body = self._bucket(request), await request.json()
        removed = [kept.objects.pop(key) for key in body["prefixes"] if key in kept.objects]
        return web.json_response([gone.shown for gone in removed])

    async def move(self, request: web.Request) -> web.Response:
        await self._copied(request, keep=False)
        return web.json_response({"message": "Successfully moved"})

    async def copy(self, request: web.Request) -> web.Response:
        bucket, key = await self._copied(request, keep=True)
        return web.json_response({"Key": f"{bucket}/{key}"})

    async def _copied(self, request: web.Request, keep: bool) -> tuple[str, str]:
        self._role(request)
        body = await request.json()
        kept = self.world.bucket(body["bucketId"])
        found = kept.object(body["sourceKey"])
        made = Object(
            body["destinationKey"], found.content, found.content_type, found.cache_control, found.metadata
        )
        kept.put(made, replace=False)
        if not keep:
            del kept.objects[found.name]
        return kept.id, made.name

    async def sign(self, request: web.Request) -> web.Response:
        kept, key = self._bucket(request), request.match_info["key"]
        kept.object(key)
        return web.json_response({"signedURL": self._link(kept.id, key, await _seconds(request))})

    async def sign_many(self, request: web.Request) -> web.Response:
        kept, seconds = self._bucket(request), await _seconds(request)
        replies: list[dict[str, Any]] = []
        for key in (await request.json())["paths"]:
            there = key in kept.objects
            error = None if there else "Either the object does not exist or you do not have access to it"
            link = self._link(kept.id, key, seconds) if there else None
            replies.append({"error": error, "path": key, "signedURL": link})
        return web.json_response(replies)

    def _link(self, bucket: str, key: str, seconds: int) -> str:
        claims = {"url": f"{bucket}/{key}", "iat": int(time.time()), "exp": int(time.time()) + seconds}
        return f"/object/sign/{bucket}/{quote(key)}?token={self._token(claims)}"

    def _token(self, claims: dict[str, Any]) -> str:
        parts = [_base64(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)]
        return ".".join(
            [*parts, _base64(hmac.digest(self._secret, ".".join(parts).encode(), hashlib.sha256))]
        )

    async def signed(self, request: web.Request) -> web.Response:
        bucket, key = request.match_info["bucket"], request.match_info["key"]
        claims: dict[str, Any] = {}
        try:
            packed = request.query["token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
            genuine = hmac.compare_digest(self._token(claims), request.query["token"])
        except (KeyError, IndexError, ValueError):
            genuine = False
        if not genuine or claims["url"] != f"{bucket}/{key}":
            raise Refusal(400, "InvalidSignature", "Invalid signature")
        if time.time() >= claims["exp"]:
            raise Refusal(400, "InvalidJWT", '"exp" claim timestamp check failed')
        return _content(request, self.world.bucket(bucket).object(key))

    async def public(self, request: web.Request) -> web.Response:
        kept = self.world.buckets.get(request.match_info["bucket"])
        if kept is None or not kept.public:
            raise no_bucket()
        return _content(request, kept.object(request.match_info["key"]))


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


async def _seconds(request: web.Request) -> int:
    try:
        seconds = int((await request.json())["expiresIn"])
    except (KeyError, ValueError):
        seconds = 0
    if seconds < 1:
        raise Refusal(400, "Error", "body/expiresIn must be >= 1")
    return seconds


async def _from_form(request: web.Request, key: str) -> Object:
    fields: dict[str, str] = {}
    content: bytes | None = None
    content_type = "application/octet-stream"
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)  # its clients do not nest forms
        if part.filename is not None:
            content, content_type = bytes(await part.read()), part.headers.get("Content-Type", content_type)
        else:
            fields[part.name or ""] = await part.text()
    if content is None:
        raise Refusal(400, "InvalidRequest", "No content provided")
    metadata = json.loads(fields["metadata"]) if "metadata" in fields else None
    return Object(key, content, content_type, f"max-age={fields.get('cacheControl', '0')}", metadata)


async def _from_body(request: web.Request, key: str) -> Object:
    packed = request.headers.get("x-metadata")
    metadata = json.loads(base64.b64decode(packed)) if packed else None
    content_type = request.headers.get("Content-Type", "application/octet-stream")
    cache_control = request.headers.get("Cache-Control", "no-cache")
    # Broken off, this raises, and nothing was put anywhere.
    return Object(key, await request.content.read(), content_type, cache_control, metadata)


def _content(request: web.Request, kept: Object) -> web.Response:
    headers = {
        "Content-Type": kept.content_type,
        "Cache-Control": kept.cache_control,
        "Accept-Ranges": "bytes",
    }
    wanted = request.http_range
    if wanted.start is None and wanted.stop is None:
        return web.Response(body=kept.content, headers=headers)
    start = wanted.start or 0
    if start >= len(kept.content):
        raise Refusal(416, "InvalidRange", "The requested range is not satisfiable")
    part = kept.content[wanted]
    headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(kept.content)}"
    return web.Response(status=206, body=part, headers=headers)
