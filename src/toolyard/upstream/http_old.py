"""The transport of 2024-11-05: a GET stream carries all answers, requests are POSTed where it says."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..wire.messages import recover_id
from .errors import Garbled, NotReached, UpstreamError
from .handshake import opening, read_opening
from .http_client import Address, Reply
from .http_modern import refusal
from .link import DEAF, Ear, Params, Profile, Result
from .pipe import Pipe

ENDED = "its stream ended"


class OldSse(Pipe):
    """A pipe whose one direction is a stream and whose other is POSTs."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.server, self._put)
        self._address = address
        self._endpoint: Any = None
        self._named = asyncio.get_running_loop().create_future()
        self._reading: asyncio.Task[None] | None = None
        self._posting: set[asyncio.Task[None]] = set()
        self._more: Mapping[str, str] | None = None
        """Headers of the request that is just being written."""

    async def open(self, profile: Profile) -> None:
        headers = {**self._address.headers, "Accept": "text/event-stream"}
        reply = await self._address.send("GET", headers, None)
        if reply.status != 200 or not reply.is_stream:
            reply.abandon()
            raise refusal(self.server, reply)
        self._reading = asyncio.create_task(self._read(reply))
        await asyncio.wait({self._named, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        if not self._named.done():
            unnamed = "its stream ended before it named an address to POST to"
            raise NotReached(self.server, unnamed if self.reason == ENDED else self.reason)
        self._endpoint = self._named.result()
        self.ask_only(profile.askable)
        self.about = read_opening(self.server, await self.request("initialize", opening(profile), DEAF))
        await self.notify("notifications/initialized", {})

    async def request(
        self,
        method: str,
        params: Params,
        ear: Ear,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Result:
        self._more = headers  # a request is written before anything else can run
        return await super().request(method, params, ear, token)

    async def _read(self, reply: Reply) -> None:
        reason = ENDED
        try:
            async for event in reply.events():
                if event.event == "endpoint" and isinstance(event.data, bytes):
                    self._name(event.data)
                elif event.data:
                    self.take(event.data)
        except UpstreamError as error:
            reason = error.reason
        finally:
            reply.abandon()
            self.end(reason)

    def _name(self, data: bytes) -> None:
        from yarl import URL

        try:
            target = self._address.url.join(URL(data.decode(errors="replace").strip()))
        except ValueError:
            raise Garbled(self.server, f"it names {data[:80]!r}, which is no address") from None
        if target.origin() != self._address.url.origin():
            raise Garbled(self.server, f"it wants messages POSTed elsewhere, to {target.origin()}")
        if not self._named.done():
            self._named.set_result(target)

    def _put(self, body: bytes) -> None:
        more, self._more = self._more, None
        task = asyncio.create_task(self._post(body, more or {}))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)

    async def _post(self, body: bytes, more: Mapping[str, str]) -> None:
        """One that is refused concerns its own request only, unless we are not known there any more."""
        try:
            headers = {**self._address.headers, **more}
            reply = await self._address.send("POST", headers, body, self._endpoint)
        except UpstreamError as error:
            self.noise(error, recover_id(body))
            return
        if reply.status < 400:
            reply.release()
            return
        refused = refusal(self.server, reply, await reply.refusal())
        self.noise(refused, recover_id(body))
        if reply.status in (401, 403, 404, 410):
            self.end(refused.reason)

    async def close(self) -> None:
        await super().close()
        tasks = [*self._posting, *([self._reading] if self._reading is not None else [])]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
