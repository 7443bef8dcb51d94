"""Runs one program, in an interpreter of its own, and then serves what it made over stdio.

`player.py KIND FILE NOTES`: KIND is `theirs` or `ours`. A test is run first, by pytest; how it ends does not
matter. Under FastMCP it is noted which server was asked, and what; ours serves the server of the same number.
"""

import contextlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

ASKS = {
    "call_tool": ("tools/call", "name", "arguments"),
    "read_resource": ("resources/read", "uri", None),
    "render_prompt": ("prompts/get", "name", "arguments"),
}


class FirstOnly:
    """Of a test with several sets of parameters, the first."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        del items[1:]


def main(kind: str, file: Path, notes: Path) -> None:
    made: list[Any] = []
    asked: list[tuple[Any, str, Any]] = []
    if kind == "theirs":
        from fastmcp import FastMCP as Server

        note_asks(Server, asked)
    else:
        from toolyard.kit import Server
    note_made(Server, made)
    # Standard output is the protocol's.
    out = os.dup(1)
    os.dup2(2, 1)
    passed = run(file)
    os.dup2(out, 1)
    if kind == "theirs":
        servers = [server for server, _, _ in asked if server in made] or made[-1:]
        served = made.index(servers[0]) if servers else -1
        requests: list[Any] = []
        for server, method, params in asked:
            if servers and server is servers[0] and [method, params] not in requests:
                requests.append([method, params])
        notes.write_text(json.dumps({"served": served, "passed": passed, "requests": requests}), "utf-8")
    else:
        served = json.loads(notes.read_text("utf-8"))["served"]
    if not made or served >= len(made):
        sys.exit("it made no server")
    server = made[served]
    server.run(transport="stdio", show_banner=False)


def run(file: Path) -> bool:
    if file.name.startswith("test_"):
        import pytest

        options = ["-q", "-s", "-p", "no:cacheprovider", "--noconftest", "-o", "asyncio_mode=auto"]
        return pytest.main([*options, "-c", os.devnull, str(file)], plugins=[FirstOnly()]) == 0
    spec = importlib.util.spec_from_file_location("program", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    return True


def note_made(server: type, made: list[Any]) -> None:
    before = server.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        made.append(self)
        before(self, *args, **options)

    server.__init__ = init  # type: ignore[method-assign]


def note_asks(server: type, asked: list[tuple[Any, str, Any]]) -> None:
    for name, (method, first, second) in ASKS.items():
        setattr(server, name, noting(getattr(server, name), method, first, second, asked))


def noting(before: Any, method: str, first: str, second: str | None, asked: list[Any]) -> Any:
    async def ask(self: Any, what: Any, *rest: Any, **options: Any) -> Any:
        values = rest[0] if rest else options.get("arguments")
        params = {first: str(what)} | ({second: values or {}} if second else {})
        with contextlib.suppress(TypeError):
            asked.append((self, method, json.loads(json.dumps(params))))
        return await before(self, what, *rest, **options)

    return ask


if __name__ == "__main__":
    for folder in filter(None, os.environ.get("ALSO", "").split(os.pathsep)):
        sys.path.append(folder)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
