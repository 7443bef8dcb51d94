"""Programs that may have to be downloaded at their start: one install at a time, never interrupted.

npm leaves a broken cache behind if it is ended while it unpacks, or if two unpack in one place. So starts
of one package wait for each other, in all processes of this user, and a small helper process lets an
install finish when its start was cancelled.
"""

import asyncio
import fcntl
import hashlib
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...config.files import state_home
from . import groups
from .launch import Launch, Program
from .process import Process

logger = logging.getLogger("toolyard.upstream")

START_SECONDS = 300.0
DOWNLOAD_SECONDS = 1800.0
"""For a program that may have to be downloaded first. Installers give up by themselves long before."""
POLL_SECONDS = 0.2
ANOTHER = "another start of the same package is under way"

# Programs that download others: with any arguments, or with one of these commands.
_RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx", "dnx", "jbang", "mvn", "gradle"), ()),
    "npm": ("exec", "x", "create", "init", "install", "i", "ci"),
    "pnpm": ("dlx", "exec", "create", "install", "i"),
    "yarn": ("dlx", "exec", "create", "install"),
    "bun": ("x", "run", "install"),
    "deno": ("run", "serve", "install", "x"),
    "uv": ("run", "tool", "sync", "pip"),
    "pipx": ("run", "install"),
    "pip": ("install",),
    "pip3": ("install",),
    "poetry": ("run", "install"),
    "hatch": ("run",),
    "pixi": ("run", "exec"),
    "docker": ("run", "compose", "mcp", "pull"),
    "podman": ("run", "pull"),
    "nerdctl": ("run", "pull"),
    "nix": ("run", "shell", "develop"),
    "go": ("run", "install"),
    "cargo": ("run", "install"),
    "dotnet": ("run", "tool"),
    "toolyard": ("envs",),
}
_COMMANDS = ("exec", "x", "dlx", "run", "tool", "envs", "-c")
"""Words before the package in a command line."""
_WORDS = re.compile(r"[^\s;&|()'\"=]+")
_ENDING = re.compile(r"\.(cmd|exe|bat|ps1)$")


def _names(program: Program) -> list[str]:
    words = _WORDS.findall(" ".join((program.command, *program.args)))
    return [_ENDING.sub("", os.path.basename(word).lower()) for word in words]


def progress_environment(program: Program) -> dict[str, str]:
    """Return variables that make a package runner report progress.

    npm shows progress in a terminal only, so it is told to log each package that it fetches.
    """
    is_npm = {"npx", "npm"} & set(_names(program)) and "npm_config_loglevel" not in program.env
    return {"npm_config_loglevel": "http"} if is_npm else {}


def may_download(program: Program) -> bool:
    """Whether its command line has a package runner, also behind a shell or `env`."""
    names = _names(program)
    for at, name in enumerate(names):
        commands = _RUNNERS.get(name)
        if commands is not None and (not commands or set(commands) & set(names[at + 1 :])):
            return True
    return False


def start_seconds(program: Program) -> float:
    """Return the default `start_timeout`."""
    return DOWNLOAD_SECONDS if may_download(program) else START_SECONDS


class Install:
    """One start of such a program: `acquire`, then `watch` its process, then `finish` or `detach`."""

    def __init__(self, program: Program, launch: Launch) -> None:
        self._path = _lock_file(program, launch)
        self._lock: int | None = None
        self._process: Process | None = None
        self._helper: subprocess.Popen[bytes] | None = None
        self.waits = False
        """Another start of the same package is under way."""

    async def acquire(self) -> None:
        """Wait until no other start installs this package; returns at once where no lock file can be made."""
        self._lock = _open(self._path)
        if self._lock is None:
            return
        try:
            while not self._locked(self._lock):
                self.waits = True
                await asyncio.sleep(POLL_SECONDS)
        except BaseException:
            self._unlock()
            raise
        finally:
            self.waits = False

    def _locked(self, lock: int) -> bool:
        # An installed package can be started several times at once.
        how = fcntl.LOCK_SH if os.fstat(lock).st_size else fcntl.LOCK_EX
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def _unlock(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            os.close(lock)

    async def watch(self, process: Process) -> None:
        """Start the helper process, which outlives the gateway and lets the install finish."""
        self._process = process
        ends = [os.dup(end) for end in process.outputs]
        if not ends:
            return
        try:
            self._helper = await asyncio.to_thread(self._start_helper, process, ends)
        except OSError as error:
            logger.warning("%s: its install would be ended with the gateway (%s)", process.name, error)
            return
        finally:
            for end in ends:
                os.close(end)
        process.hand_over()

    def _start_helper(self, process: Process, ends: list[int]) -> "subprocess.Popen[bytes]":
        inherited = [*ends, *([] if self._lock is None else [self._lock])]
        arguments = (process.pid, process.started or 0, round(DOWNLOAD_SECONDS), *ends)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", groups.__file__, "--finish-install", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=inherited,
            bufsize=0,
            cwd="/",
            env={},
            start_new_session=True,
        )

    def finish(self, succeeded: bool) -> None:
        """Release the lock: the program runs, or it has ended."""
        if self._process is not None and not self._process.ended:
            self._process.reclaim()
        if self._lock is not None:
            with suppress(OSError):
                os.ftruncate(self._lock, 1 if succeeded else 0)
        self._release_helper(b".")
        self._unlock()

    async def detach(self) -> bool:
        """Leave the install to the helper. False when there is no helper, so that it has to be ended."""
        if self._helper is None or self._process is None or self._helper.poll() is not None:
            return False
        await self._process.detach("was left to finish its install")
        self._release_helper(b"")
        self._unlock()  # the helper holds it too
        return True

    def _release_helper(self, message: bytes) -> None:
        """End the helper with a message, or let it take over with none."""
        helper, self._helper = self._helper, None
        if helper is None:
            return
        assert helper.stdin is not None
        with suppress(OSError):
            helper.stdin.write(message)
            helper.stdin.close()
        threading.Thread(target=helper.wait, name="waits for an install", daemon=True).start()


def _open(path: Path | None) -> int | None:
    if path is None:
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _lock_file(program: Program, launch: Launch) -> Path | None:
    home = state_home()
    if home is None:
        return None
    words = (os.path.basename(program.command), *_up_to_package(program.args))
    caches = [f"{name}={value}" for name, value in sorted(launch.env.items()) if _is_cache(name)]
    mark = hashlib.blake2b("\0".join([*words, *caches]).encode(errors="replace"), digest_size=16)
    return home / "installing" / mark.hexdigest()


def _up_to_package(args: Iterable[str]) -> list[str]:
    """Return the arguments up to the first that is no option; those after the package are the program's."""
    found: list[str] = []
    for word in args:
        found.append(word)
        if not word.startswith("-") and word not in _COMMANDS:
            break
    return found


def _is_cache(name: str) -> bool:
    return name == "HOME" or name.lower().startswith(("npm_config_", "uv_", "pip", "xdg_", "bun_", "deno_"))
