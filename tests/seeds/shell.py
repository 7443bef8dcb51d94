"""Runs the commands of transcripts: `toolyard`, `call`, Python, and whatever else a shell has.

Owns the processes. A `toolyard` command is a process of its own, forked from one that has imported what most
commands import, because starting Python anew would cost more than the command does. Owns nothing of what the
commands are about.
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = [
    "aiohttp",
    "toolyard.app.gateway",
    "toolyard.app.http",
    "toolyard.cli.commands.call",
    "toolyard.cli.commands.list",
    "toolyard.cli.commands.search",
    "toolyard.cli.commands.serve",
    "toolyard.cli.serving.gateway",
    "toolyard.cli.serving.http",
    "toolyard.client",
    "toolyard.upstream.composio",
    "tests.seeds.shell",
]
_ADDRESS = re.compile(r"(http://[\d.]+:\d+)/mcp")
_FOREIGN = re.compile(
    "TOOLYARD_|COMPOSIO_|SUPABASE_|RENDER_|TIFLUX_|Z_AI_|LOGFIRE_|OTEL_|ANTHROPIC_|OPENAI_|DEFAULT_USER"
)
"""Whoever runs the tests may have accounts of their own; they are not used."""
_VARIABLE = re.compile(r"[A-Z_]+=")


class Shell:
    """A folder and an environment; every command begins there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        """Of its gateway, if one is served."""
        self._printed = ""
        self._count = 0
        self._processes: list[Any] = []
        self.environment = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
        self.environment |= {
            "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "CHECKOUT": str(ROOT),
            "FOLDER": str(folder),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    async def run(self, command: str) -> str:
        """What a command prints, on either stream."""
        printed = await self._run(command)
        self._printed += printed
        return printed

    async def _run(self, command: str) -> str:
        words = shlex.split(_before_pipe(command)[0])
        given = [word for word in words if _VARIABLE.match(word)][: _leading(words)]
        words, environment = words[len(given) :], dict(word.split("=", 1) for word in given)
        words = [self._expanded(word, environment) for word in words]
        if words[0] == "call":
            assert self.url, "this stage serves no gateway"
            variables = {**self.environment, **environment}
            thread = ["--header", f"x-toolyard-thread:{variables['THREAD']}"] if "THREAD" in variables else []
            words = ["toolyard", "call", "--url", f"{self.url}/mcp", *thread, *words[1:]]
        if words[0] != "toolyard":
            return await self._bash(self._expanded(command, environment), environment)
        printed = await self._forked(toolyard_command, (words[1:],), environment)
        rest = _before_pipe(command)[1]
        return await self._bash(rest, environment, printed) if rest else printed

    async def python(self, source: str) -> str:
        return await self._forked(python_source, (self._expanded(source, {}),), {})

    async def serve(self) -> None:
        """Begin to serve the folder's configuration, until the shell is closed."""
        out = self.folder / "serve.out"
        process = self._fork(
            toolyard_command, (["serve", "--port", "0"],), {}, out, self.folder / "gateway.log"
        )

        async def ready() -> bool:
            found = _ADDRESS.search(out.read_text() if out.exists() else "")
            self.url = found[1] if found else ""
            assert found or process.is_alive(), (self.folder / "gateway.log").read_text()
            return bool(found)

        await until(ready)
        self.environment["GATEWAY"] = self.url

    async def close(self) -> None:
        for process in self._processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGTERM)
            await _ended(process)

    def _expanded(self, text: str, more: Mapping[str, str]) -> str:
        """`$NAME` is a variable, else what was last printed for the member `name` of an object."""

        def value(found: re.Match[str]) -> str:
            variables = {**self.environment, **more}
            if found[1] in variables:
                return variables[found[1]]
            printed = re.findall(rf'"{found[1].lower()}": ?"([^"]*)"', self._printed)
            return printed[-1] if printed else found[0]

        return re.sub(r"\$([A-Z][A-Z0-9_]*)", value, text)

    async def _bash(self, command: str, environment: Mapping[str, str], stdin: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
            env={**self.environment, **environment},
        )
        async with asyncio.timeout(PATIENCE):
            printed, _ = await process.communicate(stdin.encode())
        return printed.decode(errors="replace")

    async def _forked(self, what: Any, arguments: tuple[Any, ...], environment: Mapping[str, str]) -> str:
        self._count += 1
        out, err = (self.folder / f".{self._count}.{stream}" for stream in ("out", "err"))
        process = self._fork(what, arguments, environment, out, err)
        await _ended(process)
        return f"{out.read_text()}\n{err.read_text()}"

    def _fork(
        self, what: Any, arguments: tuple[Any, ...], more: Mapping[str, str], out: Path, err: Path
    ) -> Any:
        context = get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        place = (str(self.folder), {**self.environment, **more}, str(out), str(err))
        process = context.Process(target=forked, args=(place, what, arguments))
        process.start()
        self._processes.append(process)
        return process


def forked(place: tuple[str, dict[str, str], str, str], what: Any, arguments: tuple[Any, ...]) -> None:
    """In the new process: take the folder, the environment and the streams, then do it."""
    folder, environment, *streams = place
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    what(*arguments)


def toolyard_command(arguments: list[str]) -> None:
    from toolyard.cli import main

    main(arguments, prog_name="toolyard")


def python_source(source: str) -> None:
    """Runs lines that may wait, as `python -m asyncio` does."""
    code = compile(source, "<page>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    sys.path.insert(0, os.getcwd())
    result = eval(code, {"__name__": "__main__"})
    if inspect.iscoroutine(result):
        asyncio.run(result)


async def _ended(process: Any) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(process.sentinel, over.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await over.wait()
    finally:
        loop.remove_reader(process.sentinel)
        if process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        process.join()


def _leading(words: Sequence[str]) -> int:
    """How many variables are before the command."""
    return next((n for n, word in enumerate(words) if not _VARIABLE.match(word)), len(words))


def _before_pipe(command: str) -> tuple[str, str]:
    """A command, and what its output goes through: after the first ` | ` outside of quotes."""
    quote = ""
    for position, letter in enumerate(command):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif command.startswith(" | ", position):
            return command[:position], command[position + 3 :]
    return command, ""
