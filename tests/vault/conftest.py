"""Vaults on real stores: each call of `another` opens the same vault as another process would."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.artifacts.servers import Moto
from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard.state import State, open_state
from toolyard.vault.master_keys import FileSource, KeySource, MasterKeys
from toolyard.vault.vault import Vault

Another = Callable[..., Vault]


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    need("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/state.db"
    return request.getfixturevalue(f"{request.param}_server").url


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[State]:
    opened = open_state("sqlite:", tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def another(tmp_path: Path) -> AsyncIterator[Another]:
    async with AsyncExitStack() as stack:

        def opened(*sources: KeySource, url: str = "sqlite:") -> Vault:
            current, *previous = sources or (FileSource(tmp_path / "vault.key", makes_itself=True),)
            vault = Vault(open_state(url, tmp_path), MasterKeys(current, previous), owns_state=True)
            stack.push_async_callback(vault.close)
            return vault

        yield opened


@pytest.fixture
def vault(another: Another) -> Vault:
    return another()


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    with Moto(tmp_path_factory.mktemp("aws")) as server:
        yield server


@pytest.fixture
def aws_environment(aws: Moto, monkeypatch: pytest.MonkeyPatch) -> Moto:
    """What botocore reads: the address of the emulator, a region and credentials."""
    for name, value in {
        "AWS_ENDPOINT_URL": aws.url,
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return aws
