"""`toolyard doctor`: whether this machine and this installation have what the configuration needs.

Starts no server and leaves nothing behind: it writes to stores and folders and removes what it wrote, and
looks at programs, packages, the port, the clock and variables. `toolyard check` looks at the configuration.
"""

import asyncio
import errno
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import click
from msgspec import Struct, to_builtins

from ..._version import __version__
from ...extras import PURPOSES, install_command, missing
from ...file_access import current_user, explain, is_missing, refusal, try_writing
from ..configuration import loader
from ..serving.session_key import CREATE_HINT, default_key_file
from ..ui.messages import CommandError, one_line
from ..ui.output import print_json
from ..ui.tables import counted, format_size, print_table
from .options import config_option, debug_option, json_option

if TYPE_CHECKING:
    from ...config import Config, InProcess

FAILED = 1
"""The exit status if a check failed."""
OLDEST_PYTHON = (3, 11)
OLDEST_NODE = 18
ANSWER_SECONDS = 5.0
MIN_DISK = 200_000_000
MIN_FILES = 1024
DAY = 86400.0
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
MAX_LOOKED_AT = 10_000
"""Files of the state folder."""
_REACHABLE = "is it running, and reachable?"
_SYMBOLS = {"ok": "ok", "warn": "warn", "fail": "FAIL"}


class CheckResult(Struct, frozen=True):
    """One row of the report."""

    check: str
    level: Literal["ok", "warn", "fail"]
    found: str
    hint: str = ""


@click.command("doctor", short_help="Check this machine and this installation.")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The key of the gateway, if `serve` has it from a file too.",
)
@config_option
@json_option
@debug_option
def command(key_file: Path | None, config: Path | None, as_json: bool, debug: bool) -> None:
    """Check what the servers of the configuration need from this machine.

    Python, extras, programs, the browser, stores, the key, the state folder, the port, the clock and proxies.
    What it writes as a trial it removes. Exit status: 0, or 1 if a check failed. Warnings do not count.
    """
    results = list(_examine(config, key_file))
    failed = sum(one.level == "fail" for one in results)
    if as_json:
        print_json({"ok": not failed, "version": __version__, "checks": to_builtins(results)})
    else:
        rows = [
            (one_line(one.check), _SYMBOLS[one.level], one_line(one.found), one_line(one.hint))
            for one in results
        ]
        print_table(("check", "", "what was found", "what to do"), rows)
        click.echo()
        warned = sum(one.level == "warn" for one in results)
        parts = [counted(failed, "failures")] if failed else ["all is well"] if not warned else []
        click.echo(", ".join([*parts, *([counted(warned, "warnings")] if warned else [])]))
    if failed:
        raise click.exceptions.Exit(FAILED)


def _examine(given: Path | None, key_file: Path | None) -> Iterator[CheckResult]:
    from ...config import Config
    from ...config.files import state_folder

    yield _python()
    yield CheckResult("toolyard", "ok", f"{__version__} in {Path(__file__).resolve().parents[2]}")
    config = Config()
    file = loader.config_file(None, given)
    if file is None:
        yield CheckResult("configuration", "ok", "none: commands use the bundled demo", "")
    else:
        try:
            config = loader.load_config(file)
            yield _configuration(config, file)
        except CommandError as error:
            hint = f"toolyard check --config {file}"
            yield CheckResult("configuration", "fail", error.message, hint)
    folder = state_folder(config)
    yield from _extras(config)
    yield from _programs(config)
    yield from _browser(config)
    yield from _folder(folder)
    yield _signing_key(config, key_file)
    stores = asyncio.run(_stores(config, folder))
    yield from stores
    if not any(one.check in ("state store", "vault") and one.level == "fail" for one in stores):
        yield from _logins(config)
    yield _port(config)
    yield _clock()
    yield from _open_files()
    yield from _proxies(config)


# The installation


def _python() -> CheckResult:
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:  # pyright: ignore[reportUnnecessaryComparison]
        return CheckResult("python", "fail", found, "install Python 3.11 or newer")
    return CheckResult("python", "ok", found)


def _configuration(config: "Config", file: Path) -> CheckResult:
    count = counted(len(config.servers), "servers")
    if config.broken:
        names = ", ".join(one.name for one in config.broken)
        return CheckResult(
            "configuration",
            "warn",
            f"{file}: {count}; not usable: {names}",
            f"toolyard check --config {file}",
        )
    return CheckResult("configuration", "ok", f"{file}: {count}")


