"""A real nginx that has checked a password names the caller, and nobody else can."""

import asyncio
import base64
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.callers.test_edges import KEY, shop
from tests.programs import find_program, needs
from tests.serving import Answer, Client, Line, http, modern, serving
from tests.waiting import PATIENCE
from toolyard.callers.authenticator import Authenticator
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.config.callers import ProxyConfig
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import AuthenticatorSetting
from toolyard.state import open_state
from toolyard.wire.seal import Sealer

pytestmark = needs("nginx")

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $remote_user $groups {{ anna "dev,ops"; default ""; }}
    server {{
        listen unix:{folder}/socket;
        proxy_set_header Host localhost;
        proxy_set_header X-Forwarded-User $remote_user;
        proxy_set_header X-Forwarded-Groups $groups;
        location /mcp {{
            auth_basic yard;
            auth_basic_user_file {folder}/passwords;
            proxy_set_header Host localhost;
            proxy_set_header X-Forwarded-User $remote_user;
            proxy_set_header X-Forwarded-Groups $groups;
            proxy_set_header Authorization "";
            proxy_pass http://127.0.0.1:{port}/mcp;
        }}
        location /open {{ proxy_pass http://127.0.0.1:{port}/mcp; }}
        location /tunnel {{
            proxy_set_header Host localhost;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_pass http://127.0.0.1:{port}/mcp;
        }}
    }}
}}
"""


class Nginx:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def call(self, path: str = "/mcp", **headers: str) -> Answer:
        told, message = modern("tools/call", {"name": "whoami", "arguments": {}})
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        line = await self._connected()
        await line.send(http("POST", path, told | sent, json.dumps(message).encode()))
        try:
            return await line.answer()
        finally:
            line.hang_up()

    async def says(self, path: str = "/mcp", **headers: str) -> str:
        return (await self.call(path, **headers)).result["content"][0]["text"]

    async def _connected(self) -> Line:
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(FileNotFoundError, ConnectionRefusedError):
                    return Line(*await asyncio.open_unix_connection(str(self._socket)))
                await asyncio.sleep(0.01)


@asynccontextmanager
async def behind_nginx(client: Client, folder: Path) -> AsyncIterator[Nginx]:
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, port=client.port))
    (folder / "passwords").write_text("anna:{PLAIN}secret\n")
    program = find_program("nginx")
    assert program is not None
    running = await asyncio.create_subprocess_exec(
        program, "-p", str(folder), "-c", str(file), "-e", "stderr", stderr=asyncio.subprocess.PIPE
    )
    try:
        yield Nginx(folder / "socket")
    finally:
        with suppress(ProcessLookupError):
            running.send_signal(signal.SIGTERM)
        _, errors = await running.communicate()
    assert errors.decode() == ""


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[ApiKeys]:
    opened = ApiKeys(open_state("sqlite:", tmp_path), "shop", Sealer(KEY), owns_state=True)
    yield opened
    await opened.close()


@asynccontextmanager
async def front(folder: Path, authenticator: Authenticator) -> AsyncIterator[Nginx]:
    server = shop()
    edge = HttpEdge(server.service, server.sealer, callers=AuthenticatorSetting(authenticator))
    async with serving(edge) as client, behind_nginx(client, folder) as nginx:
        yield nginx


def basic(password: str = "secret") -> str:
    return "Basic " + base64.b64encode(f"anna:{password}".encode()).decode()


PROXY = ProxyConfig(addresses=("127.0.0.1",))


async def test_nginx_names_the_user_whose_password_it_has_checked(keys: ApiKeys, tmp_path: Path):
    async with front(tmp_path, Authenticator([keys], proxy=PROXY)) as nginx:
        assert await nginx.says(Authorization=basic()) == "proxy local anna "
        spoofed = await nginx.says(Authorization=basic(), X_Forwarded_User="root")
        assert spoofed == "proxy local anna "
        assert (await nginx.call(Authorization=basic("wrong"))).status == 401


async def test_whom_nginx_does_not_name_needs_a_key(keys: ApiKeys, tmp_path: Path):
    issued = await keys.create(KeyHolder(name="ben"))
    async with front(tmp_path, Authenticator([keys], proxy=PROXY)) as nginx:
        assert (await nginx.call("/open")).status == 401
        assert (await nginx.call("/open", X_Forwarded_User="root")).status == 401
        assert (await nginx.call("/open", Authorization=basic())).status == 401
        assert await nginx.says("/open", Authorization=f"Bearer {issued.text}") == "key local ben "


async def test_a_tunnel_that_nobody_told_us_of_is_not_the_local_user(keys: ApiKeys, tmp_path: Path):
    async with front(tmp_path, Authenticator([keys])) as nginx:
        assert (await nginx.call("/tunnel")).status == 401
