from collections.abc import Iterator

import pytest

from tests.thirdparty.mounting import Mounted, everything_mounted


@pytest.fixture(scope="package")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    """One gateway with all of the servers: that they are there together is what is tested."""
    with everything_mounted(tmp_path_factory.mktemp("mounted")) as found:
        yield found
