"""`toolyard check`: whether the configuration can be used, and with --connect whether each server can."""

import asyncio
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..client.connection import DISABLED, READY, UNUSABLE, UserInterface, wait_for_servers
from ..configuration import loader
from ..process import log_to_stderr, stdout_for_data
from ..ui.messages import CommandError, hint, one_line
from ..ui.output import print_json
from ..ui.tables import counted, print_table
from ..ui.terminal import Terminal
from .options import config_option, debug_option, json_option

if TYPE_CHECKING:
    from ...app import Gateway
    from ...catalogue.catalogue import Catalogue, ServerCatalogue
    from ...config import Config, ServerConfig
    from ...config.diagnosis import ConfigFinding, Diagnosis
    from ...config.models import EnvFile
    from ...policy.access import AccessPolicy

BUNDLED_SECONDS = 10.0
FAILED = 1
"""The exit status if something has to be corrected."""


class CheckedServer(Struct, frozen=True):
    """One server after an attempt to use it."""

    name: str
    state: str
    tools: int | None = None
    seconds: float | None = None
    problem: str = ""
    hint: str = ""


@click.command("check", short_help="Check the configuration, and with --connect every server.")
@click.option("--connect", is_flag=True, help="Also start or reach every server, and count its tools.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --connect: how long to wait for servers. Default: until each has started or failed.",
)
@config_option
@json_option
@debug_option
def command(connect: bool, timeout: float | None, config: Path | None, as_json: bool, debug: bool) -> None:
    """Check the configuration file and the files it includes, without starting anything.

    Names every mistake with its place and what to do: tables, keys, values, variables that are not set,
    programs that are not installed, rules of [access]. With --connect every server is started or reached.
    Exit status: 0, or 1 if something has to be corrected. Warnings do not count.
    """
    from ...config.diagnosis import diagnose
    from ...vault.references import resolve

    file = loader.config_file(None, config)
    if file is None:
        raise CommandError("no configuration", "`toolyard add` makes one, or name it with --config FILE")
    found = diagnose(file, resolve=resolve)
    findings = list(found.findings)
    servers: list[CheckedServer] = []
    if found.config is not None:
        unusable = list(_vault_findings(found.config, file))
        findings += unusable
        # First, because lists that are read now are those that the patterns of rules are held against.
        servers = _try_servers(found.config, timeout, debug) if connect and not unusable else []
        if not connect and found.config.access.rules:
            _read_bundled(found.config, debug)
        findings += _further_findings(found.config, file)
        if not unusable:
            findings += _login_findings(found.config, file)
    if as_json:
        print_json(_as_json(found, findings, servers))
    else:
        _print_findings(file, found.files, found.config, findings)
        if servers:
            click.echo()
            _print_servers(servers)
        elif not connect and found.config is not None and (unread := _in_question(found.config)):
            hint(f"no rule was held against the unknown tools of {', '.join(unread)}; --connect reads them")
        elif connect and any(one.level == "error" for one in findings):
            hint("no server was tried: correct the file first")
    if any(one.level == "error" for one in findings) or any(one.problem for one in servers):
        raise click.exceptions.Exit(FAILED)


# The file


def _further_findings(config: "Config", file: Path) -> "Iterator[ConfigFinding]":
    """What the tables mean together, and what the rules say."""
    from ...config import ConfigError
    from ...config.diagnosis import ConfigFinding
    from ...config.files import display_path
    from ...limits import Limiter
    from ...policy.access import AccessPolicy
    from ...state.memory import MemoryState
    from ..serving.http import is_loopback

    name = display_path(file)
    yield from _module_findings(config, name)
    beside = file.parent / ".env"
    if config.broken and config.env_file is None and beside.is_file():
        reason = f"{display_path(beside)} is not read"
        yield ConfigFinding("warning", name, reason, 'env_file = ".env" at the top reads its variables')
    if not config.servers and not config.broken:
        yield ConfigFinding("warning", name, "has no servers", "`toolyard add` adds one")
    if not is_loopback(config.gateway.host) and not config.auth.knows_callers:
        yield ConfigFinding(
            "error",
            f"{name}: [gateway]",
            f"other machines reach {config.gateway.host}, and there is no way to know who calls",
            "add [auth] and keys = true, or serve with --open",
        )
    elif config.gateway.public_url and not config.auth.knows_callers:
        yield ConfigFinding(
            "warning",
            f"{name}: [gateway]",
            "has a 'public_url', and there is no way to know who calls",
            "add [auth] and keys = true, unless the proxy in front knows callers",
        )
    if config.auth.server is not None and config.gateway.public_url and not config.gateway.proxies:
        yield ConfigFinding(
            "warning",
            f"{name}: [gateway]",
            "has a 'public_url' and no 'proxies': wrong passwords of all clients are counted together",
            'name the proxy in front, as in proxies = ["127.0.0.1"]',
        )
    try:
        Limiter(config.limits, MemoryState(), config.access.groups)
    except ConfigError as error:
        yield ConfigFinding("error", f"{name}: [limits]", error.message, error.hint or "")
    try:
        policy = AccessPolicy(config.access)
    except ConfigError as error:
        yield ConfigFinding("error", f"{name}: [access]", error.message, error.hint or "")
        return
    for line in policy.warnings:
        yield ConfigFinding("warning", f"{name}: [access]", line)
    yield from _unmatched(config, policy, name)


