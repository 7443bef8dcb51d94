"""What `toolyard add` does with a recipe: finds it, asks what it wants to know, makes the entry."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import click
from msgspec import Struct
from msgspec.structs import replace

from ...config.errors import nearest
from ...config.servers import BUNDLED
from ..configuration.file import hidden_unless_reference, shown_start
from ..ui.messages import CommandError, can_ask, hint, one_line, warn
from .catalogue import CHROMIUM, catalogue
from .environments import Package, parse_package
from .progress import make_environment
from .recipe import (
    FillOptions,
    Input,
    PackageStart,
    RemoteStart,
    ServerRecipe,
    Value,
    Values,
    Words,
    fields_of,
    fill,
    secret_variable,
)
from .server_json import recipe_from

MAX_BYTES = 4 * 1024 * 1024
"""Of a server.json, or a page of a registry's list."""
MAX_REDIRECTS = 5
FETCH_SECONDS = 30.0


class RecipeOptions(Struct, frozen=True):
    """What the command line says about a recipe."""

    options: tuple[str, ...]
    variables: tuple[str, ...]
    version: str
    save_secrets: bool
    later: bool
    """Whether the server is not tried, so that variables may be set later."""


class Addition(Struct, frozen=True):
    recipe: ServerRecipe
    fields: dict[str, Any]
    typed: dict[str, str]
    """Secrets that were typed for the first try, by variable."""
    shown: dict[str, Any]
    """The fields without secrets, for a person to look at."""


def find_preset(name: str, forms: str) -> ServerRecipe:
    """The preset of this name. The error for a name without a command says what was perhaps meant."""
    known = catalogue()
    if name in known:
        return known[name].recipe
    hints = [forms]
    problem = "no command and no URL"
    if name in BUNDLED:
        hints.insert(0, f"for the bundled server: toolyard add {name} --module {name}")
    elif near := nearest(name, list(known)):
        hints.insert(0, f"{near} It is a preset; `toolyard add --list` shows them all")
    elif name:
        problem = f"{problem}, and no preset {name!r}"
        hints.insert(0, "`toolyard add --list` shows the presets")
    raise CommandError(problem, *hints)


def read_recipe(source: str, via: str, name: str) -> ServerRecipe:
    """The recipe in a server.json, from a file or a URL."""
    shown = shown_source(source)
    data = asyncio.run(_fetch(source, shown)) if _is_url(source) else _read(Path(source))
    try:
        text = data.decode("utf-8-sig")
        found = json.loads(text)
    except UnicodeDecodeError:
        raise CommandError(f"{shown} is not UTF-8") from None
    except RecursionError:
        raise CommandError(f"{shown} is nested too deeply") from None
    except ValueError as error:
        raise CommandError(f"{shown} is not JSON: {error}", "--from takes a server.json") from None
    return recipe_from(found, shown, via, name)


def _read(file: Path) -> bytes:
    try:
        with file.expanduser().open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"cannot read {str(file)!r}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise CommandError(f"{str(file)!r} is over {MAX_BYTES >> 20} MiB", "--from takes a server.json")
    return data


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def shown_source(source: str) -> str:
    """The file, or the URL without what may be secret in it."""
    return _without_secrets(source) if _is_url(source) else source


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        raise CommandError("--from has a URL that is none") from None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


async def _fetch(url: str, shown: str) -> bytes:
    import aiohttp  # 150 ms

    # Not decompressed, so that a small response cannot become a huge one.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    wait = aiohttp.ClientTimeout(total=FETCH_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=wait, trust_env=True, auto_decompress=False) as session,
            session.get(url, headers=headers, max_redirects=MAX_REDIRECTS) as reply,
        ):
            if reply.status != 200:
                raise CommandError(f"{shown} answered {reply.status} {reply.reason or ''}".rstrip())
            if reply.headers.get("Content-Encoding", "identity") != "identity":
                raise CommandError(f"{shown} is compressed, which was not requested")
            found = bytearray()
            async for piece in reply.content.iter_chunked(65536):
                found += piece
                if len(found) > MAX_BYTES:
                    raise CommandError(f"{shown} is over {MAX_BYTES >> 20} MiB", "--from takes a server.json")
            return bytes(found)
    except TimeoutError:
        raise CommandError(f"{shown} did not answer within {FETCH_SECONDS:g} seconds") from None
    except aiohttp.TooManyRedirects:
        raise CommandError(f"{shown} redirects more than {MAX_REDIRECTS} times") from None
    except (aiohttp.ClientError, ValueError, OSError) as error:
        cause = getattr(error, "os_error", None) or error
        reason = getattr(cause, "strerror", None) or str(cause) or type(error).__name__
        raise CommandError(f"{shown} cannot be reached: {reason}") from None


