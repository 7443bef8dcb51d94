"""A plain client of the API, for the emulator's own tests: what it sends and gets is up to them."""

import json
from typing import Any

import aiohttp

from .emulator import API_KEY, TifluxEmulator


class Plain:
    """Plain HTTP with the first tenant's key, unless a request has other headers."""

    def __init__(self, tiflux: TifluxEmulator, session: aiohttp.ClientSession) -> None:
        self.tiflux = tiflux
        self._session = session

    async def __call__(
        self, method: str, url: str, headers: dict[str, str] | None = None, **more: Any
    ) -> tuple[int, Any]:
        given = {"Authorization": f"Bearer {API_KEY}"} if headers is None else headers
        async with self._session.request(method, self.tiflux.url + url, headers=given, **more) as response:
            text = await response.text()
        as_json = response.content_type == "application/json"
        return response.status, json.loads(text) if as_json and text else text


def form(fields: dict[str, str], *files: tuple[str, str, bytes]) -> aiohttp.FormData:
    data = aiohttp.FormData(quote_fields=False, default_to_multipart=True)
    for name, value in fields.items():
        data.add_field(name, value)
    for name, filename, content in files:
        data.add_field(name, content, filename=filename, content_type="text/plain")
    return data
