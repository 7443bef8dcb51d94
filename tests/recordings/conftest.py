import resource
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.cli.running import Served, Toolyard


@pytest.fixture
def limit_of_files() -> Iterator[Callable[[int], None]]:
    """Limits how long a file may become in this process, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demo server over HTTP."""
    with Toolyard(tmp_path_factory.mktemp("demo")).serving("demo") as served:
        yield served
