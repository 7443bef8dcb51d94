"""Servers that others wrote, from npm and PyPI, as entries of a gateway's config, and what they work on."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PATIENCE, Served, Toolyard
from tests.faults.yard import ROOT, toml
from tests.processes import direct_children

NODE = Path(sys.executable).with_name("node")
NPM = ROOT / "build/npm/node_modules/@modelcontextprotocol"
PYPI = ROOT / "build/envs/thirdparty/bin"
EVERYTHING = NPM / "server-everything/dist/index.js"


@dataclass(frozen=True)
class Mounted:
    """A running gateway with all of them behind it."""

    served: Served
    workspace: Path
    """The root of the clients that have roots."""
    configured: Path
    """The folder that the config gives to the file server, for clients that have none."""
    page: str

    @property
    def url(self) -> str:
        return self.served.url


@contextmanager
def everything_mounted(folder: Path) -> Iterator[Mounted]:
    workspace, configured = folder / "workspace", folder / "configured"
    workspace.mkdir()
    configured.mkdir()
    make_repository(workspace / "repository")
    with ExitStack() as stack:
        page = stack.enter_context(web_page("<html><body><p>A page on loopback</p></body></html>"))
        http = stack.enter_context(everything_over("streamableHttp"))
        sse = stack.enter_context(everything_over("sse"))
        remembering = {"MEMORY_FILE_PATH": str(folder / "memory.json")}
        servers: dict[str, dict[str, Any]] = {
            "files": npm("server-filesystem/dist/index.js", str(configured)),
            "memory": npm("server-memory/dist/index.js", env=remembering),
            "everything": npm("server-everything/dist/index.js", "stdio"),
            "everything_http": {"url": f"http://127.0.0.1:{http}/mcp"},
            "everything_sse": {"url": f"http://127.0.0.1:{sse}/sse", "transport": "sse"},
            "git": pypi("mcp-server-git"),
            "fetch": fetch(),
            "time": pypi("mcp-server-time", "--local-timezone=UTC"),
        }
        toolyard = Toolyard(folder)
        # A cold node takes its time, eight of these start at once, and the machine may be busy.
        config = toolyard.write("toolyard.toml", toml(servers, list_wait=15.0))
        served = stack.enter_context(toolyard.serving("--config", str(config)))
        yield Mounted(served, workspace, configured, page)


def npm(script: str, *arguments: str, **more: Any) -> dict[str, Any]:
    return {"command": program(NODE), "args": [program(NPM / script), *arguments], **more}


def pypi(name: str, *arguments: str) -> dict[str, Any]:
    return {"command": program(PYPI / name), "args": [*arguments]}


def fetch() -> dict[str, Any]:
    """Without Node on its PATH: with it, the first call would install packages from npm."""
    options = "--ignore-robots-txt", "--allow-private-ips"
    return {**pypi("mcp-server-fetch", *options), "env": {"PATH": str(PYPI)}}


def program(path: Path) -> str:
    if not path.exists():
        pytest.fail(f"{path} is missing; hint: `make setup` installs what the tests need")
    return str(path)


@contextmanager
def everything_over(transport: str) -> Iterator[int]:
    """The everything-server on a port of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [program(NODE), program(EVERYTHING), transport]
    process = subprocess.Popen(
        command,
        env=os.environ | {"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if str(port) in line:
                break
        threading.Thread(target=process.stderr.read, daemon=True).start()  # it goes on talking
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def web_page(html: str) -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def make_repository(path: Path) -> None:
    path.mkdir()
    (path / "README").write_text("one\n")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "README"], [*who, "commit", "-q", "-m", "The first commit"]):
        subprocess.run(["git", *command], cwd=path, check=True, timeout=PATIENCE)


def children_of(pid: int) -> set[int]:
    """All processes below one."""
    found: set[int] = set()
    for child in direct_children(pid):
        found |= {child} | children_of(child)
    return found


def all_gone(pids: set[int]) -> bool:
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
