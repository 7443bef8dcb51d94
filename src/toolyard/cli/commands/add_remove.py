"""`toolyard add` and `toolyard remove`: put a server into the configuration file, or take it out."""

import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from ...config import Config
from ...config.errors import ConfigValueError, nearest_or_all
from ...config.names import check_server_name
from ...config.servers import OWN_PROGRAM, is_table
from ...upstream.errors import WANTS_LOGIN
from ..client.connection import READY, ConnectOptions
from ..configuration.file import ConfigFile, config_path, edited_file_option, secrets_in
from ..json_values import as_list
from ..presets.adding import (
    Addition,
    RecipeOptions,
    addition,
    advise,
    approve,
    find_preset,
    install,
    read_recipe,
    shown_source,
)
from ..presets.listing import show as show_presets
from ..presets.recipe import ServerRecipe
from ..process import stdout_for_data
from ..ui.arguments import is_utf8
from ..ui.messages import CommandError, hint, warn
from ..ui.tables import SECTIONS, counted
from ..ui.terminal import Terminal
from . import completion
from .options import debug_option, json_option

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
NOTHING_WRITTEN = "nothing was written; --no-check adds it without trying it"
INSTALL_HINT = "install it, or give its full path"
FORMS = "toolyard add NAME COMMAND [ARGS...], or NAME URL, or NAME --module MODULE:ATTRIBUTE, or PRESET"


class AddCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            advice = "put -- before a command that has options: toolyard add NAME -- COMMAND --its-option"
            near = [f"did you mean {name!r}?" for name in (error.possibilities or [])[:1]]
            raise CommandError(f"no option {error.option_name!r}", *near, advice) from None


