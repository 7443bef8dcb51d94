"""Shows progress and logs to the user, and lets the user fill in a server's forms, on standard error."""

import sys
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ...wire.errors import MethodNotFound
from ..json_values import JsonMapping, as_list, as_object
from .arguments import InvalidValueError, json_types, read_value
from .messages import hint, is_terminal, one_line, printable

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status


YES = ("y", "yes", "true")
NO = ("n", "no", "false")

Read = Callable[[str], Any]


class FormDeclinedError(Exception):
    """The user ended the form with Ctrl-D."""


def answer_elicitation(params: JsonMapping) -> dict[str, Any]:
    """The answer to an `elicitation/create`."""
    message = str(params.get("message", ""))
    if not is_terminal(sys.stdin):
        hint(f"declined the tool's question {one_line(message)!r}: run it in a terminal to answer")
        return {"action": "decline"}
    _write(f"{printable(message)}  (Ctrl-D declines)\n")
    try:
        if params.get("mode") == "url":
            _open_url(str(params.get("url", "")))
            return {"action": "accept"}
        return {"action": "accept", "content": _fill(as_object(params.get("requestedSchema")))}
    except FormDeclinedError:
        _write("\n")
        return {"action": "decline"}


def _open_url(url: str) -> None:
    _write(f"  {one_line(url)}\n")
    _read_line("  open this URL in a browser, then press Enter: ")


def _fill(schema: JsonMapping) -> dict[str, Any]:
    required = as_list(schema.get("required"))
    content: dict[str, Any] = {}
    for name, prop in as_object(schema.get("properties")).items():
        found, value = _ask(name, as_object(prop), name in required)
        if found:
            content[name] = value
    return content


def _ask(name: str, prop: JsonMapping, required: bool) -> tuple[bool, Any]:
    """Ask for one field: whether it was filled in, and its value."""
    read, expected = _reader(prop)
    check = _checker(prop)
    default = prop.get("default")
    if about := prop.get("description"):
        _write(click.style(f"  {one_line(str(about))}", dim=True) + "\n")
    label = one_line(str(prop.get("title") or name))
    marks = f" ({expected})" if expected else ""
    marks += f" [{_shown(default)}]" if default is not None else "" if required else " [optional]"
    while True:
        text = _read_line(f"  {label}{marks}: ").strip()
        if not text and default is not None:
            return True, default
        if not text and not required:
            return False, None
        try:
            return True, check(read(text)) if text else _answer_needed()
        except ValueError as error:
            _write(click.style(f"  {one_line(str(error))}", fg="yellow") + "\n")


def _answer_needed() -> Any:
    raise ValueError("this field is required")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(one_line(str(item)) for item in as_list(value) or [value])


def _reader(prop: JsonMapping) -> tuple[Read, str]:
    """A function that reads the field's value from text, and a note on its form for the user."""
    kinds = json_types(prop, {})
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
        except InvalidValueError as error:
            raise ValueError(f"it must be {error}") from None

    return read, one_line(str(prop.get("format") or ""))


def _options(prop: JsonMapping) -> dict[str, Any]:
    """The choices of a field by title, or by value if they have none."""
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


def _checker(prop: JsonMapping) -> Callable[[Any], Any]:
    """Checks the rest of the schema: lengths, limits, patterns."""
    from ...kit.schema.validation import SchemaValidator

    try:
        return SchemaValidator(prop)
    except ValueError:  # an invalid schema is the server's problem, and it checks again
        return lambda value: value


def _read_line(prompt: str) -> str:
    _write(prompt)
    line = sys.stdin.readline()
    if not line:
        raise FormDeclinedError
    return line.rstrip("\n")


def _write(text: str) -> None:
    click.echo(text, err=True, nl=False)


class Terminal:
    """Progress bar, spinner, log lines and forms. A context manager, which removes bar and spinner."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._spinner: Status | None = None

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/message":
            self._log(params)

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "elicitation/create":
            raise MethodNotFound(method)
        self._stop()
        return answer_elicitation(params)

    def waiting(self, done: int, total: int, message: str) -> None:
        """Show which servers are awaited, on a terminal only; an empty message ends it."""
        if not message:
            self._stop()
        elif is_terminal(sys.stderr):
            if self._spinner is None:
                from rich.console import Console  # 20 ms of CPU, and only a terminal needs it

                self._spinner = Console(stderr=True).status("")
                self._spinner.start()
            from rich.text import Text

            share = f"{done}/{total} " if total > 1 else ""
            text = Text(one_line(f"{share}{message}"), no_wrap=True, overflow="ellipsis")
            text.truncate(self._spinner.console.width - 3)
            self._spinner.update(text)

    def _progress(self, params: dict[str, Any]) -> None:
        done, total = _number(params.get("progress")), _number(params.get("total"))
        message = one_line(str(params.get("message") or ""))
        if is_terminal(sys.stderr):
            bar = self._running()
            bar.update(bar.task_ids[0], completed=done, total=total, description=message)
        else:
            share = f"{done or 0:g}" if total is None else f"{done or 0:g}/{total:g}"
            click.echo(f"{share} {message}".rstrip(), err=True)

    def _running(self) -> "Progress":
        if self._bar is None:
            from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=None)
            self._bar.start()
        return self._bar

    def _log(self, params: dict[str, Any]) -> None:
        data = params.get("data")
        said = data if isinstance(data, str) else msgspec.json.encode(data).decode()
        text = printable(f"[{params.get('level', 'info')}] {said}")
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            click.echo(text, err=True)

    def _stop(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None
    return number if number is not None and isfinite(number) else None
