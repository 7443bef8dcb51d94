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
from ..ui.messages import CommandError, hint, is_terminal, warn
from .catalogue import CHROMIUM, catalogue
from .environments import Package, parse_package
from .progress import make_environment
from .recipe import (
    FillOptions,
    Input,
    PackageStart,
    RemoteStart,
    ServerRecipe,
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
    if source.lower().startswith(("http://", "https://")):
        shown = _without_secrets(source)
        data = asyncio.run(_fetch(source, shown))
    else:
        shown = source
        data = _read(Path(source))
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
    can_ask = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    filled = fill(
        recipe,
        FillOptions(
            given=given,
            environment=os.environ,
            ask=(lambda one: _ask(one, recipe)) if can_ask else None,
            later=options.later,
            save_secrets=options.save_secrets,
        ),
    )
    # Other programs look for `toolyard` on a PATH of their own.
    own = (sys.executable, "-m", "toolyard") if foreign_file else ("toolyard",)
    fields = fields_of(recipe, filled.values, own)
    if extra:
        if isinstance(recipe.start, RemoteStart):
            raise CommandError(
                f"--env {next(iter(extra))}: {recipe.name!r} is at a URL", "it has no variables"
            )
        fields["env"] = {**fields.get("env", {}), **extra}
    if CHROMIUM in inputs and CHROMIUM not in filled.values:
        warn("no Chromium on PATH", "apt-get install chromium, or -o chromium=/its/path")
    return Addition(recipe, fields, filled.typed)


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
        label = f"  {one.name} (not shown; Enter: you will set {variable})"
        value: str = click.prompt(label, default="", show_default=False, hide_input=True, err=True)
        return (value,) if value else ()
    kind = click.Choice(one.choices) if one.choices else str
    default = one.default or None
    return (str(click.prompt(f"  {one.name}", default=default, type=kind, err=True)),)


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
