"""`toolyard openapi`: make a table of tools from an OpenAPI document in a file or at a URL."""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import click

from ...extras import install_command
from ..ui.messages import CommandError, hint, warn
from ..ui.tables import counted
from .options import debug_option

if TYPE_CHECKING:
    from ...rest.openapi import Conversion, OpenApiDocument

_MAX_WARNINGS = 10
_MAX_DEPTH = 200
_MAX_NODES = 5_000_000
"""Nodes of a YAML document, with every alias expanded."""
_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of a document from a URL; the largest published ones have half of it."""
_MAX_REDIRECTS = 5


@click.command("openapi", short_help="Convert an OpenAPI document to a table of tools.")
@click.argument("source", metavar="FILE|URL")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write. Default: standard output.",
)
@click.option("--force", is_flag=True, help="With --output: overwrite the file.")
@click.option(
    "--only",
    multiple=True,
    metavar="TAG|PATH",
    help="Only operations with this tag, path (/pets*) or operationId; may be repeated.",
)
@click.option("--name", default="", help="The server's name. Default: the document's title.")
@click.option(
    "--base-url", default="", metavar="URL", help="The URL of the API. Default: the document's first server."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    metavar="SECONDS",
    show_default=True,
    help="Time limit for a document at a URL.",
)
@debug_option
def command(
    source: str,
    output: Path | None,
    force: bool,
    only: tuple[str, ...],
    name: str,
    base_url: str,
    timeout: float,
    debug: bool,
) -> None:
    """Convert an OpenAPI 3 document (JSON or YAML) to a table of tools, which you then edit.

    The document is a file or a URL. The table goes to standard output or to --output. Its comments and
    warnings on standard error say what was omitted. `toolyard serve TABLE` serves it.
    """
    from ...rest.openapi import ConversionOptions, OpenApiError, convert

    if output is not None and output.exists() and not force:
        raise CommandError(f"{str(output)!r} exists", "--force overwrites it, with your changes in it")
    text, shown, found_at = _fetch_document(source, timeout) if _is_url(source) else _read(Path(source))
    options = ConversionOptions(only=only, name=name, base_url=base_url, found_at=found_at)
    try:
        made = convert(_document(text, shown), options, shown if found_at else Path(source).name)
    except OpenApiError as error:
        raise CommandError(f"{shown}: {error.message}", *([error.hint] if error.hint else [])) from None
    _check(made, output)
    _write(made, output)


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _read(file: Path) -> tuple[str, str, str]:
    """The document's text, its name for messages, and its URL, which is empty for a file."""
    try:
        return file.read_text(encoding="utf-8-sig"), str(file), ""
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{str(file)!r} is not UTF-8") from None


def _fetch_document(url: str, seconds: float) -> tuple[str, str, str]:
    """The same for a URL: the one after redirects, without its secrets."""
    shown = _without_secrets(url)
    if not urlsplit(shown).hostname:
        raise CommandError(f"{shown!r} is not a URL")
    try:
        data, found_at = asyncio.run(_fetch(url, shown, seconds))
    except KeyboardInterrupt:
        raise CommandError("interrupted") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{shown} is not an OpenAPI document: it is not UTF-8") from None
    if text.lstrip()[:200].startswith("<"):
        advice = "such pages usually name the URL of their document, such as …/openapi.json"
        raise CommandError(f"{shown} is a web page, not an OpenAPI document", advice)
    return text, shown, _without_secrets(found_at)


