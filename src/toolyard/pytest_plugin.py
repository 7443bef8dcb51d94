"""The pytest fixture `toolyard_replay`: the servers of a recording, for tests of one's own agent.

`pytest_plugins = ["toolyard.pytest_plugin"]` loads it. It is not an entry point of the package: pytest would
rewrite the assertions of every module of Toolyard in everybody's tests, and imports in threads then fail now
and then (a fault of `ast` in Python 3.11). Imports nothing at the top but pytest, so that collecting is fast.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from .app.background import BackgroundGateway
    from .recordings.recording import RecordedCall, Recording
    from .recordings.replayer import Replay, ReplayedCall
    from .wire.call import Service

_OPTION = "--toolyard-record"


class ReplayedServers:
    """A recording that is being served; `.url` is its MCP endpoint over HTTP."""

    def __init__(self, gateway: "BackgroundGateway", replay: "Replay", strict: bool) -> None:
        self._gateway = gateway
        self._replay = replay
        self.strict = strict
        """Whether the test fails if it makes a call that was not recorded."""
        self.url: str = gateway.url

    @property
    def server(self) -> "Service":
        """The same for `toolyard.Client` in this process."""
        return self._gateway.service

    @property
    def calls(self) -> "list[ReplayedCall]":
        """What was called, in order."""
        return [call for call in self._replay.calls if call.match != "none"]

    @property
    def unmatched(self) -> "list[ReplayedCall]":
        """Calls that were not recorded."""
        return self._replay.unmatched

    @property
    def unused(self) -> "list[RecordedCall]":
        """Recorded calls that nobody made."""
        return self._replay.unused

    def close(self) -> None:
        self._gateway.close()
        self._replay.recording.close()


class RecordedServers:
    """In the place of `ReplayedServers` with `--toolyard-record`: the real servers, being recorded."""

    strict = False

    def __init__(self, config: Path, file: Path, state: Path) -> None:
        from .app.background import BackgroundGateway
        from .recordings.format import HeaderLine, RecordingWriter
        from .recordings.recorder import TrafficRecorder
        from .vault.references import load_resolved

        self._writer = RecordingWriter(file, HeaderLine(command=("pytest",)), overwrite=True)
        try:
            self._gateway = BackgroundGateway(
                _in_folder(load_resolved(config), state), TrafficRecorder(self._writer)
            )
        except BaseException:
            self._writer.close()
            raise
        self.url: str = self._gateway.url

    @property
    def server(self) -> "Service":
        return self._gateway.service

    calls: "list[ReplayedCall]" = []  # noqa: RUF012 (nothing is ever added)
    unmatched: "list[ReplayedCall]" = []  # noqa: RUF012
    unused: "list[RecordedCall]" = []  # noqa: RUF012

    def close(self) -> None:
        self._gateway.close()
        self._writer.end(0)
        if self._writer.fault is not None:
            raise self._writer.fault


class ServeRecording(Protocol):
    """What the fixture gives: serves a recording until the test is over."""

    def __call__(
        self,
        file: str | Path,
        *,
        lenient: bool = False,
        strict: bool = True,
        view: str | None = None,
        config: str | Path | None = None,
    ) -> ReplayedServers | RecordedServers: ...


_SERVED = pytest.StashKey[list[ReplayedServers | RecordedServers]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("toolyard").addoption(
        _OPTION,
        action="store_true",
        help="make the recordings of toolyard_replay(FILE, config=CONFIG) anew, from the servers of CONFIG",
    )


@pytest.fixture
def toolyard_replay(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ServeRecording, None, None]:
    """Serve recordings of `toolyard record`: `toolyard_replay("run.jsonl").url` is an MCP endpoint.

    A relative file is looked for beside the test. `lenient` answers an unknown call like the one that is most
    like it; `strict=False` lets a test make calls that were not recorded; `view` is "search", "all" or "bare"
    if not as recorded; with `config`, `--toolyard-record` makes the recording anew.
    """
    served = request.node.stash.setdefault(_SERVED, [])
    folder = Path(request.path).parent

    def serve(
        file: str | Path,
        *,
        lenient: bool = False,
        strict: bool = True,
        view: str | None = None,
        config: str | Path | None = None,
    ) -> ReplayedServers | RecordedServers:
        state = tmp_path_factory.mktemp("toolyard")
        if config is not None and request.config.getoption(_OPTION):
            served.append(RecordedServers(folder / config, folder / file, state))
        else:
            served.append(_replay(folder / file, state, lenient, strict, view))
        return served[-1]

    yield serve
    while served:
        served.pop().close()


def _replay(file: Path, state: Path, lenient: bool, strict: bool, view: str | None) -> ReplayedServers:
    # 200 ms of CPU, for the first test that uses it.
    from .app.background import BackgroundGateway
    from .recordings.recording import Recording
    from .recordings.replayer import Replay

    recording = Recording(file)
    try:
        replay = Replay(recording, lenient=lenient)
        config = _in_folder(_recorded(recording, view), state)
        return ReplayedServers(BackgroundGateway(config, replay), replay, strict)
    except BaseException:
        recording.close()
        raise


def _recorded(recording: "Recording", view: str | None) -> Any:
    from msgspec.structs import replace

    config = recording.config()
    if view is None:
        return config
    if view not in ("auto", "search", "index", "all", "bare"):
        raise ValueError(f"no view {view!r}: there are 'auto', 'search', 'index', 'all' and 'bare'")
    alone = config.gateway.server or next(iter(recording.servers), "")
    gateway = replace(config.gateway, view=view, server=alone if view == "bare" else "")
    return replace(config, gateway=gateway)


def _in_folder(config: Any, folder: Path) -> Any:
    from msgspec.structs import replace

    return replace(config, gateway=replace(config.gateway, state_dir=str(folder)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that made calls which were not recorded, whatever its agent made of the errors."""
    result = yield
    served: list[ReplayedServers | RecordedServers] = item.stash.get(_SERVED, None) or []
    unknown = [call.message for servers in served if servers.strict for call in servers.unmatched]
    if unknown:
        lines = "\n".join(f"- {message}" for message in unknown)
        pytest.fail(f"calls that were not recorded:\n{lines}", pytrace=False)
    return result
