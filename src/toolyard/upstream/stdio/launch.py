"""Resolves a program, its environment and its working folder before the start, for precise errors."""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from ...config.servers import OWN_PROGRAM

# The variables a program needs to run at all. Any other may be a secret meant for another program, so it
# has to be named in the server's entry: env = { TOKEN = "${TOKEN}" }.
_NAMES = """
    HOME LOGNAME USER PATH SHELL TERM LANG LANGUAGE TZ TMPDIR TMP TEMP PWD COLORTERM NO_COLOR
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    VIRTUAL_ENV PYENV_ROOT PYENV_VERSION NVM_DIR NVM_BIN VOLTA_HOME FNM_DIR ASDF_DIR ASDF_DATA_DIR
    JAVA_HOME GOPATH GOROOT CARGO_HOME RUSTUP_HOME DOTNET_ROOT BUN_INSTALL DENO_DIR
    DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK DOCKER_HOST
    SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES
    USERPROFILE USERNAME HOMEDRIVE HOMEPATH PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS
"""
PASSED_ON = frozenset(_NAMES.split())
PASSED_ON_PREFIXES = ("LC_", "XDG_")
NESTING = "TOOLYARD_NESTING"
SERVER_VARIABLES = "TOOLYARD_SERVER_VARIABLES"
"""Tells `toolyard envs run` the names of the server's own variables: it installs without them."""


class Program(Protocol):
    """The fields of `config.Stdio` that a start needs."""

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


def is_harmless(name: str) -> bool:
    return name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)


def nesting(environment: Mapping[str, str]) -> int:
    """Count the gateways above this process, each started by the one above."""
    given = environment.get(NESTING, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 4 else 0


def prepare(program: Program, parent: Mapping[str, str] | None = None) -> Launch:
    parent = os.environ if parent is None else parent
    env = {name: value for name, value in parent.items() if is_harmless(name)}
    env.update(program.env)
    if program.env and "envs" in program.args:
        env[SERVER_VARIABLES] = " ".join(program.env)
    env[NESTING] = str(nesting(parent) + 1)
    cwd = None if program.cwd is None else _folder(program.cwd)
    if program.command == OWN_PROGRAM and shutil.which(OWN_PROGRAM, path=env.get("PATH", os.defpath)) is None:
        return Launch((sys.executable, "-m", "toolyard", *program.args), env, cwd)
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
    """Turn an error of the start itself into a StartError."""
    if isinstance(error, FileNotFoundError):
        return StartError(
            f"command {command!r} could not be run", "does the interpreter in its first line exist?"
        )
    if isinstance(error, PermissionError):
        return StartError(f"command {command!r} could not be run (permission denied)")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StartError(f"command {command!r} could not be run ({reason})")
