"""What a person sees of a run on standard error: agents, tools, times, costs and savings, line by line.

On a terminal a last line tells what runs at the moment. Texts of models and tools are made safe.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ...agents.events import (
    AgentEnded,
    AgentStarted,
    ModelReplied,
    RunEvent,
    RunWarning,
    TextArrived,
    ToolBegan,
    ToolEnded,
    TurnBegan,
)
from ..ui.messages import is_terminal, one_line, printable, warn
from ..ui.tables import counted

if TYPE_CHECKING:
    from rich.status import Status

    from ...agents import AgentOutcome, RunRecord

MAX_SHOWN = 160


class RunDisplay:
    """Listens to a run. A context manager, which removes the last line. `streams` prints text as it comes."""

    def __init__(self, *, quiet: bool = False, streams: bool = False) -> None:
        self._quiet = quiet
        self._streams = streams
        self._status: Status | None = None
        self._running: dict[str, str] = {}
        self._models: dict[str, str] = {}
        self._is_midline = False
        self._has_streamed = False
        self._is_asking = False

    def __enter__(self) -> "RunDisplay":
        if not self._quiet and is_terminal(sys.stderr):
            from rich.console import Console  # 20 ms of CPU, and only a terminal needs it

            self._status = Console(stderr=True).status("")
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
        self._end_line()

    @contextmanager
    def asking(self) -> Generator[None]:
        """Takes the last line away while a person is asked something."""
        self._is_asking = True
        if self._status is not None:
            self._status.stop()
        self._end_line()
        try:
            yield
        finally:
            self._is_asking = False

    def on_event(self, event: RunEvent) -> None:
        if self._quiet:
            return
        match event:
            case AgentStarted():
                self._models[event.agent] = event.model
                shown = f"{event.name} ({event.model})" if not event.parent else event.name
                self._line(event.agent, click.style(shown, bold=True), event.task)
            case TurnBegan():
                self._set_running(f"model {event.agent}", f"{_short(event.agent)}: the model thinks")
            case TextArrived():
                if self._streams and "/" not in event.agent:
                    self._stream(event.text)
            case ModelReplied():
                self._set_running(f"model {event.agent}", None)
                self._reply(event)
            case ToolBegan():
                self._set_running(f"{event.agent} {event.id}", f"{_short(event.agent)}: {event.tool}")
            case ToolEnded():
                self._set_running(f"{event.agent} {event.id}", None)
                self._tool(event)
            case AgentEnded():
                self._set_running(f"model {event.agent}", None)
                if "/" in event.agent:
                    how = "done" if event.kind == "done" else click.style(one_line(event.reason), fg="yellow")
                    self._line(event.agent, f"{how} after {_seconds(event.seconds)}")
            case RunWarning():
                self._end_line()
                warn(event.text)

    def _reply(self, event: ModelReplied) -> None:
        cost = "" if event.cost is None else f", ${event.cost:.4f}"
        cached = f", {event.usage.cache_read:,} cached" if event.usage.cache_read else ""
        used = f"{event.usage.input:,} tokens in{cached}, {event.usage.output:,} out{cost}"
        figures = click.style(f"{_seconds(event.seconds)}, {used}", dim=True)
        text = event.text
        if self._streams and "/" not in event.agent:
            if text and not self._has_streamed:  # not every API streams
                self._stream(text)
            text, self._has_streamed = "", False
        self._line(event.agent, f"  turn {event.turn}  {figures}", text)

    def _tool(self, event: ToolEnded) -> None:
        saved = f", {_size(event.saved)} kept out" if event.saved else ""
        figures = click.style(f"{_seconds(event.seconds)}, {_size(event.chars)}{saved}", dim=True)
        mark = click.style("failed ", fg="red") if event.is_error else ""
        self._line(event.agent, f"    {mark}{one_line(event.tool)}  {figures}", event.detail)

    def _line(self, agent: str, text: str, more: str = "") -> None:
        """One line, indented by the depth of the agent."""
        self._end_line()
        depth = agent.count("/")
        margin = "  │ " * depth
        label = click.style(f"{_short(agent)}  ", fg="cyan") if depth else ""
        rest = f"  {one_line(more)}" if more.strip() else ""
        room = MAX_SHOWN
        if self._status is not None:
            room = max(20, self._status.console.width - 1 - len(click.unstyle(margin + label + text)))
        shown = rest if len(rest) <= room else f"{rest[: room - 1]}…"
        click.echo(f"{margin}{label}{text}{shown}", err=True)

    def _stream(self, text: str) -> None:
        if self._status is not None:
            self._status.stop()
        click.echo(printable(text), nl=False)
        sys.stdout.flush()
        self._is_midline = not text.endswith("\n")
        self._has_streamed = True

    def _end_line(self) -> None:
        if self._is_midline:
            click.echo()
            self._is_midline = False

    def _set_running(self, key: str, text: str | None) -> None:
        if text is None:
            self._running.pop(key, None)
        else:
            self._running[key] = text
        if self._status is None:
            return
        if not self._running or self._is_midline or self._is_asking:
            self._status.stop()
            return
        from rich.text import Text

        shown = Text(one_line("; ".join(self._running.values())), no_wrap=True, overflow="ellipsis")
        shown.truncate(max(10, self._status.console.width - 4))
        self._status.update(shown)
        self._status.start()


def summary_line(outcome: "AgentOutcome") -> str:
    """`done in 12.3 s: 5 turns, 9 tool calls, 12,345 tokens in, 678 out, $0.0123`"""
    record: RunRecord = outcome.record
    about = "about " if record.usage_is_estimated else ""
    cached = f" ({record.usage.cache_read:,} cached)" if record.usage.cache_read else ""
    parts = [
        counted(record.turns, "turns"),
        counted(record.tool_calls, "tool calls"),
        f"{about}{record.usage.input:,} tokens in{cached}",
        f"{record.usage.output:,} out",
    ]
    if record.cost is not None:
        parts.append(f"${record.cost:.4f}")
    if record.saved_bytes:
        parts.append(f"{_size(record.saved_bytes)} kept out of results")
    return f"{'done' if outcome.is_done else 'ended'} in {_seconds(record.seconds)}: {', '.join(parts)}"


def _short(agent: str) -> str:
    return agent.rpartition("/")[2]


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _size(value: int) -> str:
    if value < 1000:
        return f"{value} B"
    return f"{value / 1000:.1f} kB" if value < 10**6 else f"{value / 10**6:.1f} MB"
