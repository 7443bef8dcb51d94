"""`toolyard deploy lambda`: package servers as one AWS Lambda function with its own URL."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..commands.options import debug_option, tools_option
from ..target import load
from ..ui.messages import CommandError, warn
from .selection import SelectedServer, select_server, short_name
from .template import FunctionPlan, lint, render_template, require_linter

if TYPE_CHECKING:
    from ...kit import Server

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The values that CloudWatch accepts.
LOG_DAYS = ("1", "3", "5", "7", "14", "30", "60", "90", "120", "150", "180", "365", "400", "545", "731",
            "1096", "1827", "2192", "2557", "2922", "3288", "3653")  # fmt: skip
NAME = re.compile(r"[A-Za-z0-9-]{1,64}")


@click.command("lambda", short_help="Package servers as an AWS Lambda function.")
@click.argument("servers", nargs=-1, required=True, metavar="SERVER...")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/lambda"),
    show_default=True,
    help="The folder for function.zip and template.yaml.",
)
@click.option(
    "--python",
    type=click.Choice(PYTHONS),
    default="3.12",
    show_default=True,
    help="The version of the runtime.",
)
@click.option(
    "--arch",
    type=click.Choice(["x86_64", "arm64"]),
    default="x86_64",
    show_default=True,
    help="The processor.",
)
@click.option("--stream", is_flag=True, help="Send events while a call runs, not only at its end.")
@click.option("--name", help="The function's name. Default: SERVER-mcp.")
@click.option(
    "--memory", type=click.IntRange(128, 10240), default=512, show_default=True, help="Memory in MB."
)
@click.option(
    "--timeout",
    type=click.IntRange(1, 900),
    default=30,
    show_default=True,
    help="Time limit of a request in seconds.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(0, 10000),
    default=10,
    show_default=True,
    help="Reserved concurrency: at most so many requests at once; 0: no limit.",
)
@click.option(
    "--log-days",
    type=click.Choice(LOG_DAYS),
    default="30",
    metavar="DAYS",
    show_default=True,
    help="How many days logs are kept.",
)
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the server, passed as a variable; SERVER.NAME=VALUE with several servers.",
)
@tools_option
@click.option(
    "--auth",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="A configuration: callers need a token of one of its [[auth.issuers]].",
)
@click.option("--no-lint", is_flag=True, help="Do not check the template with cfn-lint.")
@debug_option
def command(
    servers: tuple[str, ...],
    output: Path,
    python: str,
    arch: str,
    stream: bool,
    name: str | None,
    memory: int,
    timeout: int,
    concurrency: int,
    log_days: str,
    options: tuple[str, ...],
    tools: str | None,
    auth: Path | None,
    no_lint: bool,
    debug: bool,
) -> None:
    """Package servers as an AWS Lambda function: a zip, and a template to deploy it with.

    SERVER is a bundled server, package.module:attribute, path/to/file.py:attribute, or a table of a REST
    API (.toml). Nothing is uploaded: the command prints what to run next.
    """
    from . import function_zip, report, selection

    if not no_lint:
        require_linter()
    selected = [select_server(server) for server in dict.fromkeys(servers)]
    if tools is not None:
        if len(selected) > 1:
            raise CommandError(
                "--tools is for one server", f"name it: -o {selected[0].name}.tools={tools}, and so on"
            )
        options = (*options, f"tools={tools}")
    settings = selection.read_options(options, selected)
    # A server must load here before it is deployed; it also knows which key its callers send.
    loaded = [load(server.target, debug, settings[server.name]) for server in selected]
    _check_names(loaded)
    asked = None if auth is None else _read_auth(auth, loaded)
    variables = selection.option_variables({server.name: _prefix(server) for server in selected}, settings)
    plan = FunctionPlan(
        name=_name(name or f"{short_name(selected[0].name)[:60]}-mcp"),
        python=python,
        arch=arch,
        servers=tuple(server.name for server in loaded),
        memory=memory,
        timeout=timeout,
        concurrency=concurrency,
        log_days=int(log_days),
        stream=stream,
        variables=variables.plain,
        secrets=tuple(variables.secret),
    )
    request = function_zip.BuildRequest(
        selected, python, arch, {**variables.plain, **variables.secret}, asked
    )
    output.mkdir(parents=True, exist_ok=True)
    file = output / "template.yaml"
    with report.report_steps() as report_step:
        archive = function_zip.build_function(request, output, report_step)
        file.write_text(render_template(plan), "utf-8")
        if not no_lint:
            report_step("cfn-lint")
            lint(file)
    report.print_archive(archive, file, not no_lint)
    report.print_next_steps(plan, file, loaded)
    if asked is None:
        _warn_if_public(loaded)


def _read_auth(file: Path, servers: "list[Server]") -> bytes:
    """What the function has to know of `[auth]`, without secrets."""
    from msgspec import json
    from msgspec.structs import replace

    from ...app.function_callers import FunctionAuth, FunctionCallers
    from ...config.errors import ConfigError
    from ..configuration.loader import config_error, load_config

    config = load_config(file)
    auth = config.auth
    if not auth.issuers:
        raise CommandError(
            f"{file} has no [[auth.issuers]]",
            "a function accepts their tokens only: API keys and logins are in a store, which it has not",
        )
    for issuer in auth.issuers:
        if issuer.introspection_url:
            raise CommandError(
                f"the issuer {issuer.issuer!r} has an 'introspection_url'", "a function accepts JWTs only"
            )
    for server in servers:
        if server.caller_keys is not None and set(server.caller_keys.headers) == {"authorization"}:
            raise CommandError(
                f"callers send their key for {server.name!r} in Authorization, where the token is",
                "deploy it without --auth: the function requires the key",
            )
    if auth.keys or auth.server is not None or auth.proxy is not None:
        warn(f"of [auth] in {file} only 'issuers' and 'scopes' hold for the function")
    issuers = tuple(replace(issuer, client_id="", client_secret="") for issuer in auth.issuers)
    asked = FunctionAuth(issuers, auth.scopes, config.gateway.public_url)
    try:
        FunctionCallers(asked)  # whether it can be, and has its packages here
    except ConfigError as error:
        raise config_error(error) from None
    return json.encode(asked)


def _check_names(servers: "list[Server]") -> None:
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"two servers are called {name!r}; each needs its own path")


def _prefix(server: SelectedServer) -> str:
    """The prefix of its variables, as its module says; the module is loaded by now."""
    from ...kit.loader import ENVIRONMENT

    return getattr(sys.modules.get(server.module), ENVIRONMENT, "")


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} is not a valid function name", "letters, digits and hyphens, at most 64"
        )
    return name


def _warn_if_public(servers: "list[Server]") -> None:
    for server in servers:
        if server.caller_keys is None:
            warn(f"{server.name!r} is public: it does not require a key")
