"""Forms that a server asks the user to fill, field by field on a terminal."""

import sys
from collections.abc import Callable
from typing import Any

import click

from .failure import hint
from .printable import is_terminal, one_line, printable
from .shapes import Object, as_list, as_object
from .values import Unreadable, kinds_of, read_value

YES = ("y", "yes", "true")
NO = ("n", "no", "false")

Read = Callable[[str], Any]


class Declined(Exception):
    """The user ended the form with Ctrl-D."""


def elicited(params: Object) -> dict[str, Any]:
    """The answer to an `elicitation/create`."""
    message = str(params.get("message", ""))
    if not is_terminal(sys.stdin):
        hint(f"the tool asked {one_line(message)!r} and was told no; run it in a terminal to answer")
        return {"action": "decline"}
    _write(f"{printable(message)}  (Ctrl-D declines)\n")
    try:
        if params.get("mode") == "url":
            _visit(str(params.get("url", "")))
            return {"action": "accept"}
        return {"action": "accept", "content": _fill(as_object(params.get("requestedSchema")))}
    except Declined:
        _write("\n")
        return {"action": "decline"}


def _visit(url: str) -> None:
    _write(f"  {one_line(url)}\n")
    _read_line("  open it in a browser, then press Enter: ")


def _fill(schema: Object) -> dict[str, Any]:
    required = as_list(schema.get("required"))
    content: dict[str, Any] = {}
    for name, prop in as_object(schema.get("properties")).items():
        found, value = _ask(name, as_object(prop), name in required)
        if found:
            content[name] = value
    return content


def _ask(name: str, prop: Object, required: bool) -> tuple[bool, Any]:
    """One field: whether it was filled, and with what."""
    read, expected = _reader(prop)
    check = _checker(prop)
    default = prop.get("default")
    if about := prop.get("description"):
        _write(click.style(f"  {one_line(str(about))}", dim=True) + "\n")
    label = one_line(str(prop.get("title") or name))
    marks = f" ({expected})" if expected else ""
    marks += f" [{_shown(default)}]" if default is not None else "" if required else " [nothing]"
    while True:
        text = _read_line(f"  {label}{marks}: ").strip()
        if not text and default is not None:
            return True, default
        if not text and not required:
            return False, None
        try:
            return True, check(read(text)) if text else _needed()
        except ValueError as error:
            _write(click.style(f"  {one_line(str(error))}", fg="yellow") + "\n")


def _needed() -> Any:
    raise ValueError("an answer is needed")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(one_line(str(item)) for item in as_list(value) or [value])


def _reader(prop: Object) -> tuple[Read, str]:
    """How a field's text becomes its value, and what to tell the user about it."""
    kinds = kinds_of(prop, {})
    if kinds == {"array"}:
        options = _options(as_object(prop.get("items")))
        pick = _picker(options)
        return (lambda text: [pick(part.strip()) for part in text.split(",")]), _listed(
            options, "several of "
        )
    options = _options(prop)
    if options:
        return _picker(options), _listed(options, "")
    if kinds == {"boolean"}:
        return _yes_or_no, "yes, no"

    def read(text: str) -> Any:
        try:
            return read_value(text, prop, {})
        except Unreadable as error:
            raise ValueError(f"it must be {error}") from None

    return read, one_line(str(prop.get("format") or ""))


def _options(prop: Object) -> dict[str, Any]:
    """The choices of a field, by what the user types: the value itself or its title."""
    titled = [as_object(item) for item in as_list(prop.get("oneOf")) or as_list(prop.get("anyOf"))]
    pairs = [(str(item.get("title", item["const"])), item["const"]) for item in titled if "const" in item]
    values = as_list(prop.get("enum"))
    names = as_list(prop.get("enumNames")) or values
    return dict(pairs or [(str(name), value) for name, value in zip(names, values, strict=False)])


def _picker(options: dict[str, Any]) -> Read:
    known = {str(value).lower(): value for value in options.values()}
    known |= {title.lower(): value for title, value in options.items()}

    def pick(text: str) -> Any:
        if not known:
            return text
        if text.lower() not in known:
            raise ValueError(f"it must be one of {', '.join(options)}")
        return known[text.lower()]

    return pick


def _listed(options: dict[str, Any], before: str) -> str:
    return before + ", ".join(map(one_line, options)) if options else ""


def _yes_or_no(text: str) -> bool:
    if text.lower() not in YES + NO:
        raise ValueError("it must be yes or no")
    return text.lower() in YES


def _checker(prop: Object) -> Callable[[Any], Any]:
    """The rest of what the schema asks: lengths, limits, patterns."""
    from ..kit.schema import SchemaValidator

    try:
        return SchemaValidator(prop)
    except ValueError:  # the server's schema is its own problem, and it checks again
        return lambda value: value


def _read_line(prompt: str) -> str:
    _write(prompt)
    line = sys.stdin.readline()
    if not line:
        raise Declined
    return line.rstrip("\n")


def _write(text: str) -> None:
    click.echo(text, err=True, nl=False)
