"""What it takes to start a program, found out beforehand, so that an error can say what is wrong."""

import os
import shutil
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

OURS = "TOOLYARD_"
NESTING = "TOOLYARD_NESTING"


class Program(Protocol):
    """`config.Stdio`, or anything like it."""

    @property
    def command(self) -> str: ...
    @property
    def args(self) -> tuple[str, ...]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def cwd(self) -> str | None: ...
    @property
    def max_memory(self) -> int: ...


class StartError(Exception):
    """The program could not be started."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(f"{reason}; {hint}" if hint else reason)
        self.reason = reason
        self.hint = hint


class Launch(Struct, frozen=True):
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None


def nesting(environment: Mapping[str, str]) -> int:
    """How many gateways this process was started by, one from another."""
    given = environment.get(NESTING, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 4 else 0


def prepare(program: Program, parent: Mapping[str, str] | None = None) -> Launch:
    parent = os.environ if parent is None else parent
    # Our own settings, the key above all, are nobody else's business.
    env = {name: value for name, value in parent.items() if not name.startswith(OURS)}
    env.update(program.env)
    env[NESTING] = str(nesting(parent) + 1)
    cwd = None if program.cwd is None else _folder(program.cwd)
    return Launch((_find(program.command, env, cwd), *program.args), env, cwd)


def _folder(cwd: str) -> str:
    folder = os.path.expanduser(cwd)
    if not os.path.isdir(folder):
        what = "is not a folder" if os.path.exists(folder) else "does not exist"
        raise StartError(f"its working folder {cwd!r} {what}", "see `cwd` in its configuration")
    if not os.access(folder, os.X_OK):
        raise StartError(f"its working folder {cwd!r} cannot be entered (permission denied)")
    return folder


def _find(command: str, env: Mapping[str, str], cwd: str | None) -> str:
    if not command:
        raise StartError("its command is empty")
    if os.sep not in command:
        found = shutil.which(command, path=env.get("PATH", os.defpath))
        if found is None:
            raise StartError(f"command {command!r} was not found on PATH", _hint(command))
        return found
    path = os.path.join(cwd or os.getcwd(), os.path.expanduser(command))
    if not os.path.exists(path):
        raise StartError(
            f"command {command!r} does not exist", f"it would be {path}" if path != command else None
        )
    if os.path.isdir(path):
        raise StartError(f"command {command!r} is a folder")
    if not os.access(path, os.X_OK):
        raise StartError(
            f"command {command!r} is not executable (permission denied)", f"try `chmod +x {path}`"
        )
    return path


def _hint(command: str) -> str:
    if command in ("uv", "uvx"):
        return "install uv (https://docs.astral.sh/uv), or give the full path"
    if command in ("npx", "npm", "node"):
        return "install Node.js (https://nodejs.org), or give the full path"
    return "install it, or give the full path"


def explain(error: Exception, command: str) -> StartError:
    """For what goes wrong all the same."""
    if isinstance(error, FileNotFoundError):
        return StartError(
            f"command {command!r} could not be run", "does the interpreter in its first line exist?"
        )
    if isinstance(error, PermissionError):
        return StartError(f"command {command!r} could not be run (permission denied)")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StartError(f"command {command!r} could not be run ({reason})")
