"""The user at the terminal: sees progress and logs, answers questions. All of it on standard error."""

import sys
from math import isfinite
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ..wire.errors import MethodNotFound
from .forms import elicited
from .printable import is_terminal, one_line, printable

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status


class Terminal:
    """Use it as a context: leaving it takes away what moves."""

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
        return elicited(params)

    def waiting(self, done: int, total: int, message: str) -> None:
        """On a terminal alone: in a pipe, what is missing at the end is warned of."""
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