def _without_secrets(url: str) -> str:
    """Without user, password, query and fragment, because it is written into the table."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        raise CommandError("this is not a URL") from None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


async def _fetch(url: str, shown: str, seconds: float) -> tuple[bytes, str]:
    import aiohttp  # 150 ms

    # Not decompressed, so that a small response cannot become a huge one.
    headers = {"Accept": "application/json, application/yaml, text/yaml, */*", "Accept-Encoding": "identity"}
    wait = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=wait, trust_env=True, auto_decompress=False) as session,
            session.get(url, headers=headers, max_redirects=_MAX_REDIRECTS) as reply,
        ):
            if reply.status != 200:
                raise CommandError(f"{shown} answered {reply.status} {reply.reason or ''}".rstrip())
            if reply.headers.get("Content-Encoding", "identity") != "identity":
                raise CommandError(f"{shown}: the document is compressed, which was not requested")
            found = bytearray()
            async for piece in reply.content.iter_chunked(65536):
                found += piece
                if len(found) > _MAX_BYTES:
                    raise CommandError(f"{shown} is over {_MAX_BYTES >> 20} MiB")
            return bytes(found), str(reply.url)
    except TimeoutError:
        raise CommandError(f"{shown} did not send its document within {seconds:g} seconds") from None
    except aiohttp.TooManyRedirects:
        raise CommandError(f"{shown} redirects more than {_MAX_REDIRECTS} times") from None
    except (aiohttp.ClientError, ValueError, OSError) as error:
        raise CommandError(f"{shown} cannot be reached: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    cause = getattr(error, "os_error", None) or error
    return getattr(cause, "strerror", None) or str(cause) or type(error).__name__


def _document(text: str, shown: str) -> "OpenApiDocument":
    from ...rest.openapi import OpenApiDocument

    try:
        return OpenApiDocument(json.loads(text) if text.lstrip().startswith("{") else _yaml(text, shown))
    except json.JSONDecodeError as error:
        raise CommandError(f"{shown}:{error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise CommandError(f"{shown}: nested too deeply") from None
    except MemoryError:
        raise CommandError(f"{shown}: too large with its aliases expanded") from None
    except ValueError as error:  # numbers of thousands of digits
        raise CommandError(f"{shown}: {error}") from None


def _yaml(text: str, shown: str) -> Any:
    try:
        import yaml  # from an extra
    except ImportError:
        advice = f"{install_command('openapi')}, or convert it to JSON"
        raise CommandError("a YAML document needs pyyaml", advice) from None
    kind: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(kind):  # dates stay strings, as in JSON
        yaml_implicit_resolvers = {  # noqa: RUF012 (the library's own name and form)
            sign: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
            for sign, found in kind.yaml_implicit_resolvers.items()
        }

    try:
        parse: Any = getattr(yaml, "parse")  # noqa: B009 (its types are not known)
        _check_yaml_size(parse(text, Loader))
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark is not None else ""
        raise CommandError(f"{shown}{where}: not YAML: {getattr(error, 'problem', None) or error}") from None


def _check_yaml_size(events: Any) -> None:
    """Check depth and size before loading: deep nesting would overflow the stack of the C library.

    An alias repeats a node in a few bytes, and aliases of aliases grow exponentially.
    """
    sizes: dict[str, int] = {}
    begun: list[tuple[str, int]] = []
    size = 0
    for event in events:
        name = type(event).__name__
        anchor: str = getattr(event, "anchor", None) or ""
        if name == "AliasEvent":
            size += sizes.get(anchor, 0)
        elif name.endswith("StartEvent"):
            begun.append((anchor, size))
        elif name.endswith("EndEvent"):
            anchor, before = begun.pop()
            sizes[anchor] = size - before
        size += 1
        if len(begun) > _MAX_DEPTH:
            raise RecursionError
        if size > _MAX_NODES:
            raise MemoryError


def _check(made: "Conversion", output: Path | None) -> None:
    """Check that the table loads; if not, it is a bug of Toolyard."""
    from ...rest.definition.loader import check
    from ...rest.definition.model import DefinitionError

    try:
        check(made.text, output or Path("table.toml"))
    except DefinitionError as error:
        raise CommandError(f"bug in Toolyard: the converted table has errors:\n{error}") from None


def _write(made: "Conversion", output: Path | None) -> None:
    for note in made.notes[:_MAX_WARNINGS]:
        warn(note)
    if len(made.notes) > _MAX_WARNINGS:
        warn(f"{len(made.notes) - _MAX_WARNINGS} more warnings are comments in the table")
    tools = counted(made.tools, "tools")
    if made.left_out:
        warn(f"{made.left_out} of {made.left_out + made.tools} operations have no tool; the table lists them")
    if output is None:
        sys.stdout.write(made.text)
        hint(f"{tools}; --output FILE writes a file, `toolyard serve FILE` serves it")
        return
    try:
        output.write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{str(output)!r} cannot be written: {error.strerror}") from None
    click.echo(f"{tools} in {output}")
    hint(f"`toolyard list {output}` shows them, `toolyard serve {output}` serves them")
