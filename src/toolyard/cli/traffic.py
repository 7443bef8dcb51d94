"""What stands between a command and the servers and models that it uses: a recording, or a replay.

`record` and `replay` run another command in this process and leave a `Traffic` in the context of click, where
the loader of configurations finds it. Every other command has none, and nothing stands in its way.
"""

import os
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from .ui.messages import CommandError, warn

if TYPE_CHECKING:
    from ..agents.loop import ModelOptions
    from ..agents.session import Backend
    from ..app.upstreams import UpstreamTap
    from ..config import Config
    from ..recordings.recorder import TrafficRecorder
    from ..recordings.replayer import Replay

_KEY = "toolyard.traffic"
_NESTED = ("record", "replay", "diff")


class Traffic(Protocol):
    watches_file: bool
    """Whether changes of the configuration's file are applied."""
    stdio_words: Sequence[str] | None
    """What starts the same over stdio, if that is not `stdio --config FILE`."""

    @property
    def tap(self) -> "UpstreamTap": ...

    def config_file(self, target: str | None, options: Mapping[str, Any], given: Path | None) -> Path:
        """The configuration to use: one is written for a target, or if there is none."""
        ...

    def address_file(self, url: str, headers: Mapping[str, str]) -> Path:
        """A configuration for a server at an address."""
        ...

    def config(self, file: Path, config: "Config") -> "Config": ...

    def model_options(self) -> "ModelOptions":
        """How our models are reached."""
        ...

    @property
    def today(self) -> date:
        """The date that agents are told."""
        ...


def current() -> Traffic | None:
    """What `record` or `replay` put around this command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_KEY)


def open_backend(spec: str, text_calls: bool = False) -> "Backend":
    """The backend of a model, as `record` or `replay` want it. Raises ModelError."""
    from ..agents.loop import CLAUDE
    from ..agents.loop import open_backend as open_directly

    tapped = current()
    if tapped is None:
        return open_directly(spec, text_calls)
    if spec.partition(":")[0] == CLAUDE:
        warn("Claude Code speaks with its model by itself: only the servers are recorded and replayed")
    return open_directly(spec, text_calls, **tapped.model_options())


class RecordedTraffic:
    """Everything goes through a gateway, also to a single server: there it is recorded."""

    watches_file = True
    stdio_words: Sequence[str] | None = None

    def __init__(self, recorder: "TrafficRecorder", folder: Path) -> None:
        self._recorder = recorder
        self._folder = folder

    @property
    def tap(self) -> "UpstreamTap":
        return self._recorder

    def config_file(self, target: str | None, options: Mapping[str, Any], given: Path | None) -> Path:
        from ..config import find

        file = given or (find() if target is None else None)
        return file or self._alone(*_target_entry(target or "demo", options))

    def address_file(self, url: str, headers: Mapping[str, str]) -> Path:
        from urllib.parse import urlsplit

        entry: dict[str, Any] = {"url": url, "headers": dict(headers)}
        return self._alone(urlsplit(url).hostname or "server", entry)

    def _alone(self, name: str, entry: Mapping[str, Any]) -> Path:
        """A gateway that shows one server as if it were not there."""
        gateway = {"view": "bare", "server": name}
        tables = {"gateway": gateway, "results": {"shape": False}, "servers": {name: _escaped(entry)}}
        return _write_config(self._folder, tables)

    def config(self, file: Path, config: "Config") -> "Config":
        return _unlearned(config)

    def model_options(self) -> "ModelOptions":
        from ..agents.backends.transport import PooledModelTransport

        return {"transport": self._recorder.model(PooledModelTransport(os.environ))}

    @property
    def today(self) -> date:
        return self._recorder.today


class ReplayedTraffic:
    """The servers are those of a recording, and so are the models."""

    watches_file = False

    def __init__(self, replay: "Replay", folder: Path) -> None:
        self._replay = replay
        self._folder = folder
        self._own = folder / CONFIG_NAME
        self.stdio_words: Sequence[str] | None = ("replay", str(replay.recording.path.resolve()))

    @property
    def tap(self) -> "UpstreamTap":
        return self._replay

    def config_file(self, target: str | None, options: Mapping[str, Any], given: Path | None) -> Path:
        from ..config import find

        file = given or (find() if target is None and not self.is_alone else None)
        return file or _write_config(self._folder, {"gateway": {"state_dir": str(self._folder / "state")}})

    is_alone = False
    """Whether nothing but the recording is served: then no configuration is looked for."""

    def address_file(self, url: str, headers: Mapping[str, str]) -> Path:
        return self.config_file(url, {}, None)

    def config(self, file: Path, config: "Config") -> "Config":
        from msgspec.structs import replace

        if file != self._own:
            found = _unlearned(self._replay.recording.config(config))
            if config.auth.knows_callers:  # their keys are in the state folder
                return found
            state = str(self._folder / "state")
            return replace(found, gateway=replace(found.gateway, state_dir=state))
        recorded = self._replay.recording.config()
        gateway = replace(recorded.gateway, state_dir=config.gateway.state_dir)
        return replace(recorded, gateway=gateway, files=config.files)

    def model_options(self) -> "ModelOptions":
        from ..agents.backends import Retries
        from ..recordings.replayer import ReplayTransport

        # Nobody checks the keys, and what failed for a while then need not be waited for. What is sent may
        # depend on whose API it is.
        environ = dict.fromkeys(_KEYS, "replayed") | dict(os.environ)
        for url in self._replay.recording.model_urls():
            for ending, variable in _ENDPOINTS.items():
                if url.endswith(ending):
                    environ[variable] = url.removesuffix(ending)
        retries = Retries() if self._replay.pace else Retries(wait=_at_once)
        return {"transport": ReplayTransport(self._replay), "environ": environ, "retries": retries}

    @property
    def today(self) -> date:
        return self._replay.recording.today


CONFIG_NAME = "toolyard.toml"
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_ENDPOINTS = {"/chat/completions": "OPENAI_BASE_URL", "/v1/messages": "ANTHROPIC_BASE_URL"}


async def _at_once(seconds: float) -> None:
    """Wait no time."""


def _unlearned(config: "Config") -> "Config":
    """Without what a search has learnt from earlier calls: a replay could not know it."""
    from msgspec.structs import replace

    return replace(config, search=replace(config.search, learn=False))


def _target_entry(target: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A target as an entry: its name and its fields. Files are found from the current folder."""
    from ..config.servers import BUNDLED, is_table

    place, _, attribute = target.rpartition(":") if ".py:" in target else (target, "", "")
    if is_table(target) or place.endswith(".py"):
        path = os.path.abspath(os.path.expanduser(place or target))
        name = Path(path).stem
        module = f"{path}:{attribute}" if attribute else path
    else:
        module = target
        name = target if target in BUNDLED else target.partition(":")[0].rpartition(".")[2]
    return name, {"module": module, **({"options": dict(options)} if options else {})}


