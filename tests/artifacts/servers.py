"""The real thing for each kind of store, from PyPI and npm: moto for S3, Azurite for Azure.

Owns starting and ending them. Both keep everything in memory.
"""

import base64
import hmac
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from urllib.request import Request, urlopen

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
AZURITE = ROOT / "build" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
NODE = ROOT / ".venv" / "bin" / "node"
AZURE_ACCOUNT = "devstoreaccount1"
# Not a secret: Azurite has it built in, and prints it in its manual.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Program:
    """Something that listens on a port of loopback."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / f"{type(self).__name__}.log"
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def __enter__(self):
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it did not start:\n{self._log.read_text(errors='replace')}")
            time.sleep(0.05)
        return self

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Moto(Program):
    def command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    @contextmanager
    def strict(self) -> Iterator[None]:
        """Keys that it has not given out are refused meanwhile, and so is what their owners may not do."""
        self._check_keys("0")
        try:
            yield
        finally:
            self._check_keys("inf")

    def _check_keys(self, after: str) -> None:
        plain = {"Content-Type": "text/plain"}
        urlopen(Request(f"{self.url}/moto-api/reset-auth", after.encode(), plain, method="POST")).close()


class Azurite(Program):
    def command(self) -> list[str]:
        options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        return [str(NODE), str(AZURITE), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), *options]

    def create(self, container: str) -> None:
        """Make a container, with a request signed by hand: obstore has none for that."""
        date = formatdate(usegmt=True)
        path = f"/{AZURE_ACCOUNT}/{container}"
        headers = f"x-ms-date:{date}\nx-ms-version:2023-11-03"
        signed = f"PUT{chr(10) * 12}{headers}\n/{AZURE_ACCOUNT}{path}\nrestype:container"
        seal = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), signed.encode(), "sha256")).decode()
        request = Request(
            f"{self.url}{path}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": "2023-11-03",
                "Authorization": f"SharedKey {AZURE_ACCOUNT}:{seal}",
                "Content-Length": "0",
            },
        )
        urlopen(request).close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
