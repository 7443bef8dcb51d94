"""What the suite talks to: the everything-servers, gateways in front of them, also such that want a key, and
functions with them inside, each a process of its own.

Everything is started with a command, is ready when its health page answers, and is gone when the `with` ends.
"""

import contextlib
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from pathlib import Path

from .processes import child
from .suite import ROOT, fail, say

# The legacy-only upstream; the newest 1.x, in an environment that has nothing else.
SDK1 = "mcp==1.30.0"
SDK1_HOME = ROOT / "build" / "envs" / "mcp1"
START_S = 60
UPSTREAM = "up"
AGENT = "conformance"
GUARDED = f"""
[auth]
keys = true
required = true

[access]
agents = ["{AGENT}", "other"]
default = "deny"

[[access.rules]]
name = "the suite"
who = ["{AGENT}"]
allow = ["*"]

[[access.rules]]
name = "others"
who = ["other"]
deny = ["*"]

[[limits.rules]]
name = "plenty"
rate = 10_000
concurrent = 1_000
calls_a_day = 1_000_000
tokens_a_day = 1_000_000_000

[audit]
url = "file:"
arguments = "redacted"
"""
"""Everything that a gateway may want of a caller; the key's agent may have all of it."""

_making = threading.Lock()
_ports = itertools.count(random.randrange(20_000, 30_000))


class NotStarted(Exception):
    """A server that did not come up; the text says where its output is."""


def python_of(module: str) -> str:
    """The Python that runs an everything-server."""
    return str(sdk1_python()) if module == "tests.everything_sdk1" else sys.executable


def sdk1_python() -> Path:
    with _making:
        python = SDK1_HOME / "bin" / "python"
        stamp = SDK1_HOME / ".installed"
        if not stamp.is_file() or stamp.read_text("utf-8") != SDK1:
            say(f"installing {SDK1}")
            shutil.rmtree(SDK1_HOME, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(SDK1_HOME)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", SDK1]
            done = subprocess.run(
                pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode:
                reason = f"'{SDK1}' could not be installed:\n{done.stdout}"
                fail(reason, "is the package index reachable? run it again to retry")
            stamp.write_text(SDK1, "utf-8")
        return python


@contextlib.contextmanager
def everything_server(module: str, folder: Path) -> Generator[str]:
    """An everything-server over HTTP; yields its URL."""
    port = free_port()
    command = [python_of(module), "-W", "ignore", "-m", module, "--port", str(port)]
    with running(command, f"http://127.0.0.1:{port}/health", folder, "server.log"):
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.contextmanager
def gateway(mounted: str, folder: Path, tables: str = "") -> Generator[str]:
    """`toolyard serve` with one upstream, `mounted` being the body of its table, and `tables` more of the
    configuration; yields the URL of its bare view.
    """
    port = free_port()
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    config = folder / "toolyard.toml"
    config.write_text(
        f'[gateway]\nstate_dir = "{state}"\n{tables}\n[servers.{UPSTREAM}]\n{mounted}\n', "utf-8"
    )
    command = [sys.executable, "-m", "toolyard", "serve", "--config", str(config), "--port", str(port)]
    with running(command, f"http://127.0.0.1:{port}/health", folder, "gateway.log"):
        yield f"http://127.0.0.1:{port}/mcp/{UPSTREAM}"


@contextlib.contextmanager
def gateway_with_keys(mounted: str, folder: Path) -> Generator[str]:
    """A gateway that asks for keys, decides by rules, counts calls and records them; yields the URL of a hop
    in front of it that adds a key to every request.
    """
    with gateway(mounted, folder, GUARDED) as url:
        if status_of(url) != 401:
            raise NotStarted(f"{url} lets in a request without a key")
        key = make_key(folder)
        address = urllib.parse.urlsplit(url)
        port = free_port()
        command = [sys.executable, "-m", "scripts.conformance.hop", str(port), str(address.port)]
        health = f"http://127.0.0.1:{port}/health"
        with running(command, health, folder, "hop.log", HOP_AUTHORIZATION=f"Bearer {key}"):
            yield f"http://127.0.0.1:{port}{address.path}"


def make_key(folder: Path) -> str:
    make = ["-m", "toolyard", "keys", "create", "suite", "--agent", AGENT]
    command = [sys.executable, *make, "--config", str(folder / "toolyard.toml")]
    made = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if made.returncode:
        raise NotStarted(f"no key could be made:\n{made.stderr}")
    return made.stdout.strip()


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=START_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@contextlib.contextmanager
def function_url(target: str, folder: Path, stream: bool) -> Generator[str]:
    """A server as a function of AWS Lambda, in AWS's emulator or in our own runtime; yields its URL."""
    port = free_port()
    source = f"from toolyard.app.aws_lambda import function\n\nhandler = function([{target!r}])\n"
    (folder / "function.py").write_text(source, "utf-8")
    command = [sys.executable, "-m", "tests.aws", str(folder), "--port", str(port)]
    with running(
        command + (["--stream"] if stream else []), f"http://127.0.0.1:{port}/health", folder, "url.log"
    ):
        yield f"http://127.0.0.1:{port}/mcp"


def free_port() -> int:
    """A port that nobody is given again, and none of those that outgoing connections get by themselves."""
    while True:
        with _making:
            port = next(_ports)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def running(command: list[str], health: str, folder: Path, log: str, **variables: str) -> Generator[None]:
    # From the root `tests` can be imported, and from the folder what was written there to be mounted.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), **variables}
    file = folder / log
    with (
        file.open("wb") as output,
        child(command, cwd=ROOT, env=environment, stdout=output, stderr=output) as process,
    ):
        wait_until_ready(process, health, file)
        yield


def wait_until_ready(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    attempt_s = 0.05
    for _ in range(int(START_S / attempt_s)):
        try:
            with urllib.request.urlopen(health, timeout=START_S):
                return
        except urllib.error.HTTPError:
            return  # It answers, and what is wrong with it is for the suite to find.
        except (urllib.error.URLError, ConnectionError):
            # Waiting for its end is how we wait: a server that cannot start is noticed at once.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=attempt_s)
                break
    last = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-15:])
    raise NotStarted(f"{health} does not answer; {log.relative_to(ROOT)} ends with\n{last}")
