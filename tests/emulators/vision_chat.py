"""A vision model behind OpenAI's chat completions, on loopback: as Z.AI's API and others that imitate it.

Strict where a real API is: it wants the key, the documented form of messages, and pictures that are pictures
and not too large. What the "model" says is the test's script, turn by turn; after that it describes what
it sees. `official_vision.py` lets the official `openai` package talk to it.
"""

import asyncio
import base64
import io
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from PIL import Image

MAX_IMAGE = 5 * 1024 * 1024
MAX_VIDEO = 8 * 1024 * 1024
KEY = "zai-test-key-0123456789"


@dataclass(frozen=True)
class Failing:
    status: int
    message: str = "no"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Hanging:
    """The API takes the request and says nothing, until its client is gone."""


@dataclass(frozen=True)
class Raw:
    """A body as it is."""

    body: bytes
    status: int = 200


@dataclass(frozen=True)
class Finished:
    """An answer with a reason for its end."""

    text: str | None
    reason: str


Turn = str | Failing | Hanging | Raw | Finished


class UnfitRequestError(Exception):
    pass


@dataclass(frozen=True)
class SeenPicture:
    kind: str
    """PNG or JPEG, `video`, or `url` if the API would have to fetch it."""
    size: tuple[int, int]
    bytes: int
    url: str = ""
    corner: tuple[int, ...] = ()
    """The colour of the first pixel."""


class VisionChat:
    def __init__(self, script: Iterable[Turn], key: str = KEY) -> None:
        self.url = ""
        self.key = key
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.pictures: list[list[SeenPicture]] = []
        self.waiting = asyncio.Event()
        self.left = asyncio.Event()
        self._turns = iter(script)

    @property
    def text(self) -> str:
        """The text of the last request."""
        return self.bodies[-1]["messages"][-1]["content"][-1]["text"]

    @property
    def system(self) -> str:
        return self.bodies[-1]["messages"][0]["content"]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            said = request.headers.get("Authorization", "nothing")
            return _error(401, f"Authentication failed for {said}", "1000")
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        try:
            self.pictures.append(_pictures(body))
        except UnfitRequestError as error:
            return _error(400, str(error), "1210")
        turn = next(self._turns, None)
        match turn:
            case Failing(status, message, code, headers):
                return _error(status, message, code, headers)
            case Raw(found, status):
                return web.Response(body=found, status=status, content_type="application/json")
            case Hanging():
                return await self._hang()
            case Finished(text, reason):
                return _completion(body, text, reason)
            case str():
                return _completion(body, turn, "stop")
            case None:
                seen = ", ".join(f"{one.kind} {one.size[0]}x{one.size[1]}" for one in self.pictures[-1])
                return _completion(body, f"I see {seen}.", "stop")

    async def _hang(self) -> web.StreamResponse:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError("nobody sets that event")


def _pictures(body: dict[str, Any]) -> list[SeenPicture]:
    """What the request shows; raises if it is not in the documented form."""
    if set(body) - {"model", "messages", "stream", "thinking", "temperature", "top_p", "max_tokens"}:
        raise UnfitRequestError(f"unknown parameters: {sorted(body)}")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise UnfitRequestError("model is missing")
    roles = [message["role"] for message in body["messages"]]
    if roles not in (["system", "user"], ["user"]):
        raise UnfitRequestError(f"roles: {roles}")
    content = body["messages"][-1]["content"]
    *shown, text = content
    if text.get("type") != "text" or not text.get("text"):
        raise UnfitRequestError("the text comes last")
    return [_picture(part) for part in shown]


def _picture(part: dict[str, Any]) -> SeenPicture:
    kind = part["type"]
    if kind not in ("image_url", "video_url"):
        raise UnfitRequestError(f"type: {kind}")
    url = part[kind]["url"]
    if url.startswith(("http://", "https://")):
        return SeenPicture("url", (0, 0), 0, url)
    head, _, encoded = url.partition(",")
    data = base64.b64decode(encoded, validate=True)
    if kind == "video_url":
        if head not in ("data:video/mp4;base64", "data:video/quicktime;base64") or len(data) > MAX_VIDEO:
            raise UnfitRequestError("the video cannot be used")
        return SeenPicture("video", (0, 0), len(data))
    if head not in ("data:image/png;base64", "data:image/jpeg;base64") or len(data) > MAX_IMAGE:
        raise UnfitRequestError("the image is too large or not PNG or JPEG")
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        if head != f"data:image/{str(image.format).lower()};base64":
            raise UnfitRequestError("the image is not what its type says")
        corner = image.convert("RGB").getpixel((0, 0))
        return SeenPicture(str(image.format), image.size, len(data), "", tuple(corner))  # pyright: ignore


def _error(
    status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.json_response(
        {"error": {"code": code or str(status), "message": message}}, status=status, headers=headers
    )


def _completion(body: dict[str, Any], text: str | None, reason: str) -> web.Response:
    message = {"role": "assistant", "content": text, "reasoning_content": "I looked at it."}
    found = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return web.Response(body=json.dumps(found).encode(), content_type="application/json")


@asynccontextmanager
async def vision_chat(script: Iterable[Turn] = (), key: str = KEY) -> AsyncGenerator[VisionChat]:
    """Serve the model on a free loopback port until the block ends."""
    api = VisionChat(script, key)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v4/chat/completions", api.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v4"
        yield api
    finally:
        await runner.cleanup()
