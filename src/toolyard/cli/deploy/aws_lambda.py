"""`toolyard deploy lambda`: servers as one function of AWS Lambda, with an address of its own."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import target as targets
from ..commands.options import debug_option
from ..ui.messages import CommandError, warn
from .selection import SelectedServer, select_server
from .template import FunctionPlan, render_template

if TYPE_CHECKING:
    from ...kit import Server

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# What CloudWatch takes.
LOG_DAYS = ("1", "3", "5", "7", "14", "30", "60", "90", "120", "150", "180", "365", "400", "545", "731",
            "1096", "1827", "2192", "2557", "2922", "3288", "3653")  # fmt: skip
NAME = re.compile(r"[A-Za-z0-9-]{1,64}")


@click.command("lambda", short_help="Make an AWS Lambda function of servers.")
@click.argument("servers", nargs=-1, required=True, metavar="SERVER...")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/lambda"),
    show_default=True,
    help="The folder for function.zip and template.yaml.",
)
@click.option("--python", type=click.Choice(PYTHONS), default="3.12", show_default=True, help="The runtime.")
@click.option("--arch", type=click.Choice(["x86_64", "arm64"]), default="x86_64", show_default=True)
@click.option("--stream", is_flag=True, help="Send events while a call runs, instead of all at its end.")
@click.option("--name", help="The function's name; SERVER-mcp when there is none.")
@click.option("--memory", type=click.IntRange(128, 10240), default=512, show_default=True, help="In MB.")
@click.option("--timeout", type=click.IntRange(1, 900), default=30, show_default=True, help="In seconds.")
@click.option(
    "--concurrency",
    type=click.IntRange(0, 10000),
    default=10,
    show_default=True,
    help="How many requests are served at once at most, set aside for this function; 0: no limit.",
)
@click.option(
    "--log-days",
    type=click.Choice(LOG_DAYS),
    default="30",
    metavar="DAYS",
    show_default=True,
    help="How long logs are kept.",
)
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the server, given to it as a variable; SERVER.NAME=VALUE with several servers.",
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
    no_lint: bool,
    debug: bool,
) -> None:
    """Make a function of AWS Lambda: a zip with these servers, and a template to deploy it with.

    SERVER is one that comes with Toolyard, package.module:attribute, path/to/file.py:attribute, or a table of
    a REST API (.toml). Nothing is uploaded: the commands for that are printed.
    """
    from . import function_zip, report, selection
    from . import template as linting

    if not no_lint:
        linting.require_linter()
    chosen = [select_server(server) for server in dict.fromkeys(servers)]
    given = selection.read_options(options, chosen)
    loaded = [_load(server, given[server.name], debug) for server in chosen]
    _refuse_same_names(loaded)
    found = selection.option_variables({server.name: _prefix(server) for server in chosen}, given)
    plan = FunctionPlan(
        name=_name(name or f"{chosen[0].name}-mcp"),
        python=python,
        arch=arch,
        servers=tuple(server.name for server in loaded),
        memory=memory,
        timeout=timeout,
        concurrency=concurrency,
        log_days=int(log_days),
        stream=stream,
        variables=found.plain,
        secrets=tuple(found.secret),
    )
    work = function_zip.BuildRequest(chosen, python, arch, {**found.plain, **found.secret})
    output.mkdir(parents=True, exist_ok=True)
    file = output / "template.yaml"
    with report.report_steps() as tell:
        made = function_zip.build_function(work, output, tell)
        file.write_text(render_template(plan), "utf-8")
        if not no_lint:
            tell("cfn-lint")
            linting.lint(file)
    report.print_archive(made, file, not no_lint)
    report.print_next_steps(plan, file, loaded)
    _warn_if_open(loaded)


def _load(server: SelectedServer, options: dict[str, Any], debug: bool) -> "Server":
    """It must work here before it is sent elsewhere; and it says which key callers bring."""
    return targets.load(server.target, debug, options)


def _refuse_same_names(servers: "list[Server]") -> None:
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"two servers are called {name!r}, and each needs an address of its own")


def _prefix(server: SelectedServer) -> str:
    """What the names of its variables begin with, as its module says; it has been loaded by now."""
    from ...kit.loader import ENVIRONMENT

    return getattr(sys.modules.get(server.module), ENVIRONMENT, "")


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise CommandError(f"{name!r} is no name for a function", "letters, digits and hyphens, 64 at most")
    return name


def _warn_if_open(servers: "list[Server]") -> None:
    for server in servers:
        if server.caller_keys is None:
            warn(f"whoever knows the address can use {server.name!r}: it asks its callers for no key")