def addition(recipe: ServerRecipe, options: RecipeOptions, foreign_file: bool) -> Addition:
    """The entry for a recipe. Asks on a terminal for what is missing."""
    recipe = _at_version(recipe, options.version)
    inputs = {one.name: one for one in recipe.inputs}
    given, extra = _given(options, inputs)
    filled = fill(
        recipe,
        FillOptions(
            given=given,
            environment=os.environ,
            ask=(lambda one: _ask(one, recipe)) if can_ask() else None,
            later=options.later,
            save_secrets=options.save_secrets,
        ),
    )
    # Other programs look for `toolyard` on a PATH of their own.
    own = (sys.executable, "-m", "toolyard") if foreign_file else ("toolyard",)
    fields = fields_of(recipe, filled.values, own)
    shown = fields_of(recipe, _without_typed(filled.values, inputs), own)
    if extra:
        if isinstance(recipe.start, RemoteStart):
            raise CommandError(
                f"--env {next(iter(extra))}: {recipe.name!r} is at a URL", "it has no variables"
            )
        fields["env"] = {**fields.get("env", {}), **extra}
        typed = {name: hidden_unless_reference(value) for name, value in extra.items()}
        shown["env"] = {**shown.get("env", {}), **typed}
    if CHROMIUM in inputs and CHROMIUM not in filled.values:
        warn("no Chromium on PATH", "apt-get install chromium, or -o chromium=/its/path")
    return Addition(recipe, fields, filled.typed, shown)


def _without_typed(values: Values, inputs: Mapping[str, Input]) -> Values:
    """The values with `***` for secrets that a person gave; those of the file stay, to be seen."""

    def shown(name: str, one: Value) -> Value:
        is_typed = inputs[name].secret and one.refers
        return replace(one, text=hidden_unless_reference(one.text)) if is_typed else one

    return {name: tuple(shown(name, one) for one in found) for name, found in values.items()}


def approve(added: Addition, source: str, yes: bool) -> None:
    """Show what a stranger's file would start or reach, and ask before anything is installed or written."""
    recipe, start = added.recipe, added.recipe.start
    is_remote = isinstance(start, RemoteStart)
    told = shown_start(added.shown)
    if yes or not can_ask():
        if not yes and not is_remote:
            raise CommandError(
                f"{source} would start a program with your rights: {told}",
                "--yes adds it, if you trust it; a terminal asks",
            )
        return
    click.echo(f"{source} says that {recipe.name!r} is {'at' if is_remote else 'started by'}", err=True)
    click.echo(f"  {told}", err=True)
    if isinstance(start, PackageStart):
        click.echo(f"  and {start.package} is installed for it, with the packages that it needs", err=True)
    risk = "It gets what your agents send it." if is_remote else "It runs with your rights."
    if not click.confirm(f"{risk} Add it?", default=False, err=True):
        raise CommandError(f"{recipe.name!r} was not added", "nothing was installed, started or written")


def _at_version(recipe: ServerRecipe, version: str) -> ServerRecipe:
    if not version:
        return recipe
    start = recipe.start
    if not isinstance(start, PackageStart):
        raise CommandError(f"{recipe.name!r} is no package, so that it has no version")
    return replace(recipe, start=replace(start, package=_package_at(start.package, version)))


def _package_at(package: Package, version: str) -> Package:
    try:
        return parse_package(str(replace(package, version=version)))
    except CommandError:
        raise CommandError(f"--version {version!r} is not an exact version", "as in 1.2.3") from None


def _given(options: RecipeOptions, inputs: Mapping[str, Input]) -> tuple[dict[str, Words], dict[str, str]]:
    """The values of inputs, and variables that are none of them."""
    given: dict[str, Words] = {}
    extra: dict[str, str] = {}
    for name, pairs in (("--option", options.options), ("--env", options.variables)):
        for pair in pairs:
            key, found, value = pair.partition("=")
            if not found or not key.strip():
                # The value is not quoted: it may be a secret.
                raise CommandError(f"{name} is not K=V", f"as in {name} K=V")
            if name == "--env" and key not in inputs:
                extra[key] = value
            elif key in given and not inputs[key].repeated:
                raise CommandError(f"{key!r} is given twice", "give it once")
            else:
                given[key] = (*given.get(key, ()), value)
    return given, extra


def _ask(one: Input, recipe: ServerRecipe) -> Words:
    """Ask on the terminal. Nothing for a secret means that its variable will be set later."""
    what = f"{one.name}: {one.about.en}" if one.about.en else one.name
    click.echo(f"{what}{f'  ({one.get})' if one.get else ''}", err=True)
    variable = secret_variable(one, recipe) if one.secret else one.in_environment
    is_set = bool(variable and os.environ.get(variable))
    if is_set and click.confirm(f"  use your variable {variable}?", default=False, err=True):
        return (f"${{{variable}}}",)
    if one.secret:
        later = secret_variable(one, recipe, os.environ)
        label = f"  {one.name} (not shown; Enter: you will set {later})"
        value: str = click.prompt(label, default="", show_default=False, hide_input=True, err=True)
        return (value,) if value else ()

    def chosen(text: str) -> str:
        if one.choices and text not in one.choices:
            raise click.UsageError("it must be one of these")
        return text

    label = f"  {one.name}"
    label += f" ({', '.join(map(one_line, one.choices))})" if one.choices else ""
    label += f" [{one_line(one.default)}]" if one.default else ""
    default = one.default or None
    return (str(click.prompt(label, default=default, value_proc=chosen, show_default=False, err=True)),)


def install(recipe: ServerRecipe) -> None:
    """Make the environment of a package now, where its progress and errors can be seen."""
    if isinstance(recipe.start, PackageStart):
        make_environment(recipe.start.package)


def advise(added: Addition) -> None:
    """What to know after a recipe was added."""
    for variable in added.typed:
        hint(f"{variable} is in no file: set it where the gateway runs, or --save-secrets writes it down")
    if added.recipe.note.en:
        hint(added.recipe.note.en)
