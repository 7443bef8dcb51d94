"""A running gateway's HTTP API for operators, as a command asks it: address, headers, and what errors mean.

State in memory belongs to the gateway's process, so a command that reads the state store asks the gateway
then, or where --url names one.
"""

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ..configuration import loader
from ..ui.messages import CommandError, one_line
from .connection import sent_headers

if TYPE_CHECKING:
    from ...config import Config, GatewayConfig
    from ..commands.options import GatewayOptions

T = TypeVar("T")

HTTP_SECONDS = 15.0


def find_config(options: "GatewayOptions") -> "Config | None":
    """The configuration; None if there is none, or if --url makes it needless."""
    file = None if options["url"] else loader.config_file(None, options["config"])
    return None if file is None else loader.load_config(file)


class GatewayApi:
    """`scope` is what a credential needs, and `not_found` the hint for 404."""

    def __init__(
        self, url: str, headers: tuple[str, ...], key: str | None, *, scope: str, not_found: str
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(f"{url!r} is not an address", "as in http://127.0.0.1:8321")
        self._base = f"{parts.scheme}://{parts.netloc}"
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._headers = sent_headers(headers, key)
        credential = f"--key KEY, of a key that may: toolyard keys create NAME --scope {scope}"
        self._hints = {401: credential, 403: credential, 404: not_found}

    @classmethod
    def where_needed(
        cls, options: "GatewayOptions", config: "Config", *, scope: str, not_found: str
    ) -> "GatewayApi | None":
        """The gateway to ask; None if the state store can be read. Raises StateError for a wrong address."""
        from ...state.store import kind_of

        if options["url"] or kind_of(config.state.url) == "memory":
            url = options["url"] or _url_of(config.gateway)
            return cls(url, options["headers"], options["key"], scope=scope, not_found=not_found)
        if options["headers"]:
            raise CommandError("--header is for a running gateway", "add --url URL")
        return None

    async def request(self, method: str, path: str, form: type[T], body: dict[str, Any] | None = None) -> T:
        """The reply, which has to be of this form."""
        import aiohttp  # 150 ms

        wait = aiohttp.ClientTimeout(total=HTTP_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=wait) as session,
                session.request(
                    method, self._base + path, json=body, headers=self._headers, allow_redirects=False
                ) as reply,
            ):
                status, text = reply.status, await reply.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CommandError(
                f"no gateway answers at {self._shown}: {error or type(error).__name__}",
                "start it with `toolyard serve`, name it with --url, or keep its state in a store:"
                ' url = "sqlite:" in [state]',
            ) from None
        if status != 200:
            raise self._error(status, text)
        try:
            return msgspec.json.decode(text, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise CommandError(
                f"{self._shown}: the answer is not a gateway's", "is this the address of a gateway?"
            ) from None

    def _error(self, status: int, text: bytes) -> CommandError:
        try:
            found = msgspec.json.decode(text, type=dict[str, Any]).get("error")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = None
        # At paths that it does not have, a gateway answers with an error of JSON-RPC.
        problem = one_line(found) if isinstance(found, str) and found else f"it answered {status}"
        hint = self._hints.get(status)
        return CommandError(f"{self._shown}: {problem}", *([hint] if hint else []))


def _url_of(gateway: "GatewayConfig") -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(gateway.host, gateway.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{gateway.port}"
