"""The box: what code in the workbench cannot leave, as strong as the system offers, and which one that is.

`bubblewrap` gives it namespaces, files of its own and a filter of system calls. `landlock` leaves it in the
system's namespaces, where the kernel hides other files from it, with a filter and limits. `limits` protects
no files at all. Owns how each is started and what it promises; `inside` asks the kernel for it.
"""

import json
import os
import platform
import py_compile
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from .inside import confinement
from .inside.guest import HEADER

BoxName = Literal["bubblewrap", "landlock", "limits"]
BoxChoice = Literal["auto", "bubblewrap", "landlock", "limits"]

PROBE_SECONDS = 30.0
KIT = "/run/toolyard"
PROXY_SOCKET = "/run/egress"
PROXY_PORT = 3128
NOBODY = 65534
"""As whom code runs if the gateway is root."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_SETTINGS = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_START = "import sys; sys.path.insert(0, {!r}); from inside.guest import main; del sys.path[0]; main()"
_FILES = {
    "passwd": "user:x:1000:1000:user:/home/user:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": "user:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class NoBoxError(Exception):
    """No box of the wanted strength can be had here; the message says why."""


class BoxLimits(Struct, frozen=True, kw_only=True):
    """What one box may use."""

    memory: int = 1024**3
    """Bytes of all its processes together."""
    processes: int = 64
    """Processes and threads."""
    open_files: int = 512
    """Of one process."""
    file_bytes: int = 512 * 1024**2
    """Of one file."""
    temporary_bytes: int = 256 * 1024**2
    """In `/tmp`, which is memory."""

    def as_resources(self) -> dict[str, int]:
        return {
            "CORE": 0,
            "DATA": self.memory,
            # Libraries reserve far more addresses than they use.
            "AS": 8 * self.memory,
            "NOFILE": self.open_files,
            "FSIZE": self.file_bytes,
            "NPROC": self.processes,
            "MEMLOCK": 1024**2,
            "MSGQUEUE": 0,
            "RTPRIO": 0,
            "STACK": 8 * 1024**2,
        }


class Place(Struct, frozen=True):
    """The folder that a box is for."""

    base: Path
    """The folder with this workspace and others beside it, or the workspace itself."""
    folder: Path
    """The workspace."""
    scratch: Path
    """A private folder for temporary files, where the box has no `/tmp` of its own."""


class Interpreter(Struct, frozen=True):
    path: str
    folders: tuple[str, ...]
    """What it needs to run, besides the system's own folders."""
    links: tuple[tuple[str, str], ...] = ()
    """Names outside of those folders that lead to it, with what each is."""

    @classmethod
    def found(cls, program: str = "") -> "Interpreter":
        """Ours, or the one at a path. Raises NoBoxError."""
        if not program or program == sys.executable:
            return cls._of(sys.executable, [sys.prefix, sys.base_prefix])
        ask = "import sys; assert sys.version_info >= (3, 11); print(sys.prefix); print(sys.base_prefix)"
        try:
            done = subprocess.run(
                [program, "-I", "-c", ask], capture_output=True, text=True, timeout=PROBE_SECONDS, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NoBoxError(f"{program!r} is no Python 3.11 or newer that runs: {error}") from None
        return cls._of(shutil.which(program) or program, done.stdout.split("\n")[:2])

    @classmethod
    def _of(cls, program: str, prefixes: list[str]) -> "Interpreter":
        folders = list(dict.fromkeys(os.path.abspath(prefix) for prefix in prefixes))
        real = [os.path.realpath(folder) for folder in folders]
        needed = [folder for folder in dict.fromkeys([*folders, *real]) if not _is_below(folder, _SYSTEM)]
        links: list[tuple[str, str]] = []
        hop = os.path.abspath(program)
        while True:
            if not _is_below(hop, (*_SYSTEM, *needed)):
                links.append((hop, os.path.realpath(hop)))
            if not os.path.islink(hop):
                break
            hop = os.path.normpath(os.path.join(os.path.dirname(hop), os.readlink(hop)))
        return cls(os.path.abspath(program), tuple(needed), tuple(links))


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


class BoxKit:
    """A private folder with what boxes need: our code for the inside, and a few files of `/etc`."""

    def __init__(self, *, is_ours: bool) -> None:
        """`is_ours`: the boxes run this very Python, so that code can be compiled for it."""
        self.folder = Path(tempfile.mkdtemp(prefix="toolyard-workbench-"))
        self.folder.chmod(0o755)
        inside = self.folder / "inside"
        inside.mkdir()
        for source in Path(confinement.__file__).parent.glob("*.py"):
            copied = inside / source.name
            copied.write_bytes(source.read_bytes())
            copied.chmod(0o644)
            if is_ours:
                # Beside it, whatever PYTHONPYCACHEPREFIX says: the box sees no other folder of ours.
                cached = inside / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
                py_compile.compile(str(copied), str(cached), f"{KIT}/inside/{source.name}", quiet=2)
        for name, text in _FILES.items():
            path = self.folder / name
            path.write_text(text, "utf-8")
            path.chmod(0o644)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Box:
    """One way to start processes that are confined. Everything that differs between the ways is here."""

    name: BoxName

    def __init__(
        self,
        kit: BoxKit,
        limits: BoxLimits,
        interpreter: Interpreter,
        *,
        proxy: Path | None = None,
        uid: int | None = None,
        preload: tuple[str, ...] = (),
    ) -> None:
        """`proxy` is the socket through which code reaches the web; without one there is no network."""
        self._kit = kit
        self._limits = limits
        self._python = interpreter
        self._proxy = proxy
        self.uid = uid
        """As whom code runs; None: as ourselves."""
        self._preload = preload

    @property
    def protects_files(self) -> bool:
        return self.name != "limits"

    @property
    def has_network(self) -> bool:
        return self._proxy is not None

    @property
    def has_processes_of_its_own(self) -> bool:
        """Whether the end of the first process ends all others."""
        return self.name == "bubblewrap"

    def home(self, place: Place) -> str:
        """The workspace as code in the box sees it."""
        return str(place.folder)

    def command(self, base: Path, descriptors: "Descriptors") -> list[str]:
        raise NotImplementedError

    def plan(self, place: Place) -> dict[str, Any]:
        """What the first process of the box is told before it runs code."""
        return {
            "type": "plan",
            "box": self.name,
            "uid": self.uid,
            "limits": self._limits.as_resources(),
            "home": self.home(place),
            "environment": self._environment(place),
            "machine": platform.machine() if confinement.supports_filters() else "",
            "families": self._families(),
            "relay": "",
            "relay_port": PROXY_PORT,
        }

    def _families(self) -> list[int]:
        return [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6]

    def _guest(self, kit: str, descriptors: "Descriptors") -> list[str]:
        start = _START.format(kit)
        numbers = [str(descriptors.control), str(descriptors.life)]
        return [self._python.path, "-I", "-c", start, *numbers, *self._preload]

    def _environment(self, place: Place) -> dict[str, str]:
        found = {
            "HOME": self.home(place),
            "USER": "user",
            "LOGNAME": "user",
            "LANG": "C.UTF-8",
            "PATH": f"{os.path.dirname(self._python.path)}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "agg",
            "TERM": "dumb",
            **self._temporary(place),
        }
        if self._proxy is not None:
            address = f"http://127.0.0.1:{PROXY_PORT}"
            found |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), address)
        return found

    def _temporary(self, place: Place) -> dict[str, str]:
        scratch = str(place.scratch)
        return {"TMPDIR": scratch, "XDG_CACHE_HOME": scratch, "MPLCONFIGDIR": scratch}


