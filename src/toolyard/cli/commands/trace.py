"""`toolyard trace`: the traces in the local store, as a list, a tree or a page."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..configuration import loader
from ..ui.messages import CommandError, hint, one_line
from ..ui.output import print_json
from ..ui.tables import TextLayout, counted, print_table
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...telemetry.trace_file import TraceReader
    from ...telemetry.trace_tree import TraceSummary, TraceTree

LAST = "last"
SEARCHED = 5000
"""How many traces a filter looks at."""
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@click.command("trace", short_help="Show what happened in an agent's run or a call.")
@click.argument("id", metavar="[ID]", required=False)
@click.option("--runs", is_flag=True, help="List only agents' runs.")
@click.option("--errors", is_flag=True, help="List only traces in which something failed.")
@click.option("--server", metavar="NAME", help="List only traces with calls to this server.")
@click.option("--since", metavar="AGE", help="List only newer ones, as in 30m, 12h or 7d.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many to list.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the trace as a page.")
@click.option("--delete", is_flag=True, help="Delete the trace ID, or all with ID `all`.")
@config_option
@json_option
def command(
    id: str | None,
    runs: bool,
    errors: bool,
    server: str | None,
    since: str | None,
    limit: int,
    html: Path | None,
    delete: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Show what happened in an agent's run or a call: its tree of spans with times, tokens, sizes and errors.

    Without ID, lists the newest traces. The beginning of an ID is enough; `last` is the newest run, or else
    the newest trace. Traces of agents' runs are always kept; those of a gateway with traces = "local".
    """
    from ...config import Config
    from ...config.files import state_folder
    from ...telemetry.trace_file import TraceReader, TraceStoreError

    file = loader.config_file(None, config)
    folder = state_folder(Config() if file is None else loader.load_config(file))
    if folder is None:
        raise CommandError("no state folder", "set state_dir in [gateway]")
    reader = TraceReader(folder)
    try:
        if delete:
            _delete(reader, id)
        elif id is not None:
            _show(_tree(reader, _found(reader, id)), html, as_json)
        elif html is not None:
            raise CommandError("--html needs the ID of a trace", "toolyard trace last --html FILE")
        else:
            _list(reader, Wanted(runs, errors, server, since), limit, as_json)
    except TraceStoreError as error:
        raise CommandError(
            str(error), "delete the file if it is damaged: it has nothing but traces"
        ) from None


class Wanted:
    """Which traces are listed."""

    def __init__(self, runs: bool, errors: bool, server: str | None, since: str | None) -> None:
        self.runs = runs
        self.since = 0 if since is None else time.time_ns() - int(_seconds(since) * 1e9)
        self._errors = errors
        self._server = server
        self.filters = errors or server is not None

    def fits(self, summary: "TraceSummary") -> bool:
        if self._errors and not summary.errors:
            return False
        return self._server is None or self._server in summary.servers


def _seconds(age: str) -> float:
    found = _AGE.fullmatch(age.strip().lower())
    if found is None:
        raise CommandError(f"--since {age!r} is not an age", "as in 30m, 12h or 7d")
    return float(found[1]) * _UNITS[found[2]]


def _list(reader: "TraceReader", wanted: Wanted, limit: int, as_json: bool) -> None:
    from ...telemetry.trace_tree import build_tree

    # Lists and handshakes of clients are traces too, which nobody looks for; so more are read than shown.
    ids = reader.recent(SEARCHED if wanted.filters else limit * 5, runs_only=wanted.runs, since=wanted.since)
    spans = reader.spans(ids)
    summaries = [build_tree(id, spans[id]).summary for id in ids if spans[id]]
    shown = [one for one in summaries if (one.calls or one.is_run or one.errors) and wanted.fits(one)]
    shown = sorted(shown, key=lambda one: one.start, reverse=True)[:limit]
    if as_json:
        print_json([_object(summary) for summary in shown])
        return
    if not shown:
        click.echo("No traces.")
        hint('agents\' runs are always traced; traces = "local" in [telemetry] traces calls of a gateway')
        return
    tasks = any(summary.task for summary in shown)
    headings = ("id", "when", "who", *(("task",) if tasks else ("what",)), *_HEADINGS)
    print_table(headings, [_cells(summary, tasks) for summary in shown])
    hint(f"toolyard trace {shown[0].id[:8]} shows one")


_HEADINGS = ("took", "calls", "tokens", "cost", "errors")