@click.command("add", cls=AddCommand, short_help="Add a server to the configuration.")
@click.argument("name", required=False, shell_complete=completion.presets)
@click.argument("words", nargs=-1, metavar="[COMMAND [ARGS]... | URL]")
@click.option("--list", "listed", is_flag=True, help="Show the presets, with all of the words in them.")
@click.option("--from", "source", metavar="FILE|URL", help="A server.json, as the MCP registry has them.")
@click.option(
    "--via",
    metavar="WAY",
    help="With --from: remote, package, or one of its URLs or packages. Default: the URL if it has one.",
)
@click.option("--as", "called", metavar="NAME", help="The name in the configuration, for a preset or --from.")
@click.option("--version", metavar="V", help="Another version of a preset's package.")
@click.option("--save-secrets", is_flag=True, help="Write secrets that you type into the file.")
@click.option("--module", metavar="M", help="A module to run in process: a TARGET as for `serve`.")
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="K=V",
    help="A setting of the module or preset; may be repeated.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="K=V",
    help="An environment variable for the command; may be repeated.",
)
@click.option("--cwd", metavar="FOLDER", help="The working folder of the command.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="A header for the URL; may be repeated."
)
@click.option("--transport", type=click.Choice(["auto", "sse"]), help="sse: the URL speaks only HTTP+SSE.")
@click.option(
    "--description", metavar="TEXT", help="What the server is for; distinguishes servers of one kind."
)
@edited_file_option
@click.option("--force", is_flag=True, help="Replace a server of the same name.")
@click.option("--no-check", is_flag=True, help="Do not try the server first.")
@click.option("--yes", is_flag=True, help="With --from: add what starts a program without asking.")
@json_option
@debug_option
def add(
    name: str | None,
    words: tuple[str, ...],
    listed: bool,
    source: str | None,
    via: str | None,
    called: str | None,
    version: str | None,
    save_secrets: bool,
    module: str | None,
    options: tuple[str, ...],
    variables: tuple[str, ...],
    cwd: str | None,
    headers: tuple[str, ...],
    transport: str | None,
    description: str | None,
    config: Path | None,
    force: bool,
    no_check: bool,
    yes: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Add the server NAME: a COMMAND to start, a URL, a --module, or without these a preset.

    `toolyard add --list` shows the presets, which are started from environments of their own; what one needs
    is asked for, or given by --env and --option. --from adds what a server.json describes, after showing it.

    The server is started or connected to first; if that fails, nothing is written. Options of the command
    go after `--`: toolyard add git -- uvx mcp-server-git --repository . Variables such as '${TOKEN}' are
    replaced when the file is read.
    """
    given = (name or "", *words, *options, *variables, *headers)
    _check_text(
        (*given, module or "", cwd or "", description or "", called or "", source or "", version or "")
    )
    if listed:
        show_presets((*([name] if name else []), *words), as_json)
        return
    if as_json:
        raise CommandError("--json without --list", "toolyard add --list --json")
    recipe = _recipe(name, words, module, source, via)
    if recipe is None and (called or version or save_secrets or via):
        raise CommandError("--as, --version, --save-secrets and --via are for presets and --from")
    if yes and source is None:
        raise CommandError("--yes without --from", "nothing else is asked for")
    file = ConfigFile(config_path(config))
    added: Addition | None = None
    fields: dict[str, Any]
    if recipe is None:
        name = name or ""
        fields = _where(words, module, file.path.parent)
        fields |= {"options": _settings(options, module, file.path.parent)} if options else {}
        fields |= {"env": _pairs(variables, "=", "--env", "K=V")} if variables else {}
    else:
        name = called or recipe.name
        _refuse_taken(name, file, force)
        wanted = RecipeOptions(options, variables, version or "", save_secrets, later=no_check)
        added = addition(recipe, wanted, file.is_foreign)
        fields = added.fields
        os.environ.update(added.typed)  # for the first try, in this process only
    fields |= {"cwd": _from_here(cwd, file.path.parent)} if cwd else {}
    if headers:
        fields["headers"] = {**fields.get("headers", {}), **_pairs(headers, ":", "--header", "'NAME: VALUE'")}
    fields |= {"transport": transport} if transport else {}
    fields |= {"description": description} if description else {}
    _refuse_taken(name, file, force)
    replaced = name in file.servers
    file.set_server(name, file.adapt_fields(fields))
    checked = file.check()
    if added is not None and source is not None:
        approve(added, shown_source(source), yes)
    if added is not None and not no_check:
        install(added.recipe)
    found = "" if no_check else _try_server(name, fields, checked, debug)
    if found is None:
        fields["auth"], found = "oauth", ""
        file.set_server(name, file.adapt_fields(fields))
    file.save()
    done = f"replaced {name!r} in" if replaced else f"added {name!r} to"
    click.echo(f"{done} {file.label}{found}")
    if added is not None:
        advise(added)
    _advise(name, fields, checked, file)


def _recipe(
    name: str | None, words: tuple[str, ...], module: str | None, source: str | None, via: str | None
) -> ServerRecipe | None:
    """The recipe of a preset or a server.json; None if the words say it all."""
    if source is not None:
        if words or module:
            raise CommandError("--from and a command, URL or --module at once", "give one of them")
        return read_recipe(source, via or "", name or "")
    if name is None:
        raise CommandError("no name", FORMS, "toolyard add --list shows the presets")
    return None if words or module or not name else find_preset(name, FORMS)


def _try_server(name: str, fields: dict[str, Any], config: Config, debug: bool) -> str | None:
    """Start the server and count its items, as `: 12 tools`; CommandError if it does not work.

    None if it wants OAuth: it works as far as one can see before the login.
    """
    from ..client.connection import MountedSession  # 150 ms of CPU

    own = tuple(replace(server, start="eager") for server in config.servers if server.name == name)
    if not own:  # a variable is missing, and `_advise` names it
        return ", unchecked"
    _check_program(fields)
    # Alone, because an unreachable store of the file says nothing about this server.
    alone = Config(servers=own, gateway=replace(config.gateway, view="all"), files=config.files)
    where = ConnectOptions(None, None, None, (), 0.0, debug, wait=math.inf, fresh=True)
    with Terminal() as user, stdout_for_data():
        client = MountedSession(alone, user, where)
        try:
            (standing,) = client.about.servers
        finally:
            client.close()
    if standing.detail.startswith(WANTS_LOGIN):
        return None
    if standing.state != READY:
        raise CommandError(f"{name!r} does not work: {standing.detail}", NOTHING_WRITTEN)
    counts = [counted(len(standing.holds[kind]), title.lower()) for kind, title in SECTIONS.items()]
    return f": {counts[0]}" if standing.holds["tools"] else f": {', '.join(counts)}"


def _check_program(fields: dict[str, Any]) -> None:
    if program := _missing_program(fields):
        raise CommandError(f"no program {program!r} on PATH", INSTALL_HINT, NOTHING_WRITTEN)


def _missing_program(fields: dict[str, Any]) -> str:
    """The command, if it is not installed."""
    program = fields.get("command", "")
    is_known = program == OWN_PROGRAM or "${" in program
    is_missing = program and not is_known and shutil.which(os.path.expanduser(program)) is None
    return program if is_missing else ""


def _check_text(words: tuple[str, ...]) -> None:
    for word in words:
        if not is_utf8(word):
            raise CommandError(f"{word!r} is not UTF-8", "the file cannot hold other bytes")


def _where(words: tuple[str, ...], module: str | None, folder: Path) -> dict[str, Any]:
    if module is not None:
        if words:
            raise CommandError(f"a command ({words[0]!r}) and --module at once", "give one of them")
        is_file = ".py" in module or os.sep in module or is_table(module)
        return {"module": _from_here(module, folder) if is_file else module}
    if not words or not words[0]:
        raise CommandError("no command and no URL", FORMS)
    first, *rest = words
    if _ADDRESS.match(first):
        if rest:
            raise CommandError(f"{rest[0]!r} after a URL", "a URL takes no arguments; --header adds a header")
        return {"url": first}
    if is_table(first) and not rest and Path(first).is_file():
        return {"module": _from_here(first, folder)}
    program = os.path.abspath(first) if os.sep in first and Path(first).is_file() else first
    return {"command": program} | ({"args": rest} if rest else {})


def _settings(given: tuple[str, ...], module: str | None, folder: Path) -> dict[str, str]:
    pairs = _pairs(given, "=", "--option", "K=V")
    if module == "rest" and pairs.get("table"):
        pairs["table"] = _from_here(pairs["table"], folder)
    return pairs


def _from_here(path: str, folder: Path) -> str:
    """Make a typed path absolute, because the file resolves paths from its own folder."""
    if path.startswith(("~", "${")) or os.path.isabs(path) or folder == Path.cwd().resolve():
        return path
    return os.path.abspath(path)


def _pairs(given: tuple[str, ...], sign: str, option: str, form: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in given:
        key, found, value = pair.partition(sign)
        if not found or not key.strip():
            # The value is not quoted: it may be a secret.
            raise CommandError(f"{option} is not {form}", f"as in {option} {form}")
        pairs[key.strip()] = value.strip() if sign == ":" else value
    return pairs


def _refuse_taken(name: str, file: ConfigFile, force: bool) -> None:
    try:
        check_server_name(name)
    except ConfigValueError as error:
        raise CommandError(f"no server can have the name {name!a}", error.hint or FORMS) from None
    if name in file.servers:
        if not force:
            raise CommandError(f"{file.label} already has a server {name!r}", "--force replaces it")
        return
    if source := file.included_from(name):
        raise CommandError(
            f"{name!r} is taken: {file.label} includes it from {source}",
            f"choose another name, or `toolyard remove {name} --config {source}`",
        )


def _advise(name: str, fields: dict[str, Any], config: Config, file: ConfigFile) -> None:
    for broken in config.broken:
        if broken.name == name:
            warn(f"{name!r} cannot be used yet: {broken.reason}")
    if program := _missing_program(fields):
        warn(f"no program {program!r} on PATH", INSTALL_HINT)
    for key in secrets_in(fields):
        hint(f"{key!r} is stored in the file; '${{VARIABLE}}' instead keeps a secret out of it")
    if fields.get("auth") == "oauth":
        hint(f"it wants a login: `toolyard login {name}`")
        return
    hint(f"`toolyard list --config {file.label}` shows its tools; a running gateway reloads the file")


@click.command("remove", short_help="Remove a server from the configuration.")
@click.argument("name", shell_complete=completion.servers)
@edited_file_option
@debug_option
def remove(name: str, config: Path | None, debug: bool) -> None:
    """Remove the server NAME. Comments outside its entry stay."""
    file = ConfigFile(config_path(config))
    if file.is_new:
        raise CommandError(f"no file {file.label!r}", "--config FILE names another")
    if name not in file.servers:
        raise _unknown_server(name, file)
    loaded = file.is_loadable()
    package = _package(file.tables[file.servers[name]][name])
    file.remove_server(name)
    if loaded:
        file.check()
    file.save()
    click.echo(f"removed {name!r} from {file.label}")
    if not loaded:
        warn(f"{file.label} could not be loaded before the change", f"toolyard list --config {file.label}")
    if package:
        hint(f"its environment stays in the cache: `toolyard envs remove {package}` removes it")


def _package(fields: Mapping[str, Any]) -> str:
    """The package of a server that is started from an environment of ours."""
    args = [str(word) for word in as_list(fields.get("args"))]
    at = args.index("envs") if "envs" in args else len(args)
    return next((word for word in args[at:] if word.startswith(("npm:", "pypi:"))), "")


def _unknown_server(name: str, file: ConfigFile) -> CommandError:
    if source := file.included_from(name):
        return CommandError(
            f"{name!r} is not in {file.label} itself: it is included from {source}",
            f"`toolyard remove {name} --config {source}` removes it there",
        )
    known = list(file.servers)
    advice = nearest_or_all(name, known) if known else "it has no servers"
    return CommandError(f"no server {name!r} in {file.label}", advice)