class Descriptors(Struct, frozen=True):
    """What a box inherits."""

    control: int
    """The socket to the gateway."""
    life: int
    """A pipe that ends when the gateway does."""
    info: int
    """Where bubblewrap writes which process is the first one inside."""


class BubblewrapBox(Box):
    name: BoxName = "bubblewrap"

    def home(self, place: Place) -> str:
        return confinement.HOME

    def command(self, base: Path, descriptors: Descriptors) -> list[str]:
        program = shutil.which("bwrap")
        if program is None:
            raise NoBoxError("bwrap is not installed; hint: apt-get install bubblewrap")
        return [
            program,
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"),
            *self._identity(),
            *("--hostname", "workbench", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"),
            *("--info-fd", str(descriptors.info)),
            *self._files(base),
            *("--chdir", "/", "--"),
            *self._guest(KIT, descriptors),
        ]

    def plan(self, place: Place) -> dict[str, Any]:
        folder = os.path.relpath(place.folder, place.base)
        relay = PROXY_SOCKET if self._proxy is not None else ""
        return {**super().plan(place), "folder": folder, "relay": relay}

    def _identity(self) -> list[str]:
        # Enough to show one of the workspaces; given up before the first cell.
        own = ["CAP_SYS_ADMIN", "CAP_SETPCAP"]
        if self.uid is None:
            user = [
                "--unshare-user",
                "--uid",
                str(confinement.INSIDE_UID),
                "--gid",
                str(confinement.INSIDE_UID),
            ]
        else:
            user = []
            own += ["CAP_SETUID", "CAP_SETGID"]
        return [*user, "--cap-drop", "ALL", *(part for name in own for part in ("--cap-add", name))]

    def _files(self, base: Path) -> list[str]:
        places = [*self._python.folders, *(name for name, _ in self._python.links), confinement.HOME]
        above = {str(folder) for path in places for folder in Path(path).parents if folder != Path("/")}
        bound = ["--perms", "0755", "--dir", "/dev"]
        # Before Python is bound, which may itself be in a folder below /tmp.
        size = str(self._limits.temporary_bytes)
        for path in ("/tmp", "/dev/shm"):
            bound += ["--perms", "1777", "--size", size, "--tmpfs", path]
        # Those that bubblewrap makes by itself are for root alone, if root starts it.
        for path in sorted({*above, "/etc", "/run", "/home", "/etc/ssl"} - {"/tmp"}):
            bound += ["--perms", "0755", "--dir", path]
        for path in _SYSTEM:
            # On most systems some of these are links into /usr.
            if os.path.islink(path):
                bound += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                bound += ["--ro-bind", path, path]
        for path in _SETTINGS:
            bound += ["--ro-bind-try", path, path]
        for path in self._python.folders:
            bound += ["--ro-bind", path, path]
        for name, real in self._python.links:
            bound += ["--ro-bind", real, name]
        for name in _FILES:
            bound += ["--ro-bind", str(self._kit.folder / name), f"/etc/{name}"]
        for path in _DEVICES:
            bound += ["--dev-bind", path, path]
        for link, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
            bound += ["--symlink", f"/proc/self/{target}", f"/dev/{link}"]
        if self._proxy is not None:
            bound += ["--bind-try", str(self._proxy), PROXY_SOCKET]
        return [
            *bound,
            *("--proc", "/proc"),
            *("--ro-bind", str(self._kit.folder), KIT),
            *("--perms", "0755", "--dir", confinement.HOME),
            *("--bind", str(base), confinement.WORKSPACES),
            *("--remount-ro", "/"),
        ]

    def _temporary(self, place: Place) -> dict[str, str]:
        return {"TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache", "MPLCONFIGDIR": "/tmp/.matplotlib"}


class LandlockBox(Box):
    name: BoxName = "landlock"

    def command(self, base: Path, descriptors: Descriptors) -> list[str]:
        return self._guest(str(self._kit.folder), descriptors)

    def plan(self, place: Place) -> dict[str, Any]:
        readable = [*_SYSTEM, *_SETTINGS, *self._python.folders, *(real for _, real in self._python.links)]
        readable += [str(self._kit.folder / "inside"), "/etc/passwd", "/etc/group", "/etc/hosts"]
        return {
            **super().plan(place),
            "readable": readable,
            "writable": [str(place.folder), str(place.scratch)],
            "devices": list(_DEVICES),
            "ports": [],
            "filter_signals": confinement.landlock_abi() < confinement.ABI_FOR_SCOPES,
        }

    def _families(self) -> list[int]:
        # Landlock knows neither UDP nor, before its sixth version, the sockets of other programs.
        return []


class LimitsBox(Box):
    name: BoxName = "limits"

    def command(self, base: Path, descriptors: Descriptors) -> list[str]:
        return self._guest(str(self._kit.folder), descriptors)

    def plan(self, place: Place) -> dict[str, Any]:
        return {**super().plan(place), "machine": ""}


_KINDS: dict[BoxName, type[Box]] = {
    "bubblewrap": BubblewrapBox,
    "landlock": LandlockBox,
    "limits": LimitsBox,
}
AUTOMATIC: tuple[BoxName, ...] = ("bubblewrap", "landlock")
"""The boxes that are used without being named, strongest first: those that protect files."""


def find_box(
    choice: BoxChoice,
    kit: BoxKit,
    limits: BoxLimits,
    interpreter: Interpreter,
    *,
    proxy: Path | None = None,
    preload: tuple[str, ...] = (),
) -> Box:
    """The strongest box that works here, tried out; or the one that is named. Raises NoBoxError."""
    uid = NOBODY if os.geteuid() == 0 else None
    reasons: list[str] = []
    for name in AUTOMATIC if choice == "auto" else (choice,):
        box = _KINDS[name](kit, limits, interpreter, proxy=proxy, uid=uid, preload=preload)
        reason = _why_not(box)
        if reason is None:
            return box
        reasons.append(f"{name}: {reason}")
    raise NoBoxError("; ".join(reasons))


def _why_not(box: Box) -> str | None:
    """Tries the box out, as far as to where the first cell would begin."""
    if box.name == "landlock" and confinement.landlock_abi() < 1:
        return "this kernel has no Landlock"
    if box.name == "landlock" and not confinement.supports_filters():
        return f"system calls cannot be filtered on {platform.machine()}"
    if box.name != "bubblewrap" and box.has_network:
        return "it cannot limit the network; turn 'network' off"
    with tempfile.TemporaryDirectory(prefix="toolyard-box-") as folder:
        place = Place(Path(folder), Path(folder), Path(folder))
        try:
            if box.uid is not None:
                os.chown(folder, box.uid, box.uid)
            return _tried(box, place)
        except (OSError, NoBoxError) as error:
            return str(error)


def _tried(box: Box, place: Place) -> str | None:
    ours, theirs = socket.socketpair()
    life, alive = os.pipe()
    told, info = os.pipe()
    try:
        ours.settimeout(PROBE_SECONDS)
        process = subprocess.Popen(
            box.command(place.base, Descriptors(theirs.fileno(), life, info)),
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(), life, info),
            start_new_session=True,
        )
        theirs.close()
        try:
            if _received(ours) is not None:
                text = json.dumps(box.plan(place)).encode()
                ours.sendall(HEADER.pack(len(text), 0) + text)
                answer = _received(ours)
                if answer is not None:
                    return None if answer["type"] == "confined" else str(answer.get("reason"))
        except (OSError, ValueError):
            pass  # it ended early; its last words follow
        finally:
            ours.close()
            os.close(alive)
            alive = -1
            try:
                _, errors = process.communicate(timeout=PROBE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                errors = b"it does not end"
    finally:
        ours.close()
        theirs.close()
        for descriptor in (life, alive, told, info):
            if descriptor >= 0:
                os.close(descriptor)
    said = errors.decode(errors="replace").strip().splitlines()
    return said[-1][:300] if said else f"it ended with {process.returncode}"


def _received(connection: socket.socket) -> dict[str, Any] | None:
    head = connection.recv(HEADER.size, socket.MSG_WAITALL)
    if len(head) < HEADER.size:
        return None
    length, _ = HEADER.unpack(head)
    return json.loads(connection.recv(length, socket.MSG_WAITALL))