def _escaped(value: Any) -> Any:
    """`${` means a variable in a configuration."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _write_config(folder: Path, tables: Mapping[str, Any]) -> Path:
    import tomlkit

    file = folder / CONFIG_NAME
    file.write_text(tomlkit.dumps(tables))
    file.chmod(0o600)
    return file


# Commands that run another command


class WrappingCommand(click.Command):
    """A command whose first argument is a file, and whose others are another command with its options."""

    values: frozenset[str] = frozenset()
    """Its options that take a value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        taken = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and not parameter.is_flag
            for name in parameter.opts
        }
        positional = 0
        number = 0
        while number < len(args) and positional < 2:
            word = args[number]
            if word in taken:
                number += 1
            elif not word.startswith("-") or word == "-":
                positional += 1
            if positional < 2:
                number += 1
        rest = super().parse_args(ctx, args[:number])
        ctx.params["words"] = tuple(args[number:])
        return rest


def check_words(ctx: click.Context, words: Sequence[str]) -> click.Command:
    """The command that the words name; CommandError if there is none that can be run."""
    assert ctx.parent is not None
    group = ctx.parent.command
    assert isinstance(group, click.Group)
    if words[0] in _NESTED:
        raise CommandError(f"`toolyard {ctx.info_name}` cannot run {words[0]!r}")
    _, command, _ = group.resolve_command(ctx.parent, list(words))
    assert command is not None
    return command


def run_command(ctx: click.Context, words: Sequence[str], traffic: Traffic) -> int:
    """Run another command with this traffic; returns its exit status. An error of its own is reported."""
    command = check_words(ctx, words)
    with _in_place(ctx, traffic), _ended_by_sigterm():
        try:
            with command.make_context(words[0], list(words[1:]), parent=ctx.parent) as context:
                found = command.invoke(context)
        except click.exceptions.Exit as exit:
            return exit.exit_code
        except SystemExit as exit:
            return exit.code if isinstance(exit.code, int) else 2 if exit.code else 0
        except (click.Abort, KeyboardInterrupt):
            return 130
        return found if isinstance(found, int) else 0


@contextmanager
def _in_place(ctx: click.Context, traffic: Traffic) -> Generator[None, None, None]:
    ctx.meta[_KEY] = traffic
    try:
        yield
    finally:
        del ctx.meta[_KEY]


@contextmanager
def _ended_by_sigterm() -> Generator[None, None, None]:
    """End as by Ctrl-C, so that a recording gets its last line. Commands may handle it themselves."""
    before: Any = None
    with suppress(ValueError):  # only the main thread may
        before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
