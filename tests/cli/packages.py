"""Packages of our own for the real installers: a folder of wheels for uv and pip, a registry for npm."""

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# A server in a few lines, for environments that have nothing else. Its one tool tells how it was started.
PYTHON_SERVER = """
import json, os, sys

def main():
    for line in sys.stdin:
        asked = json.loads(line)
        method, number = asked.get("method"), asked.get("id")
        if number is None:
            continue
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "tiny", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": "how", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            told = {"args": sys.argv[1:], "pid": os.getpid(), "prefix": sys.prefix,
                    "env": {key: value for key, value in os.environ.items() if key.startswith("TINY_")}}
            result = {"content": [{"type": "text", "text": json.dumps(told)}]}
        else:
            error = {"code": -32601, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}), flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)

if __name__ == "__main__":
    main()
"""

NODE_SERVER = """#!/usr/bin/env node
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "initialize") {
    say({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} },
                        serverInfo: { name: "tiny", version: "1" } } });
  } else if (method === "tools/list") {
    say({ id, result: { tools: [{ name: "how", inputSchema: { type: "object" } }] } });
  } else if (method === "tools/call") {
    const told = JSON.stringify({ args: process.argv.slice(2) });
    say({ id, result: { content: [{ type: "text", text: told }] } });
  } else {
    say({ id, error: { code: -32601, message: "no" } });
  }
});
"""


def make_wheel(folder: Path, name: str, version: str, source: str = PYTHON_SERVER, program: str = "") -> Path:
    """A wheel with one module and one program."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    script = program or name
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{script} = {module}:main\n",
    }
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def from_wheels(folder: Path) -> dict[str, str]:
    """The variables with which uv and pip take packages from this folder, and from nowhere else."""
    return {
        "UV_FIND_LINKS": str(folder),
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_INDEX": "1",
    }


@contextmanager
def npm_registry(name: str, version: str) -> Iterator[dict[str, str]]:
    """A registry with one package. Yields the variables with which npm uses it."""
    package = {"name": name, "version": version, "bin": {"tiny-server": "server.js", "other": "server.js"}}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text, mode in (
            ("package.json", json.dumps(package), 0o644),
            ("server.js", NODE_SERVER, 0o755),
        ):
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text.encode()), mode
            archive.addfile(entry, io.BytesIO(text.encode()))
    tarball = buffer.getvalue()

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".tgz"):
                self._answer(tarball, "application/octet-stream")
                return
            url = f"http://127.0.0.1:{server.server_port}/tiny.tgz"
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
            held: dict[str, Any] = {
                "name": name,
                "dist-tags": {"latest": version},
                "versions": {version: {**package, "dist": {"tarball": url, "integrity": integrity}}},
            }
            self._answer(json.dumps(held).encode(), "application/json")

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"npm_config_registry": f"http://127.0.0.1:{server.server_port}/"}
    finally:
        server.shutdown()
        server.server_close()
