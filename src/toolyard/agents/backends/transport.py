"""HTTP to a model's API with aiohttp: TLS with verification, the proxies of the environment, no redirects.

Imports aiohttp with the first request. Retries nothing: `retries.py` does.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..._version import __version__
from .base import ModelError, ModelHttpRequest, ModelHttpResponse

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 20.0
SILENT_SECONDS = 300.0
"""How long an API may say nothing. Small machines read a long prompt for minutes before the first token."""
DEFAULT_HEADERS = {"User-Agent": f"toolyard/{__version__}", "Accept-Encoding": "identity"}


class PooledModelTransport:
    """Connections are kept alive between requests, because every turn of a run asks the same host."""

    def __init__(
        self,
        environ: Mapping[str, str],
        silent_seconds: float = SILENT_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._environ = environ
        self._silent_seconds = silent_seconds
        self._connect_seconds = connect_seconds
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def post(self, request: ModelHttpRequest) -> AsyncGenerator[ModelHttpResponse]:
        host = urlsplit(request.url).hostname or ""
        proxy = proxy_for(request.url, self._environ)
        with self._failures(host):
            response = await self._open().post(
                request.url,
                data=request.body,
                headers={**DEFAULT_HEADERS, **request.headers},
                allow_redirects=False,
                proxy=proxy,
            )
        try:
            yield _PooledResponse(response, partial(self._failures, host))
        finally:
            response.close()

    @contextmanager
    def _failures(self, host: str) -> Generator[None]:
        """Turns what aiohttp raises into ModelError."""
        import aiohttp  # 90 ms of CPU

        try:
            yield
        except aiohttp.ClientConnectorCertificateError:
            raise ModelError(
                "invalid",
                f"the certificate of {host!r} cannot be trusted",
                "SSL_CERT_FILE names a file with the certificates to trust",
            ) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ModelError("unreachable", f"{host!r} cannot be reached: {_reason(error)}") from None
        except aiohttp.ClientHttpProxyError as error:
            said = f"the proxy refused a connection to {host!r} with status {error.status}"
            raise ModelError("unreachable", said, "HTTPS_PROXY names the proxy") from None
        except (aiohttp.InvalidURL, ValueError) as error:
            raise ModelError("invalid", f"no request can be sent to {host!r}: {error}") from None
        except TimeoutError:
            raise ModelError("cut", f"{host!r} said nothing for {self._silent_seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ModelError("cut", f"the answer of {host!r} broke off: {_reason(error)}") from None

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=self._connect_seconds, sock_read=self._silent_seconds
            )
            # Without `trust_env`, which would also send passwords from a .netrc file; proxies are ours.
            self._session = aiohttp.ClientSession(
                timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=256 * 1024
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(0)  # lets the transports report that they are closed


class _PooledResponse:
    def __init__(
        self, response: "aiohttp.ClientResponse", failures: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._response = response
        self._failures = failures
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def chunks(self) -> AsyncGenerator[bytes]:
        content = self._response.content
        while True:
            # Not around the `yield`, where errors are those of whoever reads.
            with self._failures():
                chunk = await content.readany()
            if not chunk:
                return
            yield chunk


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that the environment names for this address, as curl reads it."""
    import urllib.request  # loaded by aiohttp already

    proxies = {
        scheme: environ.get(f"{scheme}_proxy") or environ.get(f"{scheme}_proxy".upper()) or ""
        for scheme in ("http", "https", "all")
    }
    parts = urlsplit(url)
    found = proxies.get(parts.scheme) or proxies["all"]
    if not found:
        return None
    excepted = {"no": environ.get("no_proxy") or environ.get("NO_PROXY") or ""}
    if urllib.request.proxy_bypass_environment(parts.netloc.rpartition("@")[2], excepted):  # type: ignore[attr-defined]
        return None
    if not found.startswith(("http://", "https://")):
        if "://" in found:
            scheme = found.partition("://")[0]
            raise ModelError(
                "invalid",
                f"the environment names a proxy of the kind {scheme!r}",
                "name an http:// proxy in HTTPS_PROXY, or except the host by NO_PROXY",
            )
        found = f"http://{found}"
    return found


def _reason(error: BaseException) -> str:
    inner = getattr(error, "os_error", None)
    return str(getattr(inner, "strerror", None) or inner or error or type(error).__name__)