def _extras(config: "Config") -> Iterator[CheckResult]:
    """Each extra that the configuration needs, then those that it does not."""
    needed: dict[str, list[str]] = {}
    for extra, who in _needs(config):
        needed.setdefault(extra, []).append(who)
    for extra, users in needed.items():
        by = ", ".join(dict.fromkeys(users))
        if absent := missing(extra):
            found = f"{' and '.join(absent)} missing, for {by}"
            yield CheckResult(f"extra {extra}", "fail", found, install_command(extra))
        else:
            yield CheckResult(f"extra {extra}", "ok", f"installed, for {by}")
    wanted = dict(_wants(config))
    others = [extra for extra in PURPOSES if extra not in needed and missing(extra)]
    for extra in [extra for extra in others if extra in wanted]:
        others.remove(extra)
        yield CheckResult(f"extra {extra}", "warn", f"not installed: {wanted[extra]}", install_command(extra))
    if others:
        yield CheckResult("other extras", "ok", f"not installed and not needed: {', '.join(others)}")


_OF_SERVERS = {
    "sql": "sql",
    "schema": "sql",
    "browser": "browser",
    "youtube": "youtube",
    "zai_vision": "vision",
}
_OPTIONAL_OF_SERVERS = {
    "local_toolkit": ("crawl", "crawl_parallel of {} does not work"),
    "workbench": ("workbench", "code in {} cannot import pandas and matplotlib"),
}
_OF_SCHEMES = {
    "postgres": "postgres",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "redis": "redis",
    "rediss": "redis",
}


def _needs(config: "Config") -> Iterator[tuple[str, str]]:
    """Extras, and by whom they are needed."""
    from ...config import InProcess

    for table, url in (("[state]", config.state.url), ("[audit]", config.audit.url)):
        if extra := _OF_SCHEMES.get(_scheme(url)):
            yield extra, table
    if _scheme(config.store.url) not in ("", "local", "supabase"):
        yield "objects", "[store]"
    if set(config.telemetry.traces or ()) - {"local"}:
        yield "otel", "[telemetry]"
    if config.auth.issuers:
        yield "auth", "[auth]"
    if any(rule.when for rule in config.access.rules):
        yield "policy", "[access]"
    for server in config.servers:
        if not isinstance(server.where, InProcess):
            continue
        if extra := _OF_SERVERS.get(_bundled_name(server.where)):
            yield extra, server.name
        for key in ("database", "url"):
            given = server.where.options.get(key)
            if isinstance(given, str) and (extra := _OF_SCHEMES.get(_scheme(given))):
                yield extra, server.name


def _wants(config: "Config") -> Iterator[tuple[str, str]]:
    """Extras that a server does without, and what is missing then."""
    from ...config import InProcess

    for server in config.servers:
        if not isinstance(server.where, InProcess):
            continue
        name = _bundled_name(server.where)
        if name in _OPTIONAL_OF_SERVERS:
            extra, loss = _OPTIONAL_OF_SERVERS[name]
            yield extra, loss.format(server.name)
        if name in ("video_audio", "youtube") and shutil.which("ffmpeg") is None:
            yield "media", f"{server.name} finds no ffmpeg"


def _bundled_name(where: "InProcess") -> str:
    return where.module.removeprefix("toolyard.servers.").partition(":")[0]


def _scheme(url: str) -> str:
    return url.partition(":")[0].partition("+")[0].lower() if ":" in url else ""


# Programs


def _programs(config: "Config") -> Iterator[CheckResult]:
    """The programs that servers start, each once."""
    from ...config import Stdio
    from ...config.servers import OWN_PROGRAM

    users: dict[tuple[str, str], list[str]] = {}
    for server in config.servers:
        if isinstance(server.where, Stdio):
            path = server.where.env.get("PATH", os.environ.get("PATH", ""))
            users.setdefault((server.where.command, path), []).append(server.name)
    for (program, path), names in users.items():
        by, title = ", ".join(names), f"program {os.path.basename(program)}"
        place = shutil.which(program, path=path)
        if place is None and program == OWN_PROGRAM:
            place = sys.executable
        if place is None:
            yield CheckResult(title, "fail", f"not on PATH, for {by}", _installation(program))
        elif os.path.basename(program) in ("npx", "npm", "node"):
            yield _node(title, place, by, path)
        else:
            yield CheckResult(title, "ok", f"{place}, for {by}")