def _module_findings(config: "Config", name: str) -> "Iterator[ConfigFinding]":
    """Modules that do not exist. Those that do are not run."""
    from ...config import InProcess
    from ...config.diagnosis import ConfigFinding
    from ...config.errors import nearest
    from ...config.servers import BUNDLED
    from ...kit.loader import LoadError, look_for

    for server in config.servers:
        if isinstance(server.where, InProcess):
            try:
                look_for(server.where.module)
            except LoadError as error:
                bundled = nearest(server.where.module, BUNDLED)
                hint = " ".join([bundled] if bundled else error.hints)
                yield ConfigFinding("error", f"{name}: [servers.{server.name}]", error.message, hint)


def _vault_findings(config: "Config", file: Path) -> "Iterator[ConfigFinding]":
    """Whether the vault can be used, if something needs it."""
    from ...config.diagnosis import ConfigFinding
    from ...config.files import display_path
    from ..serving.vault import require_vault

    try:
        require_vault(config)
    except CommandError as error:
        yield ConfigFinding("error", f"{display_path(file)}: [vault]", error.message, " ".join(error.hints))


def _login_findings(config: "Config", file: Path) -> "Iterator[ConfigFinding]":
    from ...config.diagnosis import ConfigFinding
    from ...config.files import display_path
    from ..serving.vault import unconnected_servers

    for name, reason in unconnected_servers(config).items():
        place = f"{display_path(file)}: [servers.{name}]"
        yield ConfigFinding("warning", place, reason, f"toolyard login {name}")


def _last_seen(config: "Config") -> "Catalogue":
    """The lists of the last run, as far as there are any."""
    from ...catalogue.catalogue import Catalogue
    from ...catalogue.store import CatalogueStore
    from ...config.files import state_folder

    catalogue, store = Catalogue(), CatalogueStore(state_folder(config))
    for server in config.servers:
        store.load(server, catalogue.add(server))
    return catalogue


def _unmatched(config: "Config", policy: "AccessPolicy", name: str) -> "Iterator[ConfigFinding]":
    """Patterns of [access] that match nothing, as far as the lists of the servers are known."""
    from ...catalogue.items import KINDS
    from ...config.diagnosis import ConfigFinding
    from ...policy.review import unmatched_patterns

    catalogue = _last_seen(config)
    servers = [*(server.name for server in (*config.servers, *config.broken)), *config.disabled]
    unread = [*_unread(catalogue), *(server for server in servers if server not in catalogue.servers)]
    entries = {kind: catalogue.all(kind) for kind in KINDS}
    for one in unmatched_patterns(policy, servers, entries, unread):
        place = f"{name}: [access] {one.rule}"
        yield ConfigFinding("warning", place, f"{one.verb} {one.pattern!r} matches nothing", one.hint)


def _unread(catalogue: "Catalogue") -> list[str]:
    return [server.name for server in catalogue.servers.values() if not server.was_read]


def _in_question(config: "Config") -> list[str]:
    """Servers that were never read, and that a rule says something about."""
    from ...config import ConfigError
    from ...policy.access import AccessPolicy
    from ...policy.review import servers_in_question

    try:
        return servers_in_question(AccessPolicy(config.access), _unread(_last_seen(config)))
    except ConfigError:  # named among the findings
        return []


def _read_bundled(config: "Config", debug: bool) -> None:
    """Read the lists of bundled servers, which starts nothing and runs no code but ours."""
    from ...config import InProcess

    bundled = tuple(
        server
        for server in config.servers
        if isinstance(server.where, InProcess) and server.where.module.startswith("toolyard.servers.")
    )
    if bundled:
        _try_servers(replace(config, servers=bundled, broken=(), disabled=()), BUNDLED_SECONDS, debug)


def _print_findings(
    file: Path, files: tuple[Path, ...], config: "Config | None", findings: "list[ConfigFinding]"
) -> None:
    from ...config.files import display_path

    errors = sum(one.level == "error" for one in findings)
    counts = [counted(errors, "errors")] if errors else []
    counts += [counted(len(findings) - errors, "warnings")] if len(findings) > errors else []
    if config is not None:
        counts.insert(0, counted(len(config.servers), "servers"))
    if len(files) > 1:
        counts.insert(0, counted(len(files), "files"))
    verdict = "ok" if not errors else "not usable" if config is None else "needs correction"
    click.echo(f"{display_path(file)}: {', '.join([verdict, *counts])}")
    if config is not None and (variables := config.env_file) is not None:
        click.echo(f"{display_path(variables.path)}: {_variables_line(variables)}")
    if findings:
        rows = [
            (one.level, one_line(one.place), one_line(one.problem), one_line(one.hint)) for one in findings
        ]
        click.echo()
        print_table(("", "where", "what is wrong", "what to do"), rows)


