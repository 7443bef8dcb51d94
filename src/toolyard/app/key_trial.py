"""Tries an API key at its server before it is kept."""

from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

from ..config import Http, InProcess, ServerConfig
from ..config.server_auth import KeyAuth
from ..connections.keys import KeyTrial
from ..upstream.connection import NO_CLIENT
from ..upstream.errors import CredentialError, UpstreamError
from ..upstream.http.client import HttpClient
from ..upstream.http.connector import HttpConnector
from ..upstream.inprocess import InProcessUpstream
from ..wire.call import Secret
from ..wire.errors import McpError

if TYPE_CHECKING:
    from yarl import URL

TRIAL_SECONDS = 15.0


def key_trial(
    server: ServerConfig, auth: KeyAuth, http: HttpClient, mounted: InProcessUpstream | None = None
) -> KeyTrial:
    """A program is not tried: it may have to be downloaded first, and seldom says what is wrong.

    A server in this process that is `mounted` tries keys itself: a module has one server, and it stays open.
    """

    async def over_http(key: str) -> bool:
        assert isinstance(server.where, Http)
        trial = _TrialAuth(key, {auth.sent_header: auth.header_value(key)} if key else {})
        seconds = min(server.connect_timeout, TRIAL_SECONDS)
        connector = HttpConnector(server.name, server.where, http, seconds, server.max_result, auth=trial)
        try:
            connection = await connector.open(NO_CLIENT)
        except UpstreamError:
            if trial.is_refused:
                return False
            raise
        except McpError:  # it answered something that is no refusal of the key
            return not trial.is_refused
        await connection.close()
        return True

    async def in_process(key: str) -> bool:
        assert isinstance(server.where, InProcess)
        upstream = mounted or InProcessUpstream(server.name, server.where.module, server.where.options)
        if not key:
            return not await upstream.checks_keys()
        # The server may remember what it thinks of a fingerprint: what was tried before must not count.
        secret = Secret(key, token_hex(16))
        try:
            return await upstream.admits(secret)
        finally:
            secret.forget()
            if mounted is None:
                await upstream.close()

    async def untried(key: str) -> bool:
        return True

    match server.where:
        case Http():
            return over_http
        case InProcess():
            return in_process
        case _:
            return untried


class _TrialAuth:
    """Sends the key that is tried, and notes what the server thinks of it."""

    def __init__(self, key: str, headers: Mapping[str, str]) -> None:
        self.in_use = key
        self._headers = headers
        self.is_refused = False

    def ready(self, method: str, url: "URL") -> Mapping[str, str]:
        return self._headers

    async def headers(self, method: str, url: "URL") -> Mapping[str, str]:
        return self._headers

    async def refused(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str], url: "URL", attempt: int
    ) -> bool:
        self.is_refused = True
        raise CredentialError("", "the key was refused")  # do not try another era with it
