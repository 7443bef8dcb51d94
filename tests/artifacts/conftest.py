"""Every kind of store, on the real thing, each server started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.artifacts.places import AzurePlace, GcsPlace, LocalPlace, Place, S3Place, SupabasePlace
from tests.artifacts.servers import AZURITE, Azurite, Moto
from tests.emulators.supabase import SupabaseEmulator


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    with Moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    assert AZURITE.exists(), "Azurite is not installed; hint: make setup"
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def supabase_server() -> Iterator[SupabaseEmulator]:
    with SupabaseEmulator() as emulator:
        yield emulator


@pytest.fixture
def supabase(supabase_server: SupabaseEmulator) -> Iterator[SupabaseEmulator]:
    yield supabase_server
    supabase_server.fault = None


@pytest.fixture
def s3_place(moto: Moto, tmp_path: Path) -> S3Place:
    return S3Place(tmp_path, moto)


@pytest.fixture
def azure_place(azurite: Azurite, tmp_path: Path) -> AzurePlace:
    made = AzurePlace(tmp_path, azurite)
    made.prepare()
    return made


@pytest.fixture
def supabase_place(supabase: SupabaseEmulator, tmp_path: Path) -> SupabasePlace:
    return SupabasePlace(tmp_path, supabase)


@pytest.fixture
def gcs_place(tmp_path: Path) -> GcsPlace:
    return GcsPlace(tmp_path)


@pytest.fixture
def local_place(tmp_path: Path) -> LocalPlace:
    return LocalPlace(tmp_path)


@pytest.fixture(params=["local", "s3", "azure", "supabase"])
def place(request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture(params=["s3", "gcs", "azure", "supabase"])
def any_place(request: pytest.FixtureRequest) -> Place:
    """Those too of which only the failures can be seen."""
    return request.getfixturevalue(f"{request.param}_place")


@pytest.fixture(params=["s3", "azure", "supabase"])
def remote_place(request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(f"{request.param}_place")
