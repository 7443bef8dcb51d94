"""Sandboxes: a folder that stands for /home/user, and a process that really runs the code it is given.

They are for code of the tests only: a sandbox has the rights of whoever runs the tests.
"""

import asyncio
import json
import os
import posixpath
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HOME = "/home/user/"
RUNNER = Path(__file__).with_name("runner.py")
MAX_OUTPUT = 400_000
"""Characters of stdout in a reply; the rest is in a file."""
MAX_LINE = 64 * 1024 * 1024


class Sandbox:
    def __init__(self, id: str, user_id: str) -> None:
        self.id = id
        self.user_id = user_id
        self.root = Path(tempfile.mkdtemp(prefix="composio-sandbox-"))
        (self.root / "home" / "user").mkdir(parents=True)
        (self.root / "mnt").mkdir()
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._outputs = 0

    def place(self, path: str) -> Path:
        """Where a file of the sandbox is on this machine; ValueError if it is not under /home/user."""
        path = posixpath.normpath(path)
        if not path.startswith(HOME):
            raise ValueError(f"{path!r} is not under {HOME}")
        return self.root / path.lstrip("/")

    @property
    def files(self) -> dict[str, bytes]:
        """What is in it now, by the paths that code sees."""
        home = self.root / "home" / "user"
        return {
            f"/{file.relative_to(self.root)}": file.read_bytes() for file in home.rglob("*") if file.is_file()
        }

    async def python(self, code: str) -> dict[str, Any]:
        return self._cut(await self._ask({"code": code}))

    async def shell(self, command: str) -> dict[str, Any]:
        return self._cut(await self._ask({"command": command}))

    def mount(self, files: dict[str, bytes]) -> None:
        """Show these files, and no others, under /mnt."""
        shutil.rmtree(self.root / "mnt")
        (self.root / "mnt").mkdir()
        for name, content in files.items():
            (self.root / "mnt" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "mnt" / name).write_bytes(content)

    def damage(self) -> None:
        """Take the last byte of every file away: what was written is not what is there."""
        for path in self.files:
            file = self.place(path)
            os.truncate(file, max(0, file.stat().st_size - 1))

    async def _ask(self, order: dict[str, str]) -> dict[str, Any]:
        async with self._turn:
            if self._process is None:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", str(RUNNER), str(self.root)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=MAX_LINE,
                )
            process = self._process
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
            return json.loads(await process.stdout.readline())

    def _cut(self, done: dict[str, Any]) -> dict[str, Any]:
        if len(done["stdout"]) <= MAX_OUTPUT:
            return done
        self._outputs += 1
        path = f"{HOME}output-{self._outputs}.txt"
        self.place(path).write_text(done["stdout"])
        return {**done, "stdout": done["stdout"][:MAX_OUTPUT], "stdout_file_path": path}

    async def close(self) -> None:
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
