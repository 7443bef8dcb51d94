"""The peers: which release of each, and how it is started in front of the one upstream.

Owns the table of names and versions, and the configuration of each: one file, one URL or three requests.
They run as their documentation says.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.install import npm_environment, path_with, python_environment
from bench.load import Target
from bench.process import HOST

LITELLM_KEY = "sk-bench"
FORGE_USER = "admin@example.com"
_VERSION = re.compile("==|@")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder, port and upstream of a peer during a run."""

    programs: Path
    folder: Path
    port: int
    upstream: str


@dataclass(frozen=True, slots=True)
class Start:
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Peer:
    """One line of the table below."""

    key: str
    label: str
    packages: Sequence[str]
    start: Callable[[Place], Start]
    reach: Callable[[Place], Target] = lambda place: Target(place.port)
    """Called once it listens, says where it serves. What it calls the echo tool is looked up there."""
    pythons: Sequence[str] = ()
    npm: bool = False

    @property
    def title(self) -> str:
        return f"{self.label} {_VERSION.split(self.packages[0])[-1]}"

    def install(self) -> Path:
        # litellm[proxy]==1.2.3 lives in litellm-1.2.3
        name = _VERSION.sub("-", re.sub(r"\[.*\]", "", self.packages[0]))
        if self.npm:
            return npm_environment(name, self.packages)
        return python_environment(name, self.packages, self.pythons)


def _fastmcp(place: Place) -> Start:
    command = ["run", place.upstream, "--transport", "http", "--port", str(place.port), "--no-banner"]
    return Start([str(place.programs / "fastmcp"), *command])


def _mcp_proxy(place: Place) -> Start:
    program = str(place.programs / "mcp-proxy")
    inner = [program, "--transport", "streamablehttp", place.upstream]
    return Start([program, "--port", str(place.port), "--", *inner])


def _npm_pair(place: Place) -> Start:
    inner = [str(place.programs / "supergateway"), "--streamableHttp", place.upstream]
    outer = [str(place.programs / "mcp-proxy"), "--host", HOST, "--port", str(place.port)]
    return Start([*outer, "--", *inner], {"PATH": path_with(Path(sys.executable).parent)})


def _litellm(place: Place) -> Start:
    server = f"mcp_servers:\n  up:\n    url: {place.upstream}\n    transport: http\n    auth_type: none\n"
    (place.folder / "config.yaml").write_text(server, encoding="utf-8")
    command = ["--config", "config.yaml", "--host", HOST, "--port", str(place.port)]
    env = {"LITELLM_MASTER_KEY": LITELLM_KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return Start([str(place.programs / "litellm"), *command], env)


def _litellm_target(place: Place) -> Target:
    return Target(place.port, "/mcp/", headers={"x-litellm-api-key": f"Bearer {LITELLM_KEY}"})


def _forge(place: Place) -> Start:
    made = _forge_tool(place, "mcpgateway.scripts.init_secrets", "--stdout")
    settings = {
        "DATABASE_URL": f"sqlite:///{place.folder / 'forge.db'}",
        "CACHE_TYPE": "memory",
        "SSRF_ALLOW_LOCALHOST": "true",
        "RATE_LIMITING_ENABLED": "false",
        # Every call holds a connection of the pool. With SQLite it goes up to 50 and this many more.
        "DB_MAX_OVERFLOW": "20",
    }
    lines = [line for line in made.splitlines() if "=" in line and not line.startswith("#")]
    lines += [f"{name}={value}" for name, value in settings.items()]
    (place.folder / ".env").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Start([str(place.programs / "mcpgateway"), "--host", HOST, "--port", str(place.port)])


def _forge_target(place: Place) -> Target:
    """Registers the upstream, and a virtual server with all its tools."""
    made = _forge_tool(
        place, "mcpgateway.utils.create_jwt_token", "--username", FORGE_USER, "--exp", "600", "--admin"
    )
    headers = {"Authorization": f"Bearer {made.split()[-1]}"}
    _forge_api(
        place, headers, "/gateways", {"name": "up", "url": place.upstream, "transport": "STREAMABLEHTTP"}
    )
    tools = [tool["id"] for tool in _forge_api(place, headers, "/tools")]
    server = _forge_api(place, headers, "/servers", {"server": {"name": "bench", "associated_tools": tools}})
    return Target(place.port, f"/servers/{server['id']}/mcp", headers=headers)


def _forge_tool(place: Place, module: str, *arguments: str) -> str:
    command = [str(place.programs / "python"), "-m", module, *arguments]
    return subprocess.run(command, cwd=place.folder, check=True, capture_output=True, text=True).stdout


def _forge_api(place: Place, headers: Mapping[str, str], path: str, body: object = None) -> Any:
    connection = http.client.HTTPConnection(HOST, place.port, timeout=60)
    try:
        data = None if body is None else json.dumps(body)
        more = {"Content-Type": "application/json"}
        connection.request("POST" if data else "GET", path, data, {**headers, **more})
        reply = connection.getresponse()
        said = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"ContextForge answered {path} with {reply.status}: {said[:200]!r}")
        return json.loads(said)
    finally:
        connection.close()


PEERS = (
    Peer("fastmcp", "FastMCP proxy", ["fastmcp==4.1.2"], _fastmcp),
    Peer("mcp-proxy", "PyPI mcp-proxy x2", ["mcp-proxy==0.13.0"], _mcp_proxy),
    Peer("litellm", "LiteLLM", ["litellm[proxy]==1.106.2"], _litellm, _litellm_target),
    Peer(
        "contextforge",
        "ContextForge",
        ["mcp-contextforge-gateway==1.1.0"],
        _forge,
        _forge_target,
        pythons=("3.12", "3.13"),
    ),
    Peer(
        "npm",
        "npm mcp-proxy + supergateway",
        ["mcp-proxy@6.7.19", "supergateway@4.0.0"],
        _npm_pair,
        npm=True,
    ),
)