def _cells(summary: "TraceSummary", tasks: bool) -> tuple[str, ...]:
    from ..traces.words import format_cost, format_seconds

    tokens = summary.input_tokens + summary.output_tokens
    return (
        summary.id[:8],
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(summary.start / 1e9)),
        one_line(summary.who)[:30],
        one_line(summary.task if tasks else summary.title)[:50],
        format_seconds(summary.seconds) + ("+" if summary.is_open else ""),
        f"{summary.calls:,}",
        f"{tokens:,}" if tokens else "",
        "" if summary.cost is None else format_cost(summary.cost),
        f"{summary.errors:,}" if summary.errors else "",
    )


def _found(reader: "TraceReader", id: str) -> str:
    if id == LAST:
        newest = reader.recent(1, runs_only=True) or reader.recent(1)
        if not newest:
            raise CommandError("there are no traces", "toolyard trace -h says what is traced")
        return newest[0]
    if re.fullmatch(r"[0-9a-fA-F]{1,32}", id) is None:
        raise CommandError(f"{id!r} is not the ID of a trace", "toolyard trace lists them")
    matching = reader.find(id)
    if not matching:
        raise CommandError(f"no trace begins with {id!r}", "toolyard trace lists them")
    if len(matching) > 1:
        some = ", ".join(match[:12] for match in matching[:5])
        raise CommandError(f"{len(matching)} traces begin with {id!r}", f"for example {some}")
    return matching[0]


def _tree(reader: "TraceReader", id: str) -> "TraceTree":
    from ...telemetry.trace_tree import build_tree

    spans = reader.spans([id])[id]
    if not spans:
        raise CommandError(f"trace {id[:8]} is not kept any more", "toolyard trace lists those that are")
    return build_tree(id, spans)


def _show(tree: "TraceTree", html: Path | None, as_json: bool) -> None:
    if html is not None:
        from ..traces.page import page

        try:
            html.write_text(page(tree), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{html} cannot be written: {error.strerror}") from None
        click.echo(f"wrote {html} ({counted(tree.summary.spans, 'spans')})", err=True)
    if as_json:
        print_json({**_object(tree.summary), "spans": [_span(node) for node in tree.walk()]})
    elif html is None:
        from ..traces.terminal import tree_lines

        click.echo(_headline(tree.summary))
        for line in tree_lines(tree, TextLayout()):
            click.echo(line)


def _headline(summary: "TraceSummary") -> str:
    from ..traces.words import format_cost, format_seconds

    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(summary.start / 1e9))
    parts = [began, format_seconds(summary.seconds), counted(summary.calls, "calls")]
    if summary.input_tokens or summary.output_tokens:
        parts.append(f"{summary.input_tokens:,} → {summary.output_tokens:,} tokens")
    if summary.cost is not None:
        parts.append(format_cost(summary.cost))
    parts.append(counted(summary.errors, "errors") if summary.errors else "no errors")
    task = f"\n{one_line(summary.task)}" if summary.task else ""
    return f"trace {summary.id}\n{', '.join(parts)}{task}"


def _object(summary: "TraceSummary") -> dict[str, Any]:
    return {
        "trace_id": summary.id,
        "start": _moment(summary.start),
        "seconds": round(summary.seconds, 6),
        "name": summary.title,
        "who": summary.who,
        "task": summary.task,
        "run": summary.is_run,
        "ended": not summary.is_open,
        "calls": summary.calls,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cost": summary.cost,
        "errors": summary.errors,
        "servers": summary.servers,
    }


def _span(node: Any) -> dict[str, Any]:
    span = node.span
    return {
        "span_id": span.id,
        "parent_id": span.parent or None,
        "name": span.name,
        "kind": span.kind,
        "layer": node.layer,
        "start": _moment(span.start),
        "seconds": None if span.duration is None else round(span.duration / 1e9, 6),
        "error": span.error or None,
        "error_text": span.text or None,
        "attributes": span.attributes,
    }


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:06}Z"


def _delete(reader: "TraceReader", id: str | None) -> None:
    if id is None:
        raise CommandError("--delete needs the ID of a trace", "toolyard trace all --delete deletes all")
    if id == "all":
        reader.delete(None)
        click.echo("deleted all traces", err=True)
        return
    found = _found(reader, id)
    reader.delete([found])
    click.echo(f"deleted trace {found}", err=True)
