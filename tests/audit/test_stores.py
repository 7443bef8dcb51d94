"""What every store of the audit promises: files, SQLite and PostgreSQL."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.audit.records import KEY, full_disk, record, request_ids, stored_objects
from tests.stores import PostgresServer
from toolyard.audit import AuditLog, AuditUnavailableError, open_audit
from toolyard.audit.chain import ChainKey
from toolyard.audit.log import open_audit_store
from toolyard.audit.store import AuditStore, AuditStoreError
from toolyard.audit.verify import AuditReport, verify
from toolyard.config.callers import AuditConfig


def opened(url: str, folder: Path) -> AuditLog:
    return open_audit(AuditConfig(url=url, max_bytes=4000), folder, KEY)


def store_of(url: str, folder: Path) -> AuditStore:
    return open_audit_store(AuditConfig(url=url), folder, ChainKey(KEY))


async def written(url: str, folder: Path, *numbers: int) -> None:
    log = opened(url, folder)
    for number in numbers:
        await log.append(record(number))
    await log.close()


async def checked(url: str, folder: Path) -> AuditReport:
    store = store_of(url, folder)
    report = await verify(store, [ChainKey(KEY)])
    await store.close()
    return report


async def test_records_are_there_when_append_returns_and_chains_are_linked(url: str, tmp_path: Path):
    first = opened(url, tmp_path)
    await first.append(record(1))
    reader = store_of(url, tmp_path)
    assert await request_ids(reader) == ["r-1"]
    await first.close()
    await written(url, tmp_path, 2)
    starts = [line for line in await stored_objects(reader) if line["event"] == "start"]
    assert [[link["seq"] for link in start["links"]] for start in starts] == [[], [2]]
    await reader.close()
    report = await checked(url, tmp_path)
    assert report.is_intact
    assert [(chain.records, chain.state) for chain in report.chains] == [(1, "ended"), (1, "ended")]


async def test_concurrent_calls_are_all_written_each_once(url: str, tmp_path: Path):
    logs = [opened(url, tmp_path) for _ in range(3)]
    await asyncio.gather(
        *(logs[number % 3].append(record(number)) for number in range(300)),
    )
    for log in logs:
        await log.close()
    reader = store_of(url, tmp_path)
    assert sorted(await request_ids(reader)) == sorted(f"r-{number}" for number in range(300))
    await reader.close()
    report = await checked(url, tmp_path)
    assert report.is_intact
    assert [chain.records for chain in report.chains] == [100, 100, 100]


async def test_a_call_that_is_cancelled_while_it_waits_is_recorded(url: str, tmp_path: Path):
    log = opened(url, tmp_path)
    first = asyncio.create_task(log.append(record(1)))
    await asyncio.sleep(0)
    first.cancel()
    await log.append(record(2))
    await log.close()
    reader = store_of(url, tmp_path)
    assert await request_ids(reader) == ["r-1", "r-2"]
    await reader.close()


async def test_lines_are_read_on_from_where_a_reader_was(url: str, tmp_path: Path):
    log = opened(url, tmp_path)
    reader = store_of(url, tmp_path)
    seen: list[bytes] = []
    for number in range(30):
        await log.append(record(number))
        if number % 7 == 0:
            chain = await log.store.own_chain()
            after = len(seen) - 1
            while lines := await reader.read(chain, after, 2):
                seen += lines
                after += len(lines)
    chain = await log.store.own_chain()
    seen += await reader.read(chain, len(seen) - 1, 1000)
    assert seen == [line.data async for line in reader.scan(chain)]
    await reader.close()
    await log.close()


async def test_what_is_pruned_is_noted_and_the_rest_verifies(url: str, tmp_path: Path):
    await written(url, tmp_path, *range(10))
    await written(url, tmp_path, *range(10, 14))
    live = opened(url, tmp_path)
    await live.append(record(20))
    removed = await live.store.prune(time.time() + 1000)
    assert len(removed) >= 2
    await live.append(record(21))
    await live.close()
    report = await checked(url, tmp_path)
    assert report.is_intact, report.damages
    assert report.pruned == len(removed)
    reader = store_of(url, tmp_path)
    assert not {"r-0", "r-10"} & set(await request_ids(reader))
    assert "r-21" in await request_ids(reader)
    await reader.close()
    await written(url, tmp_path, 30)
    assert (await checked(url, tmp_path)).is_intact


async def test_nothing_is_pruned_before_its_time(url: str, tmp_path: Path):
    await written(url, tmp_path, 1, 2)
    store = store_of(url, tmp_path)
    # The records of these tests have a fixed time, the rows of a database that of their writing.
    assert await store.prune(0.0) == []
    assert await request_ids(store) == ["r-1", "r-2"]
    await store.close()


@pytest.mark.parametrize("url", ["file:", "sqlite:"])
async def test_calls_are_refused_while_the_disk_is_full(url: str, tmp_path: Path):
    log = opened(url, tmp_path)
    await log.append(record(0))
    with full_disk(0):
        with pytest.raises(AuditUnavailableError):
            await log.append(record(1))
        with pytest.raises(AuditUnavailableError):
            await log.ensure_writable()
        with pytest.raises(AuditStoreError):
            await log.check()
    await log.check()  # calls may be kept away from a gateway that refuses them
    assert not log.is_failing
    await log.append(record(2))
    await log.close()
    reader = store_of(url, tmp_path)
    assert await request_ids(reader) == ["r-0", "r-2"]
    await reader.close()
    report = await checked(url, tmp_path)
    assert report.is_intact
    assert report.chains[0].lost == 1


CHANGES = {
    "altered": "UPDATE toolyard_audit SET line = replace(line, 'git_log', 'git_xxx') WHERE seq = 3",
    "missing": "DELETE FROM toolyard_audit WHERE seq = 3",
    "cut off": "DELETE FROM toolyard_audit WHERE seq > 4",
    "reordered": "UPDATE toolyard_audit SET seq = 100 WHERE seq = 3",
    "unreadable": "UPDATE toolyard_audit SET line = 'nothing' WHERE seq = 3",
    "emptied": "DELETE FROM toolyard_audit",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_row_is_found(
    database: tuple[str, Callable[[str], None]], change: str, tmp_path: Path
):
    address, run = database
    await written(address, tmp_path, *range(6))
    assert (await checked(address, tmp_path)).is_intact
    run(CHANGES[change])
    kinds = {damage.kind for damage in (await checked(address, tmp_path)).damages}
    assert kinds & {change, "missing", "reordered"}


async def test_calls_are_refused_while_postgres_is_down_and_recorded_when_it_is_back(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
):
    log = opened(postgres_url, tmp_path)
    await log.append(record(1))
    postgres_server.stop()
    try:
        with pytest.raises(AuditUnavailableError):
            await log.append(record(2))
        with pytest.raises(AuditUnavailableError):
            await log.ensure_writable()
    finally:
        postgres_server.start()
    await log.ensure_writable()
    await log.append(record(3))
    await log.close()
    reader = store_of(postgres_url, tmp_path)
    assert await request_ids(reader) == ["r-1", "r-3"]
    await reader.close()
    report = await checked(postgres_url, tmp_path)
    assert report.is_intact
    assert report.chains[0].lost == 1


async def test_a_restart_of_postgres_between_two_calls_is_not_noticed(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
):
    log = opened(postgres_url, tmp_path)
    await log.append(record(1))
    postgres_server.restart()
    await log.append(record(2))
    await log.close()
    assert (await checked(postgres_url, tmp_path)).is_intact


async def test_a_gateway_that_may_only_insert_records_can_keep_an_audit(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
):
    await written(postgres_url, tmp_path, 1)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for statement in (
            "CREATE ROLE scribe LOGIN PASSWORD 'correct-horse-battery'",
            "GRANT SELECT, INSERT ON toolyard_audit TO scribe",
            "GRANT SELECT, INSERT, UPDATE ON toolyard_audit_chains, toolyard_audit_cursors TO scribe",
        ):
            connection.execute(statement.encode())
    await written(postgres_url.replace("//yard:", "//scribe:"), tmp_path, 2, 3)
    report = await checked(postgres_url, tmp_path)
    assert report.is_intact
    assert [chain.records for chain in report.chains] == [1, 2]
