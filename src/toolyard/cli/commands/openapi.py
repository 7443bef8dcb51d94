"""`toolyard openapi`: make a table of tools from an OpenAPI document in a file or at a URL."""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import click

from ..ui.messages import CommandError, hint, warn
from .options import debug_option

if TYPE_CHECKING:
    from ...rest.openapi import Conversion, OpenApiDocument

_TOLD = 10
_DEEPEST = 200
_MOST_NODES = 5_000_000
"""Of a document in YAML, each alias counted as what it stands for."""
_MOST_BYTES = 32 * 1024 * 1024
"""Of a document from a URL; the biggest that are published have half of it."""
_REDIRECTS = 5


@click.command("openapi", short_help="Make a table of tools out of an OpenAPI document.")
@click.argument("source", metavar="FILE|URL")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Where to write the table.")
@click.option("--force", is_flag=True, help="Write over a table that is there.")
@click.option(
    "--only", multiple=True, metavar="TAG|PATH", help="Only these: a tag, a path (/pets*) or an operationId."
)
@click.option("--name", default="", help="Of the server; by itself what the document is titled.")
@click.option(
    "--base-url", default="", metavar="URL", help="Where the API is, if not where the document says."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    help="Seconds for a document at a URL.",
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
    """Make a table of tools out of an OpenAPI 3 document (JSON or YAML), for people to go on with.

    The document is a file or at a URL. The table goes to standard output, or to --output. What had to be
    left out is said in its comments and on standard error. `toolyard serve TABLE` serves it.
    """
    from ...rest.openapi import ConversionOptions, OpenApiError, convert

    if output is not None and output.exists() and not force:
        raise CommandError(
            f"there is a {str(output)!r} already", "--force writes over it; your changes in it are lost"
        )
    text, shown, found_at = _fetch_document(source, timeout) if _is_url(source) else _read(Path(source))
    wishes = ConversionOptions(only=only, name=name, base_url=base_url, found_at=found_at)
    try:
        made = convert(_document(text, shown), wishes, shown if found_at else Path(source).name)
    except OpenApiError as error:
        raise CommandError(f"{shown}: {error.message}", *([error.hint] if error.hint else [])) from None
    _check(made, output)
    _tell(made, output)


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _read(file: Path) -> tuple[str, str, str]:
    """The document's text, what it is called in messages, and its URL, which a file has not."""
    try:
        return file.read_text(encoding="utf-8-sig"), str(file), ""
    except OSError as error:
        raise CommandError(f"{str(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{str(file)!r} is not UTF-8") from None


def _fetch_document(url: str, seconds: float) -> tuple[str, str, str]:
    """The same of a URL: the one that answered in the end, without what may be secret in it."""
    shown = _without_secrets(url)
    if not urlsplit(shown).hostname:
        raise CommandError(f"{shown!r} is no URL")
    try:
        data, found_at = asyncio.run(_fetch(url, shown, seconds))
    except KeyboardInterrupt:
        raise CommandError("interrupted") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{shown}: what is there is not UTF-8, and so no OpenAPI document") from None
    if text.lstrip()[:200].startswith("<"):
        advice = "pages that show an API name the address of their document, such as …/openapi.json"
        raise CommandError(f"{shown} is a web page and no OpenAPI document", advice)
    return text, shown, _without_secrets(found_at)


def _without_secrets(url: str) -> str:
    """Without user, password, query and fragment: it is written into the table."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        raise CommandError("this is no URL") from None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


async def _fetch(url: str, shown: str, seconds: float) -> tuple[bytes, str]:
    import aiohttp  # 150 ms, for this only

    # Unpacking is left out, so that a small reply cannot become a huge one.
    headers = {"Accept": "application/json, application/yaml, text/yaml, */*", "Accept-Encoding": "identity"}
    wait = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=wait, trust_env=True, auto_decompress=False) as session,
            session.get(url, headers=headers, max_redirects=_REDIRECTS) as reply,
        ):
            if reply.status != 200:
                raise CommandError(f"{shown} answered {reply.status} {reply.reason or ''}".rstrip())
            if reply.headers.get("Content-Encoding", "identity") != "identity":
                raise CommandError(f"{shown}: the document comes packed, though that was not asked for")
            found = bytearray()
            async for piece in reply.content.iter_chunked(65536):
                found += piece
                if len(found) > _MOST_BYTES:
                    raise CommandError(
                        f"{shown} is over {_MOST_BYTES >> 20} MiB, and so no document for this"
                    )
            return bytes(found), str(reply.url)
    except TimeoutError:
        raise CommandError(f"{shown} did not send its document within {seconds:g} seconds") from None
    except aiohttp.TooManyRedirects:
        raise CommandError(f"{shown} leads on more than {_REDIRECTS} times") from None
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
        raise CommandError(f"{shown}: too large, with what its aliases stand for") from None
    except ValueError as error:  # numbers of thousands of digits
        raise CommandError(f"{shown}: {error}") from None


def _yaml(text: str, shown: str) -> Any:
    try:
        import yaml  # of an extra
    except ImportError:
        advice = "pip install 'toolyard[openapi]', or convert it to JSON"
        raise CommandError("a document in YAML needs pyyaml", advice) from None
    kind: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(kind):  # dates stay texts, as they are in JSON
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
    """Before it is built up: the C code of the library would run out of stack, and take the process along.

    An alias is some bytes for anything that stands before it, and aliases of aliases are exponentially much.
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
        if len(begun) > _DEEPEST:
            raise RecursionError
        if size > _MOST_NODES:
            raise MemoryError


def _check(made: "Conversion", output: Path | None) -> None:
    """What is written must be a table that loads; if it is not, the fault is ours."""
    from ...rest.definition.loader import check
    from ...rest.definition.model import DefinitionError

    try:
        check(made.text, output or Path("table.toml"))
    except DefinitionError as error:
        raise CommandError(
            f"the table that was made has mistakes, which is a fault of Toolyard:\n{error}"
        ) from None


def _tell(made: "Conversion", output: Path | None) -> None:
    for note in made.notes[:_TOLD]:
        warn(note)
    if len(made.notes) > _TOLD:
        warn(f"and {len(made.notes) - _TOLD} more of the kind, which are comments in the table")
    tools = f"{made.tools} tool{'' if made.tools == 1 else 's'}"
    if made.left_out:
        warn(f"{made.left_out} of {made.left_out + made.tools} operations have no tool; the table lists them")
    if output is None:
        sys.stdout.write(made.text)
        hint(f"{tools}; --output FILE writes a file, and `toolyard serve FILE` serves it")
        return
    try:
        output.write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{str(output)!r} cannot be written: {error.strerror}") from None
    click.echo(f"{tools} in {output}")
    hint(f"`toolyard list {output}` shows them, `toolyard serve {output}` serves them")