def _installation(program: str) -> str:
    if os.path.basename(program) in ("npx", "npm", "node"):
        return f"install Node.js {OLDEST_NODE} or newer: Debian's package npm, or nodejs.org"
    if os.path.basename(program) in ("uvx", "uv"):
        return "pip install uv"
    return "install it, or give its full path"


def _node(title: str, place: str, by: str, path: str) -> CheckResult:
    node = shutil.which("node", path=path)
    version = _first_line([node, "--version"]) if node else ""
    major = version.lstrip("v").partition(".")[0]
    if not major.isdigit():
        return CheckResult(
            title, "fail", f"{place} without a Node.js that runs, for {by}", _installation("npx")
        )
    if int(major) < OLDEST_NODE:
        found = f"Node.js {version} is too old for most servers, for {by}"
        return CheckResult(title, "warn", found, _installation("npx"))
    return CheckResult(title, "ok", f"{place} with Node.js {version}, for {by}")


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""


def _browser(config: "Config") -> Iterator[CheckResult]:
    from ...config import InProcess

    for server in config.servers:
        where = server.where
        if not isinstance(where, InProcess) or where.module != "toolyard.servers.browser":
            continue
        from ...chromium import find_on_path

        given = str(where.options.get("chromium") or os.environ.get("TOOLYARD_BROWSER_CHROMIUM", ""))
        place = (shutil.which(given) if given else find_on_path()) or (
            "" if given else _playwrights_browser()
        )
        if place:
            yield CheckResult("Chromium", "ok", f"{place}, for {server.name}")
        else:
            found = f"{given!r} is no program" if given else "not found"
            advice = "apt-get install chromium, or playwright install chromium"
            yield CheckResult("Chromium", "fail", f"{found}, for {server.name}", advice)


def _playwrights_browser() -> str:
    """The Chromium that `playwright install` has put away, without starting Playwright."""
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    base = Path(given) if given not in ("", "0") else Path.home() / ".cache" / "ms-playwright"
    return str(next(iter(sorted(base.glob("chromium-*"), reverse=True)), "")) if base.is_dir() else ""


# Files


def _folder(folder: Path | None) -> Iterator[CheckResult]:
    title = "state folder"
    if folder is None:
        yield CheckResult(title, "warn", "this user has no home folder", "set state_dir in [gateway]")
        return
    try:
        try_writing(folder)
    except OSError as error:
        fault = explain(error, folder / "key" if is_missing(folder) else folder)
        yield CheckResult(title, "fail", fault.reason, f"{fault.hint}; or set state_dir in [gateway]")
        return
    if is_missing(folder):
        yield CheckResult(title, "ok", f"{folder}: made on first use")
        return
    if _open_to_others(folder):
        yield CheckResult(title, "warn", f"others can read {folder}", f"chmod 700 {folder}")
    else:
        yield CheckResult(title, "ok", str(folder))
    for secret in sorted({folder / "key", folder / "profiles.key"}):
        if os.path.isfile(secret) and _open_to_others(secret):
            yield CheckResult(title, "fail", f"others can read {secret}", f"chmod 600 {secret}")
    within = sorted(islice(_within(folder), MAX_LOOKED_AT))
    refused = [fault for path in within if (fault := refusal(path)) is not None]
    if refused:
        more = f", and {len(refused) - 1} more below {folder}" if len(refused) > 1 else ""
        hint = f"chown -R {current_user()} {folder}" if more else refused[0].hint
        yield CheckResult(title, "warn", f"{refused[0].reason}{more}", hint)
    free = shutil.disk_usage(folder).free
    if free < MIN_DISK:
        yield CheckResult(
            "disk", "warn", f"{format_size(free)} free in {folder}", "make room, or set state_dir and [store]"
        )
    else:
        yield CheckResult("disk", "ok", f"{format_size(free)} free")


def _within(folder: Path) -> Iterator[Path]:
    """What is in a folder, and in the folders there."""
    for path in folder.iterdir():
        yield path
        if os.path.isdir(path) and refusal(path) is None:
            yield from path.iterdir()


