"""Prints results and JSON to standard output: readable on a terminal, plain data in a pipe."""

import base64
import binascii
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from ..json_values import JsonMapping, as_list, as_object
from .messages import CommandError, is_terminal, printable


def fold_json(text: str, width: int) -> str:
    """Put short objects and lists of msgspec's indented `text` on one line; not the outermost."""
    done: list[str] = []
    opened: list[int] = []
    for line in text.split("\n"):
        done.append(line)
        # A string ends in a quote, so a bracket at the end opens something.
        if line.endswith(("{", "[")):
            opened.append(len(done) - 1)
        elif line.lstrip().startswith(("}", "]")):
            _fold(done, opened.pop(), width)
    return "\n".join(done)


def _fold(done: list[str], start: int, width: int) -> None:
    if start == 0 or len(done) - start > width:
        return
    first, *inner, last = done[start:]
    flat = first + " ".join(line.strip() for line in inner) + last.strip()
    if len(flat) <= width:
        done[start:] = [flat]


def print_json(value: Any) -> None:
    """Print in colour and indented on a terminal, on one line in a pipe."""
    text = msgspec.json.encode(value).decode()
    if not is_terminal(sys.stdout):
        click.echo(text)
        return
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.highlighter import JSONHighlighter

    console = Console()
    # Not `Console.print_json`, which decodes the text again and would print direction marks.
    shown = fold_json(printable(msgspec.json.format(text)), console.width)
    console.print(JSONHighlighter()(shown), soft_wrap=True)


def print_text(text: str, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    # `color` keeps click from removing escape sequences, which are data in a pipe.
    click.echo(printable(text) if is_terminal(stream) else text, err=err, color=True)


def print_result(result: JsonMapping, save: "MediaFolder | None") -> None:
    """Print the content, then the structured content, unless one repeats the other.

    A person at a terminal gets the text alone, if there is one beside the structured content.
    """
    structured = result.get("structuredContent")
    if _is_wrapped_text(result, structured):
        structured = None
    blocks = [
        block for block in _blocks(result) if structured is None or not _repeats_structured(block, structured)
    ]
    for block in blocks:
        print_text(format_block(block, save))
    has_text = any(block.get("type") == "text" for block in blocks)
    if structured is not None and not (has_text and is_terminal(sys.stdout)):
        print_json(structured)


def print_error(result: JsonMapping) -> None:
    text = "\n".join(format_block(block, None) for block in _blocks(result))
    print_text(text or "the tool failed without a message", err=True)


def _blocks(result: JsonMapping) -> Iterator[JsonMapping]:
    for block in as_list(result.get("content")):
        yield as_object(block)


def _is_wrapped_text(result: JsonMapping, structured: Any) -> bool:
    """Whether the structured content is the text in a single field, as file servers send it."""
    texts = [block.get("text") for block in _blocks(result)]
    fields = as_object(structured)
    # A bare value that the server wraps as `result` stays JSON, for pipes into jq.
    return len(fields) == 1 and list(fields) != ["result"] and texts == list(fields.values())


def _repeats_structured(block: JsonMapping, structured: Any) -> bool:
    """Whether a text repeats the structured content, or the bare value wrapped in it."""
    if block.get("type") != "text":
        return False
    text = str(block.get("text"))
    wrapped = list(as_object(structured)) == ["result"]
    if wrapped and text == structured["result"]:
        return True
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return value == structured or (wrapped and value == structured["result"])


def format_block(block: JsonMapping, save: "MediaFolder | None") -> str:
    """A content block as text; for images and audio, the type and size."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return _media(str(block.get("mimeType", kind)), block.get("data"), save)
    if kind == "resource_link":
        return f"[{block.get('title') or block.get('name')}: {block.get('uri')}]"
    if kind == "resource":
        resource = as_object(block.get("resource"))
        if "text" in resource:
            return str(resource["text"])
        return _media(str(resource.get("mimeType", "resource")), resource.get("blob"), save)
    return f"[{kind}]"


def decode_base64(encoded: Any) -> bytes | None:
    """Decode base64; None if it is not."""
    try:
        return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else None
    except (binascii.Error, ValueError):
        return None


def _media(mime_type: str, encoded: Any, save: "MediaFolder | None") -> str:
    data = decode_base64(encoded)
    if data is None:
        return f"[{mime_type}, not base64]"
    label = f"[{mime_type}, {len(data)} bytes]"
    return label if save is None else f"{label} {save.put(data, mime_type)}"


class MediaFolder:
    """The folder of --save. File names are ours, never the server's; nothing is overwritten."""

    def __init__(self, path: Path, stem: str) -> None:
        self._path = path
        self._stem = re.sub(r"[^A-Za-z0-9_-]+", "_", stem)
        self._count = 0

    def put(self, data: bytes, mime_type: str) -> Path:
        from mimetypes import guess_extension

        extension = guess_extension(mime_type.split(";")[0].strip()) or ".bin"
        while True:
            self._count += 1
            path = self._path / f"{self._stem}-{self._count}{extension}"
            try:
                self._path.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(data)
                return path
            except FileExistsError:
                if not self._path.is_dir():
                    raise CommandError(f"--save {str(self._path)!r} is not a folder") from None
            except OSError as error:
                raise CommandError(f"cannot write {str(path)!r}: {error.strerror}") from None