def _variables_line(variables: "EnvFile") -> str:
    """`2 variables: A, B; already set: C`"""
    names = f": {', '.join(variables.names)}" if variables.names else ""
    others = f"; already set: {', '.join(variables.already_set)}" if variables.already_set else ""
    return f"{counted(len(variables.names), 'variables')}{names}{others}"


# The servers


def _try_servers(config: "Config", timeout: float | None, debug: bool) -> list[CheckedServer]:
    """Start or reach each, without the stores of the file: those say nothing about a server."""
    from ...config import Config

    own = tuple(replace(server, start="eager") for server in config.servers)
    alone = Config(
        servers=own,
        gateway=replace(config.gateway, view="all", server="", list_wait=0.0),
        results=replace(config.results, shape=False),
        files=config.files,
    )
    if any(server.auth is not None for server in own):  # their logins and keys are in the vault
        alone = replace(alone, state=config.state, vault=config.vault)
    # What goes wrong with a server is shown in the table, not as a log line too.
    log_to_stderr(True) if debug else logging.getLogger("toolyard").setLevel(logging.CRITICAL)
    with Terminal() as user, stdout_for_data():
        gateway = loader.make_gateway(alone, None)
        times = asyncio.run(_settle(gateway, math.inf if timeout is None else timeout, user))
        servers = [
            _checked(server, gateway.catalogue.servers[server.name], times.get(server.name)) for server in own
        ]
    for item in config.broken:
        servers.append(CheckedServer(item.name, UNUSABLE, problem=item.reason, hint="correct its entry"))
    servers += [CheckedServer(name, DISABLED) for name in config.disabled]
    return servers


async def _settle(gateway: "Gateway", wait: float, user: UserInterface) -> dict[str, float]:
    """Wait until each server was tried; how long each took."""
    times: dict[str, float] = {}

    async def take_time(server: "ServerCatalogue", began: float) -> None:
        await server.settled.wait()
        times[server.name] = time.monotonic() - began

    try:
        began = time.monotonic()
        await gateway.start()
        servers = list(gateway.catalogue.servers.values())
        watching = [asyncio.create_task(take_time(server, began)) for server in servers]
        await wait_for_servers(servers, wait, user)
        await asyncio.sleep(0)
        for task in watching:
            task.cancel()
    finally:
        await gateway.close()
    return times


def _checked(config: "ServerConfig", server: "ServerCatalogue", seconds: float | None) -> CheckedServer:
    tools = len(server.entries["tools"])
    if seconds is None:
        return CheckedServer(
            config.name, "starting", problem="no answer in time", hint="--timeout SECONDS waits longer"
        )
    seconds = round(seconds, 2)
    if server.fault is not None:
        return CheckedServer(config.name, "down", None, seconds, server.fault, _advice(config))
    return CheckedServer(config.name, READY, tools, seconds)


def _advice(config: "ServerConfig") -> str:
    """What to look at. Arguments and the rest of an address may hold secrets, and are not repeated."""
    from urllib.parse import urlsplit

    from ...config import Http, InProcess, Stdio

    match config.where:
        case Stdio(command=program):
            return f"run {program} with its arguments by hand, and read what it writes"
        case Http(url=url):
            return f"is {urlsplit(url).hostname} reachable from here, and are 'url' and 'headers' right?"
        case InProcess(module=module):
            return f"toolyard list {module} --debug"
        case _:
            return "is its key valid?"


def _print_servers(servers: list[CheckedServer]) -> None:
    rows = [
        (
            one_line(one.name),
            one.state,
            "" if one.tools is None else str(one.tools),
            "" if one.seconds is None else f"{one.seconds:.2f} s",
            one_line(one.problem),
            one_line(one.hint),
        )
        for one in servers
    ]
    print_table(("server", "state", "tools", "time", "what is wrong", "what to do"), rows)


def _as_json(
    found: "Diagnosis", findings: "list[ConfigFinding]", servers: list[CheckedServer]
) -> dict[str, object]:
    failed = any(one.level == "error" for one in findings) or any(one.problem for one in servers)
    return {
        "ok": not failed,
        "files": [str(path) for path in found.files],
        "env_file": to_builtins(None if found.config is None else found.config.env_file, enc_hook=str),
        "findings": to_builtins(findings),
        "servers": to_builtins(servers),
    }