def _open_to_others(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _signing_key(config: "Config", key_file: Path | None) -> CheckResult:
    """The key that signs sessions and from which API keys are hashed. None is made here."""
    from ...state.store import StateError, is_shared
    from ...wire.seal import KEY_VARIABLE

    title = "signing key"
    if value := os.environ.get(KEY_VARIABLE, "").encode() if key_file is None else b"":
        return _judged_key(title, KEY_VARIABLE, value)
    try:
        path = key_file or default_key_file()
    except RuntimeError as error:
        return CheckResult(title, "warn", f"{error}: sessions end with the process", f"set {KEY_VARIABLE}")
    try:
        shared = is_shared(config.state.url)
    except StateError:
        shared = False  # the check of the store says so
    if is_missing(path):
        if shared:
            found = f"{path} does not exist, and a shared state needs one key for all gateways"
            return CheckResult(title, "warn", found, f"set {KEY_VARIABLE} for each of them; {CREATE_HINT}")
        return CheckResult(title, "ok", f"{path}: made on first use")
    try:
        value = path.read_bytes().strip()
    except OSError as error:
        fault = explain(error, path)
        return CheckResult(title, "fail", fault.reason, fault.hint)
    judged = _judged_key(title, str(path), value)
    if judged.level == "ok" and _open_to_others(path):
        return CheckResult(title, "warn", f"others can read {path}", f"chmod 600 {path}")
    return judged


def _judged_key(title: str, source: str, value: bytes) -> CheckResult:
    from ...wire.seal import MIN_KEY_BYTES

    if len(value) < MIN_KEY_BYTES:
        found = f"{source} has {len(value)} bytes and needs at least {MIN_KEY_BYTES}"
        return CheckResult(title, "fail", found, CREATE_HINT)
    return CheckResult(title, "ok", f"{source}, {len(value)} bytes")


# Stores


async def _stores(config: "Config", folder: Path | None) -> list[CheckResult]:
    from ...vault.factory import needs_vault

    state = await _asked("state store", lambda: _ask_state(config, folder))
    if state.level == "ok" and (lost := _lost_with_memory(config)):
        found = f"memory: {' and '.join(lost)} end with the process"
        state = CheckResult(state.check, "warn", found, 'url = "sqlite:" in [state] keeps them')
    return [
        state,
        *(
            [await _asked("result store", lambda: _ask_results(config, folder))]
            if config.results.shape
            else []
        ),
        *([await _asked("vault", lambda: _ask_vault(config, folder))] if needs_vault(config) else []),
        *([await _asked("audit", lambda: _ask_audit(config, folder))] if config.audit.is_on else []),
    ]


def _logins(config: "Config") -> Iterator[CheckResult]:
    from ..serving.vault import unconnected_servers

    for name, reason in unconnected_servers(config).items():
        yield CheckResult(f"login {name}", "warn", reason, f"toolyard login {name}")


async def _asked(title: str, ask: Callable[[], Awaitable[str]]) -> CheckResult:
    """Try a store once, within a time limit. Their errors quote no passwords."""
    from ...artifacts.store import ArtifactStoreError
    from ...audit.store import AuditStoreError
    from ...config import ConfigError
    from ...state.store import StateError
    from ...telemetry.redaction import redact
    from ...vault.base import VaultError

    began = time.monotonic()
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await ask()
    except TimeoutError:
        return CheckResult(title, "fail", f"no answer within {ANSWER_SECONDS:g} s", _REACHABLE)
    except OSError as error:
        fault = explain(error, Path(error.filename or "."))
        return CheckResult(title, "fail", fault.reason, fault.hint)
    except ArtifactStoreError as error:
        return CheckResult(title, "fail", redact(error.details or error.reason), error.hint or _REACHABLE)
    except (StateError, ConfigError, AuditStoreError, VaultError) as error:
        return CheckResult(title, "fail", redact(error.message), error.hint or _REACHABLE)
    return CheckResult(title, "ok", f"{found}, {(time.monotonic() - began) * 1000:.0f} ms")


def _lost_with_memory(config: "Config") -> list[str]:
    """What a gateway that others use should not forget, if its state is in memory. Its keys are not."""
    from ...state.store import kind_of

    if kind_of(config.state.url) != "memory":
        return []
    lost = ["sessions and approvals"] if config.auth.knows_callers else []
    return lost + (["the counts of limits"] if config.limits.rules else [])


async def _ask_state(config: "Config", folder: Path | None) -> str:
    from ...state.factory import open_state
    from ...state.store import file_of, kind_of, try_state

    kind = kind_of(config.state.url)
    if kind == "memory":
        return "memory: ends with the process"
    if kind == "sqlite" and is_missing(file := file_of(config.state.url, folder)):
        await asyncio.to_thread(try_writing, file.parent)
        return "sqlite: made on first use"
    state = open_state(config.state.url, folder)
    try:
        await try_state(state)
    finally:
        await state.close()
    return f"{kind} answers, and takes an entry"


async def _ask_results(config: "Config", folder: Path | None) -> str:
    from ...artifacts.factory import open_store
    from ...artifacts.store import ResultLinks
    from ...wire.seal import Sealer

    store = open_store(config.store, folder, ResultLinks(Sealer(), config.store.public_url))
    try:
        await store.check()
    finally:
        await store.close()
    return "local takes a file" if store.type == "local" else f"{store.type} answers"


async def _ask_vault(config: "Config", folder: Path | None) -> str:
    from ...vault.factory import check_vault, sources

    await check_vault(config, folder)
    return f"its key is in {sources(config, folder)[0].shown}"


async def _ask_audit(config: "Config", folder: Path | None) -> str:
    from ...audit.chain import ChainKey
    from ...audit.log import open_audit_store

    kind = _scheme(config.audit.url)
    store = open_audit_store(config.audit, folder, ChainKey(None))
    try:
        if kind == "sqlite" and is_missing(Path(store.place)):
            await asyncio.to_thread(try_writing, Path(store.place).parent)
            return "sqlite: made on first use"
        await store.check()
    finally:
        await store.close()
    return f"{kind} takes a record"


# The machine


def _port(config: "Config") -> CheckResult:
    host, port = config.gateway.host, config.gateway.port
    title = f"port {port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        with socket.socket(family, kind, protocol) as probe:
            if os.name == "posix":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as error:
        return CheckResult(
            title, "fail", f"{host!r} is not an address: {error.strerror}", "correct host in [gateway]"
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE and (who := _toolyard_at(host, port)):
            return CheckResult(title, "ok", f"{who} listens there already")
        advice = "stop the program that has it, or set port in [gateway]"
        if error.errno == errno.EACCES:
            advice = "choose a port from 1024 on"
        return CheckResult(title, "fail", f"{host}: {(error.strerror or str(error)).lower()}", advice)
    return CheckResult(title, "ok", f"free on {host}")


def _toolyard_at(host: str, port: int) -> str:
    """Whether it is a gateway of ours that has the port."""
    import http.client

    connection = http.client.HTTPConnection(
        {"0.0.0.0": "127.0.0.1", "": "127.0.0.1"}.get(host, host), port, timeout=2
    )
    try:
        connection.request("GET", "/health/live")
        answer = connection.getresponse()
        return "a Toolyard" if answer.status == 200 and answer.read(200) == b'{"status":"ok"}' else ""
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def _clock() -> CheckResult:
    """Tokens, keys and links expire by it. It cannot be before this package was installed."""
    shown = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    installed = Path(__file__).stat().st_mtime
    if time.time() < installed - DAY:
        return CheckResult("clock", "fail", f"{shown} is before this package was installed", "set the clock")
    if (
        shutil.which("timedatectl")
        and _first_line(["timedatectl", "show", "-p", "NTPSynchronized", "--value"]) == "no"
    ):
        return CheckResult(
            "clock",
            "warn",
            f"{shown}, not synchronised",
            "timedatectl set-ntp true: tokens expire by the clock",
        )
    return CheckResult("clock", "ok", shown)


def _open_files() -> Iterator[CheckResult]:
    try:
        import resource
    except ImportError:  # Windows
        return
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < MIN_FILES:
        allowed = "" if most < MIN_FILES else "ulimit -n 4096, or "
        yield CheckResult(
            "open files",
            "warn",
            f"at most {limit}: each connection is one",
            f"{allowed}LimitNOFILE= in the unit",
        )


def _proxies(config: "Config") -> Iterator[CheckResult]:
    from ...config import Http

    names = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
    if not names:
        yield CheckResult("proxies", "ok", "no proxy variables")
        return
    remote = [
        server.name
        for server in config.servers
        if isinstance(server.where, Http) and not _is_near(server.where.url)
    ]
    said = f"{', '.join(names)} set: programs that servers start inherit them"
    if remote:
        found = f"{said}, but {', '.join(remote)} are reached without a proxy"
        yield CheckResult("proxies", "warn", found, "toolyard check --connect shows whether that works")
    else:
        yield CheckResult("proxies", "ok", said)


def _is_near(url: str) -> bool:
    from ..serving.http import is_loopback

    return is_loopback(urlsplit(url).hostname or "")
