"""Environments for packages from npm and PyPI: made once, kept in the cache folder, started from there.

A package has a folder of its own, so that its dependencies never meet ours or another package's. The file
`toolyard.json` is written last: a folder without it is half made, and is made anew. A lock, which a running
server holds too, keeps two processes from making one environment at once, and a server's environment from
being removed under it. What is in the cache is started without a network.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from ...config.files import cache_home
from ..json_values import as_object
from ..ui.messages import CommandError

Registry = Literal["npm", "pypi"]
MARKER = "toolyard.json"
LOCKS = "locks"
SHOWN_LINES = 20
"""Of what an installer wrote, in the error if it fails."""
REGISTRY_SETTINGS = ("UV_", "PIP_", "NPM_CONFIG_", "NETRC")
"""How the variables begin by which a user says where packages come from."""

# Names and exact versions only: an option, an address or a path in their place would reach the installer.
_NPM = re.compile(
    r"(?P<name>(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*)@(?P<version>\d+\.\d+\.\d+(?:[+-][\w.+-]+)?)",
    re.A,
)
_PYPI = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<extras>\[[A-Za-z0-9._,-]+\])?==(?P<version>\d[\w.+!-]*)", re.A
)
NO_NPM = ("no npm on PATH", "install Node.js, which has npm: https://nodejs.org")
NO_UV = (
    "no uv on PATH, and this Python cannot make environments (it has no ensurepip)",
    "install uv (https://docs.astral.sh/uv), or on Debian python3-venv",
)


class Package(Struct, frozen=True):
    """A package at an exact version, as `npm:@playwright/mcp@0.0.83` or `pypi:edgartools[ai]==5.62.1`."""

    registry: Registry
    name: str
    version: str
    extras: str = ""

    def __str__(self) -> str:
        return f"{self.registry}:{self.requirement}"

    @property
    def requirement(self) -> str:
        """The package as its installer wants it."""
        if self.registry == "npm":
            return f"{self.name}@{self.version}"
        return f"{self.name}{self.extras}=={self.version}"

    @property
    def folder_name(self) -> str:
        """Readable and unique. A new minor version of Python needs a new environment."""
        python = "" if self.registry == "npm" else "{}.{}".format(*sys.version_info)
        mark = hashlib.blake2b(f"{self}\0{python}\0{os.uname().machine}".encode(), digest_size=4).hexdigest()
        return f"{re.sub(r'[^a-z0-9.]+', '-', self.name.lower()).strip('-')}-{self.version}-{mark}"


def parse_package(text: str) -> Package:
    registry, _, rest = text.partition(":")
    found = {"npm": _NPM, "pypi": _PYPI}[registry].fullmatch(rest) if registry in ("npm", "pypi") else None
    if found is None:
        raise CommandError(
            f"{text!r} is not a package with its version",
            "write npm:NAME@VERSION or pypi:NAME==VERSION, as in pypi:mcp-server-git==2026.10.19",
        )
    extras = "" if registry == "npm" else found["extras"] or ""
    return Package("npm" if registry == "npm" else "pypi", found["name"], found["version"], extras)


class Environment(Struct, frozen=True):
    """A finished environment."""

    package: Package
    folder: Path

    def argv(self, program: str = "", module: str = "") -> list[str]:
        """The command for a program of the package: the named one, or the one that npx or uvx take."""
        if module:
            return [str(self.folder / "bin" / "python"), "-m", module]
        bin = self.folder / ("node_modules/.bin" if self.package.registry == "npm" else "bin")
        name = program or _only_program(self._programs(), self.package)
        path = bin / name
        if os.sep in name or not path.is_file():
            known = ", ".join(self._programs()) or "none"
            raise CommandError(f"{self.package} has no program {name!r}", f"its programs: {known}")
        return [str(path)]

    def _programs(self) -> list[str]:
        """The programs of the package itself, without those of its dependencies."""
        return list(_npm_programs(self) if self.package.registry == "npm" else _pypi_programs(self))

    def size(self) -> int:
        return sum(
            os.lstat(os.path.join(folder, name)).st_size
            for folder, _, names in os.walk(self.folder)
            for name in names
        )


def _only_program(names: list[str], package: Package) -> str:
    bare = package.name.rpartition("/")[2]
    if len(names) == 1:
        return names[0]
    if bare in names:
        return bare
    listed = ", ".join(names) or "none"
    raise CommandError(f"{package} has no program {bare!r}", f"--program NAME takes one of its own: {listed}")


def _npm_programs(made: Environment) -> Iterator[str]:
    try:
        text = (made.folder / "node_modules" / made.package.name / "package.json").read_text("utf-8")
        declared: Any = json.loads(text).get("bin")
    except (OSError, ValueError):
        return
    if isinstance(declared, str):
        yield made.package.name.rpartition("/")[2]
    yield from as_object(declared)


def _pypi_programs(made: Environment) -> Iterator[str]:
    wanted = re.sub(r"[-_.]+", "-", made.package.name).lower()
    for record in made.folder.glob("lib/python*/site-packages/*.dist-info/entry_points.txt"):
        name = record.parent.name.removesuffix(".dist-info").rpartition("-")[0]
        if re.sub(r"[-_.]+", "-", name).lower() == wanted:
            section = re.search(
                r"^\[console_scripts\]\s*$(.*?)(?=^\[|\Z)", record.read_text("utf-8"), re.M | re.S
            )
            yield from re.findall(r"^\s*([^\s=]+)\s*=", section[1] if section else "", re.M)


class InstallProgress(Protocol):
    """Where the lines of an installer go."""

    @property
    def shows_everything(self) -> bool: ...
    def show(self, line: str) -> None: ...


class PrintedProgress:
    """For a server's start: its standard error is read by the gateway, which shows the last line."""

    shows_everything = True

    def show(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Environments:
    """All environments of this user, in one folder."""

    def __init__(self, progress: InstallProgress | None = None) -> None:
        home = cache_home()
        if home is None:
            raise CommandError("this user has no home folder to keep environments in", "set XDG_CACHE_HOME")
        self.root = home / "envs"
        self._progress = progress or PrintedProgress()

    def find(self, package: Package) -> Environment | None:
        folder = self.root / package.folder_name
        return Environment(package, folder) if _is_whole(folder, package) else None

    def all(self) -> list[Environment]:
        """The finished ones, by folder."""
        found: list[Environment] = []
        for marker in sorted(self.root.glob(f"*/{MARKER}")):
            try:
                package = parse_package(str(json.loads(marker.read_text("utf-8"))["package"]))
            except (OSError, ValueError, KeyError, TypeError, CommandError):
                continue
            found.append(Environment(package, marker.parent))
        return found

    @contextmanager
    def used(self, package: Package) -> Generator[Environment, None, None]:
        """The environment, made if it is missing. Until the end, and in a program that replaces this
        process, a lock says that it is in use."""
        try:
            lock = self._open_lock(package.folder_name)
        except CommandError:
            found = self.find(package)
            if found is None:
                raise
            yield found  # in an image that cannot be written, where nothing can be removed either
            return
        try:
            self._flock(lock, fcntl.LOCK_SH, package)
            found = self.find(package)
            if found is None:
                self._flock(lock, fcntl.LOCK_EX, package)
                found = self.find(package) or self._make(package, lock)
                self._flock(lock, fcntl.LOCK_SH, package)
            os.set_inheritable(lock, True)
            with suppress(OSError):
                os.utime(found.folder / MARKER)  # when it was last used
            yield found
        finally:
            os.close(lock)

    def remove(self, folder: Path) -> bool:
        """Remove an environment, finished or not; False if a server runs from it."""
        lock = self._open_lock(folder.name)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_folder(folder)
        except BlockingIOError:
            return False
        except OSError as error:
            raise CommandError(f"cannot remove {str(folder)!r}: {error.strerror or error}") from None
        finally:
            os.close(lock)
        return True

    def half_made(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        whole = {made.folder for made in self.all()} | {self.root / LOCKS}
        return [folder for folder in sorted(self.root.iterdir()) if folder.is_dir() and folder not in whole]

    def _flock(self, lock: int, how: int, package: Package) -> None:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            self._progress.show(f"waiting: another process installs {package}")
            fcntl.flock(lock, how)

    def _open_lock(self, name: str) -> int:
        path = self.root / LOCKS / name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommandError(
                f"cannot write {str(path)!r}: {error.strerror or error}",
                "XDG_CACHE_HOME names another folder",
            ) from None

    def _make(self, package: Package, lock: int) -> Environment:
        folder = self.root / package.folder_name
        try:
            _remove_folder(folder)
            folder.mkdir(parents=True)
            by = _Installers(package, folder, lock, self._progress).run()
            _write_marker(folder, package, by)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise CommandError(f"cannot install {package}: {reason}", f"in {str(folder)!r}") from None
            raise
        return Environment(package, folder)


def _is_whole(folder: Path, package: Package) -> bool:
    if not (folder / MARKER).is_file():
        return False
    # The Python that an environment was made with may have been removed since.
    return package.registry == "npm" or (folder / "bin" / "python").exists()


def _remove_folder(folder: Path) -> None:
    (folder / MARKER).unlink(missing_ok=True)  # first, so that it is never half there
    if folder.exists():
        shutil.rmtree(folder)


def _write_marker(folder: Path, package: Package, by: str) -> None:
    about = {"package": str(package), "made": datetime.now(UTC).isoformat(timespec="seconds"), "by": by}
    handle, draft = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(about, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, folder / MARKER)


def find_program(name: str, path: str) -> str | None:
    """A program on PATH, or beside our own Python, where wheels put theirs."""
    beside = Path(sys.executable).with_name(name)
    return shutil.which(name, path=path) or (str(beside) if os.access(beside, os.X_OK) else None)


def program_path(environment: Mapping[str, str]) -> str:
    """PATH with Node.js on it, which npm's programs ask for in their first line."""
    path = environment.get("PATH", os.defpath)
    node = None if shutil.which("node", path=path) else find_program("node", path)
    return f"{os.path.dirname(node)}{os.pathsep}{path}" if node else path


def installers_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What installers see, and the scripts of packages that they run: what programs need to run at all, and
    the user's own registries. Not the variables of the server, nor other secrets of this process."""
    from ...upstream.stdio.launch import SERVER_VARIABLES, is_harmless  # only where something is installed

    of_server = given.get(SERVER_VARIABLES, "").split()
    users = {name: value for name, value in given.items() if name not in of_server}
    named = _named_in_npmrc(users)
    kept = {
        name: value
        for name, value in users.items()
        if is_harmless(name) or name.upper().startswith(REGISTRY_SETTINGS) or name in named
    }
    return {**kept, "PATH": program_path(kept)}


def _named_in_npmrc(environment: Mapping[str, str]) -> set[str]:
    """The variables that the user's .npmrc refers to, such as `${NPM_TOKEN}`."""
    file = next((environment[name] for name in environment if name.lower() == "npm_config_userconfig"), "")
    try:
        text = Path(file or "~/.npmrc").expanduser().read_text("utf-8", errors="replace")
    except (OSError, RuntimeError):
        return set()
    return set(re.findall(r"\$\{(\w+)", text))


class _Installers:
    """Runs the installers of one package, in its folder, where no project's configuration is found."""

    def __init__(self, package: Package, folder: Path, lock: int, progress: InstallProgress) -> None:
        self._package = package
        self._folder = folder
        self._lock = lock
        self._progress = progress
        self._environment = installers_environment(os.environ)

    def run(self) -> str:
        """Install the package; returns what with."""
        return self._npm() if self._package.registry == "npm" else self._pypi()

    def _npm(self) -> str:
        npm = self._find("npm")
        if npm is None:
            raise CommandError(f"cannot install {self._package}: {NO_NPM[0]}", NO_NPM[1])
        # A package.json of its own, because npm would otherwise install into a folder above that has one.
        (self._folder / "package.json").write_text('{"private": true}\n', "utf-8")
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--save-exact"]
        options += ["--loglevel=http"]  # a line for each package, as progress
        self._call([npm, "install", "--prefix", str(self._folder), *options, self._package.requirement])
        return "npm"

    def _pypi(self) -> str:
        folder, python = str(self._folder), str(self._folder / "bin" / "python")
        uv = self._find("uv")
        if uv is not None:
            options = ["--quiet", "--no-project", "--allow-existing", "--python", sys.executable]
            self._call([uv, "venv", *options, folder])
            self._call([uv, "pip", "install", "--python", python, self._package.requirement])
            return "uv"
        if find_spec("ensurepip") is None:  # Debian has `venv` without it unless python3-venv is installed
            raise CommandError(f"cannot install {self._package}: {NO_UV[0]}", NO_UV[1])
        self._call([sys.executable, "-m", "venv", folder])
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        self._call([*pip, self._package.requirement])
        return "pip"

    def _find(self, program: str) -> str | None:
        return find_program(program, self._environment["PATH"])

    def _call(self, command: list[str]) -> None:
        """Run an installer. It inherits the lock, so that nobody else installs while it still writes."""
        last: deque[str] = deque(maxlen=SHOWN_LINES)
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[self._lock],
            env=self._environment,
            cwd=self._folder,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if line.strip():
                        last.append(line.rstrip())
                        self._progress.show(line.rstrip())
            except BaseException:
                process.terminate()  # and `with` waits for its end
                raise
        if process.returncode:
            installer = os.path.basename(command[0])
            raise CommandError(
                f"cannot install {self._package}: {installer} exited with {process.returncode}",
                f"is the version right, and can {self._package.registry} be reached?",
                details=None if self._progress.shows_everything else "\n".join(last),
            )
