"""`toolyard openapi`: a table of tools out of an OpenAPI document."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .failure import Failure, hint, warn
from .options import debug_option

if TYPE_CHECKING:
    from ..rest.openapi import Document, Made

_TOLD = 10
_DEEPEST = 200


@click.command("openapi", short_help="Make a table of tools out of an OpenAPI document.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Where to write the table.")
@click.option("--force", is_flag=True, help="Write over a table that is there.")
@click.option(
    "--only", multiple=True, metavar="TAG|PATH", help="Only these: a tag, a path (/pets*) or an operationId."
)
@click.option("--name", default="", help="Of the server; by itself what the document is titled.")
@click.option(
    "--base-url", default="", metavar="URL", help="Where the API is, if not where the document says."
)
@debug_option
def command(
    file: Path, output: Path | None, force: bool, only: tuple[str, ...], name: str, base_url: str, debug: bool
) -> None:
    """Make a table of tools out of an OpenAPI 3 document (JSON or YAML), for people to go on with.

    The table goes to standard output, or to --output. What had to be left out is said in its comments and
    on standard error. `toolyard serve TABLE` serves it.
    """
    from ..rest.openapi import DocumentError, Wishes, convert

    if output is not None and output.exists() and not force:
        raise Failure(
            f"there is a {str(output)!r} already", "--force writes over it; your changes in it are lost"
        )
    try:
        made = convert(_document(file), Wishes(only=only, name=name, base_url=base_url), file.name)
    except DocumentError as error:
        raise Failure(f"{file}: {error.message}", *([error.hint] if error.hint else [])) from None
    _check(made, output)
    _tell(made, output)


def _document(file: Path) -> "Document":
    from ..rest.openapi import Document

    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Failure(f"{str(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{str(file)!r} is not UTF-8") from None
    try:
        return Document(json.loads(text) if text.lstrip().startswith("{") else _yaml(text, file))
    except json.JSONDecodeError as error:
        raise Failure(f"{file}:{error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise Failure(f"{file}: nested too deeply") from None


def _yaml(text: str, file: Path) -> Any:
    try:
        import yaml  # of an extra
    except ImportError:
        advice = "pip install 'toolyard[openapi]', or convert it to JSON"
        raise Failure("a document in YAML needs pyyaml", advice) from None
    kind: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(kind):  # dates stay texts, as they are in JSON
        yaml_implicit_resolvers = {  # noqa: RUF012 (the library's own name and form)
            sign: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
            for sign, found in kind.yaml_implicit_resolvers.items()
        }

    try:
        parse: Any = getattr(yaml, "parse")  # noqa: B009 (its types are not known)
        _refuse_depths(parse(text, Loader))
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark is not None else ""
        raise Failure(f"{file}{where}: not YAML: {getattr(error, 'problem', None) or error}") from None


def _refuse_depths(events: Any) -> None:
    """Before it is built up: the C code of the library would run out of stack, and take the process along."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > _DEEPEST:
            raise RecursionError


def _check(made: "Made", output: Path | None) -> None:
    """What is written must be a table that loads; if it is not, the fault is ours."""
    from ..rest.loading import check
    from ..rest.mistakes import TableError

    try:
        check(made.text, output or Path("table.toml"))
    except TableError as error:
        raise Failure(
            f"the table that was made has mistakes, which is a fault of Toolyard:\n{error}"
        ) from None


def _tell(made: "Made", output: Path | None) -> None:
    for note in made.notes[:_TOLD]:
        warn(note)
    if len(made.notes) > _TOLD:
        warn(f"and {len(made.notes) - _TOLD} more of the kind, which are comments in the table")
    tools = f"{made.tools} tool{'' if made.tools == 1 else 's'}"
    if output is None:
        sys.stdout.write(made.text)
        hint(f"{tools}; --output FILE writes a file, and `toolyard serve FILE` serves it")
        return
    try:
        output.write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{str(output)!r} cannot be written: {error.strerror}") from None
    click.echo(f"{tools} in {output}")
    hint(f"`toolyard list {output}` shows them, `toolyard serve {output}` serves them")
