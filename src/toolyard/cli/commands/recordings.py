"""`toolyard record`, `replay` and `diff`: keep a run's traffic, repeat it, and compare two of them."""

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..traffic import RecordedTraffic, ReplayedTraffic, WrappingCommand, check_words, run_command
from ..ui.messages import CommandError, one_line, warn
from ..ui.output import print_json
from ..ui.tables import print_table
from .options import debug_option, json_option

if TYPE_CHECKING:
    from ...recordings.comparison import RunComparison
    from ...recordings.format import RecordingError
    from ...recordings.recording import Recording

_FILE = click.Path(path_type=Path, dir_okay=False)
DIFFERENT = 1
NOT_RECORDED = 1


@click.command("record", cls=WrappingCommand, short_help="Run a command and keep its traffic in a file.")
@click.argument("file", type=_FILE)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--seal", is_flag=True, help="Run nothing: accept FILE as it is, after you edited it.")
@click.pass_context
def record(ctx: click.Context, file: Path, force: bool, seal: bool, words: tuple[str, ...]) -> None:
    """Run a toolyard COMMAND and write what passes between it and its servers and models to FILE.

    \b
    toolyard record run.jsonl call echo text=hello
    toolyard record run.jsonl serve

    Secrets are removed. Each line is written as it happens. The exit status is that of the command.
    """
    from ...recordings.format import HeaderLine, RecordingError, RecordingWriter
    from ...recordings.format import seal as seal_file

    if seal:
        if words:
            raise CommandError("--seal runs no command", f"toolyard record --seal {file}")
        try:
            count = seal_file(file)
        except RecordingError as error:
            raise _command_error(error) from None
        click.echo(f"sealed {file}: {count} events", err=True)
        return
    if not words:
        raise CommandError("no command to record", f"for example: toolyard record {file} serve")
    check_words(ctx, words)
    from ...recordings.recorder import TrafficRecorder
    from ...recordings.secrets import SecretRemover, secrets_of_process

    secrets = SecretRemover(secrets_of_process())
    try:
        writer = RecordingWriter(file, HeaderLine(command=secrets.arguments(words)), overwrite=force)
    except RecordingError as error:
        raise _command_error(error) from None
    # The recording is what was asked for: without it, the run ends as by Ctrl-C.
    writer.on_fault = lambda fault: signal.raise_signal(signal.SIGINT)
    status = 2
    try:
        with tempfile.TemporaryDirectory(prefix="toolyard-record-") as folder:
            status = run_command(ctx, words, RecordedTraffic(TrafficRecorder(writer, secrets), Path(folder)))
    except click.ClickException as error:
        status = error.exit_code
        raise
    finally:
        writer.end(status)
        if writer.fault is not None:
            raise _command_error(writer.fault)
        click.echo(f"recorded {writer.count} events in {file}", err=True)
    ctx.exit(status)


@click.command("replay", cls=WrappingCommand, short_help="Serve a recording, or run a command over it.")
@click.argument("file", type=_FILE)
@click.option("--lenient", is_flag=True, help="Answer an unknown call like the one that is most like it.")
@click.option("--pace", is_flag=True, help="Take as long as it took when it was recorded.")
@click.option("--http", is_flag=True, help="Serve over HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option(
    "--port",
    default=8321,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="With --http: the port; 0 takes a free one.",
)
@debug_option
@click.pass_context
def replay(
    ctx: click.Context,
    file: Path,
    lenient: bool,
    pace: bool,
    http: bool,
    host: str,
    port: int,
    debug: bool,
    words: tuple[str, ...],
) -> None:
    """Serve the servers of the recording FILE, or run a toolyard COMMAND over them and the recorded model.

    \b
    toolyard replay run.jsonl --http
    toolyard replay run.jsonl call echo text=hello

    The nth equal call gets the nth recorded answer, and after the last the last again. A call that was not
    recorded gets an error that names the nearest one; the exit status is then 1.
    """
    if words and http:
        raise CommandError(f"--http and the command {words[0]!r} at once", "give one of them")
    if words:
        check_words(ctx, words)
    from ...recordings.replayer import Replay

    recording = _open(file)
    found = Replay(recording, lenient=lenient, pace=pace)
    try:
        with tempfile.TemporaryDirectory(prefix="toolyard-replay-") as folder:
            traffic = ReplayedTraffic(found, Path(folder))
            traffic.is_alone = not words
            served = ("serve", "--host", host, "--port", str(port)) if http else ("stdio",)
            status = run_command(ctx, words or (*served, *(["--debug"] if debug else [])), traffic)
    finally:
        recording.close()
    if not status:  # otherwise the command has said what went wrong
        for call in found.unmatched:
            warn(call.message)
    ctx.exit(status or (NOT_RECORDED if found.unmatched else 0))


@click.command("diff", short_help="Show how two runs differ.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@json_option
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Show how run B differs from run A: recordings, or folders of `toolyard agent`.

    Calls in one of them only, with other arguments, with other results, in another order; then the figures
    of both. Times make no difference. Exit status: 0 if they are the same, 1 if not, 2 if one cannot be read.
    """
    from ...recordings import comparison
    from ...recordings.format import RecordingError

    try:
        found = comparison.compare(comparison.read_run(a), comparison.read_run(b))
    except RecordingError as error:
        raise _command_error(error) from None
    if as_json:
        print_json(comparison.as_json(found))
    else:
        _print_comparison(found)
    if not found.is_same:
        raise click.exceptions.Exit(DIFFERENT)


def _print_comparison(found: "RunComparison") -> None:
    from ...recordings.comparison import sentences

    rows = [tuple(map(one_line, row)) for row in sentences(found.differences)]
    if rows:
        print_table(("A", "B", "call", "difference"), rows)
        click.echo()
    totals = [(name, _figure(one), _figure(other)) for name, one, other in found.totals()]
    print_table(("", "A", "B"), totals, numbers=True)
    verdict = "The runs are the same." if found.is_same else "The runs differ."
    click.echo(f"\n{found.same_calls} calls are the same. {verdict}")


def _figure(value: Any) -> str:
    if value is None:
        return "?"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


def _open(file: Path) -> "Recording":
    from ...recordings.format import RecordingError
    from ...recordings.recording import Recording

    try:
        recording = Recording(file)
    except RecordingError as error:
        raise _command_error(error) from None
    if recording.cut:
        warn(recording.cut, "its calls are replayed as far as it goes")
    return recording


def _command_error(error: "RecordingError") -> CommandError:
    return CommandError(error.message, *([error.hint] if error.hint else []))
