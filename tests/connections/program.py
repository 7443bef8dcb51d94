"""`toolyard` as a process on a machine with nothing on it: an empty home, and a browser that a test plays."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.stores import free_port
from tests.waiting import until

_HIDDEN = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "SSH_CONNECTION", "TOOLYARD_API_KEY", "TOOLYARD_CONFIG")


class Machine:
    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.file = home / "toolyard.toml"
        self._opened = home / "opened"
        program = home / "browser"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> {self._opened}\n')
        program.chmod(0o755)
        self.browser = {"BROWSER": str(program)}
        """Only writes down what it was to open; whoever plays the person goes there."""
        self._variables = variables

    async def start(self, *words: str, **variables: str) -> asyncio.subprocess.Process:
        kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        state = {"HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state"), "COLUMNS": "200"}
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "toolyard",
            *words,
            cwd=self.home,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**kept, **state, **self._variables, **variables},
        )

    async def run(self, *words: str, typed: str = "", **variables: str) -> tuple[int | None, str]:
        """The exit status, and all that it printed."""
        process = await self.start(*words, **variables)
        out, err = await process.communicate(typed.encode())
        return process.returncode, out.decode() + err.decode()

    async def opened(self) -> str:
        """The address that the browser was to open; it is forgotten then."""

        async def has_opened() -> bool:
            return self._opened.exists() and self._opened.read_text().endswith("\n")

        await until(has_opened)
        address = self._opened.read_text().strip()
        self._opened.unlink()
        return address

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """A gateway; its endpoint on loopback."""
        port = port or free_port()
        process = await self.start("serve", "--port", str(port))
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = b""
            while b"/mcp" not in line:
                line = await process.stdout.readline()
                assert line, (await process.stderr.read()).decode()
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            await process.communicate()


async def read_until(stream: asyncio.StreamReader | None, mark: str) -> str:
    """What a program says up to the line with the mark."""
    assert stream is not None
    said = ""
    while mark not in said:
        line = await stream.readline()
        assert line, said
        said += line.decode()
    return said
