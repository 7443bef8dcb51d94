"""The audit as files: what is written, rotated, kept while disks are full, and found by a check."""

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.records import KEY, full_disk, record, request_ids, stored_objects
from toolyard.audit import AuditLog, AuditUnavailableError, open_audit
from toolyard.audit.chain import ChainKey
from toolyard.audit.files import FileAuditStore
from toolyard.audit.verify import AuditReport, verify
from toolyard.config.callers import AuditConfig


def opened(folder: Path, key: bytes | None = KEY, **changes: object) -> AuditLog:
    return open_audit(AuditConfig(url="file:", **changes), folder, key)  # pyright: ignore[reportArgumentType]


async def written(folder: Path, count: int, key: bytes | None = KEY, **changes: object) -> None:
    log = opened(folder, key, **changes)
    for number in range(count):
        await log.append(record(number))
    await log.close()


async def checked(folder: Path, *keys: bytes) -> AuditReport:
    known = [ChainKey(key) for key in keys or (KEY,)]
    return await verify(FileAuditStore(folder / "audit", known[0]), known)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "audit").glob("2*.jsonl"))


async def test_records_are_lines_of_a_private_file_between_a_start_and_an_end(tmp_path: Path):
    await written(tmp_path, 3)
    [file] = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    found = await stored_objects(FileAuditStore(tmp_path / "audit", ChainKey(KEY)))
    assert [line["event"] for line in found] == ["start", "call", "call", "call", "end"]
    assert [line["seq"] for line in found] == [0, 1, 2, 3, 4]
    assert found[0]["pid"] == os.getpid()
    assert found[1]["tool"] == "git_log"
    assert found[1]["subject"] == "jane"
    report = await checked(tmp_path)
    assert report.is_intact
    assert [(chain.records, chain.state) for chain in report.chains] == [(3, "ended")]


async def test_a_record_is_in_the_file_when_append_returns(tmp_path: Path):
    log = opened(tmp_path)
    await log.append(record(7))
    assert b'"request_id":"r-7"' in files(tmp_path)[0].read_bytes()
    assert (await checked(tmp_path)).chains[0].state == "open"
    await log.close()


async def test_a_file_that_is_full_is_followed_by_another_of_the_same_chain(tmp_path: Path):
    await written(tmp_path, 50, max_bytes=4000)
    assert len(files(tmp_path)) > 3
    assert all(file.stat().st_size <= 4000 for file in files(tmp_path))
    report = await checked(tmp_path)
    assert report.is_intact
    assert len(report.chains) == 1
    assert await request_ids(FileAuditStore(tmp_path / "audit", ChainKey(KEY))) == [
        f"r-{number}" for number in range(50)
    ]


async def test_each_process_has_a_chain_that_links_to_the_one_before(tmp_path: Path):
    await written(tmp_path, 2)
    await written(tmp_path, 2)
    first, second = [
        line
        for line in await stored_objects(FileAuditStore(tmp_path / "audit", ChainKey(KEY)))
        if line["event"] == "start"
    ]
    assert first["links"] == []
    assert [(link["chain"], link["seq"]) for link in second["links"]] == [(first["chain"], 3)]
    assert (await checked(tmp_path)).is_intact


async def test_a_missing_file_is_found_by_the_chain_or_by_the_next_one(tmp_path: Path):
    await written(tmp_path, 20, max_bytes=4000)
    await written(tmp_path, 1)
    first, middle, *_, before_last, _ = files(tmp_path)
    for removed in (first, middle, before_last):
        data = removed.read_bytes()
        removed.unlink()
        assert [damage.kind for damage in (await checked(tmp_path)).damages] == ["missing"]
        removed.write_bytes(data)
    assert (await checked(tmp_path)).is_intact


async def test_a_torn_last_line_is_reported_as_torn_and_the_next_writer_begins_a_chain(tmp_path: Path):
    log = opened(tmp_path)
    for number in range(3):
        await log.append(record(number))
    [file] = files(tmp_path)
    os.truncate(file, file.stat().st_size - 100)
    report = await checked(tmp_path)
    assert report.is_intact
    assert [chain.state for chain in report.chains] == ["torn"]
    await written(tmp_path, 1)
    report = await checked(tmp_path)
    assert report.is_intact
    assert sorted(chain.state for chain in report.chains) == ["ended", "torn"]


async def test_without_the_key_a_chain_can_neither_be_checked_nor_be_made_anew(tmp_path: Path):
    await written(tmp_path, 3)
    report = await checked(tmp_path, b"another key of the gateway")
    assert [damage.kind for damage in report.damages] == ["unknown key"]
    assert (await checked(tmp_path, b"another key of the gateway", KEY)).is_intact
    files(tmp_path)[0].unlink()
    await written(tmp_path, 3, key=None)
    assert [damage.kind for damage in (await checked(tmp_path)).damages] == ["unsigned"]


async def test_closed_refuses_calls_while_the_disk_is_full_and_says_how_many_were_lost(tmp_path: Path):
    log = opened(tmp_path)
    await log.append(record(0))
    with full_disk(files(tmp_path)[0].stat().st_size + 100):
        with pytest.raises(AuditUnavailableError) as refused:
            await log.append(record(1))
        assert refused.value.http_status == 503
        with pytest.raises(AuditUnavailableError):
            await log.ensure_writable()
    await log.ensure_writable()
    await log.append(record(2))
    await log.close()
    store = FileAuditStore(tmp_path / "audit", ChainKey(KEY))
    assert await request_ids(store) == ["r-0", "r-2"]
    lost = [line for line in await stored_objects(store) if line["event"] == "lost"]
    assert [line["count"] for line in lost] == [1]
    report = await checked(tmp_path)
    assert report.is_intact
    assert report.chains[0].lost == 1


async def test_open_goes_on_and_counts(tmp_path: Path):
    log = opened(tmp_path, unavailable="open")
    await log.append(record(0))
    with full_disk(files(tmp_path)[0].stat().st_size + 100):
        await log.append(record(1))
        await log.ensure_writable()
        await log.append(record(2))
    await log.append(record(3))
    await log.close()
    assert (log.written, log.lost) == (2, 2)
    assert (await checked(tmp_path)).chains[0].lost == 2


async def test_a_folder_that_cannot_be_written_refuses_calls_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "audit").write_text("a file where the folder should be")
    with pytest.raises(AuditUnavailableError) as refused:
        await opened(tmp_path).append(record())
    assert str(tmp_path) not in str(refused.value)
    assert "File exists" in caplog.text
    assert "calls are refused" in caplog.text


async def test_a_log_that_cannot_begin_refuses_the_first_call_before_it_has_any_effect(tmp_path: Path):
    (tmp_path / "audit").write_text("a file where the folder should be")
    log = opened(tmp_path)
    await log.start()
    with pytest.raises(AuditUnavailableError):
        await log.ensure_writable()
    (tmp_path / "audit").unlink()
    await log.ensure_writable()
    await log.append(record())
    await log.close()
    assert (await checked(tmp_path)).chains[0].lost == 0


async def test_a_file_that_is_old_is_followed_by_another(tmp_path: Path):
    store = FileAuditStore(tmp_path / "audit", ChainKey(KEY), max_age=-1.0)
    await store.append(b'{"event":"call","time":"2026-11-16T12:00:00Z"}')
    await store.close()
    assert len(files(tmp_path)) == 3
    assert (await checked(tmp_path)).is_intact


async def test_a_journal_of_retention_that_was_changed_does_not_excuse_anything(tmp_path: Path):
    await written(tmp_path, 12, max_bytes=3000)
    live = opened(tmp_path)
    await live.append(record())
    await live.store.prune(time.time() + 1000)
    assert (await checked(tmp_path)).is_intact
    [journal] = (tmp_path / "audit").glob("pruned-*.jsonl")
    text = journal.read_bytes()
    journal.write_bytes(text.replace(b'"last":{', b'"last": {', 1))
    assert not (await checked(tmp_path)).is_intact
    journal.write_bytes(b"")
    assert [damage.kind for damage in (await checked(tmp_path)).damages] == ["missing"]
    journal.write_bytes(text)
    assert (await checked(tmp_path)).is_intact
    await live.close()


@pytest.mark.parametrize("event", ["start", "call", "end"])
async def test_a_line_that_is_no_unicode_is_damage_like_any_other(tmp_path: Path, event: str):
    await written(tmp_path, 1)
    [file] = files(tmp_path)
    file.write_bytes(
        file.read_bytes().replace(
            f'"{event}"'.encode(), f'"{event}","x":"\udc80"'.encode("utf-8", "surrogateescape")
        )
    )
    assert not (await checked(tmp_path)).is_intact


CHANGES = ["edit", "delete", "swap", "insert", "repeat", "cut"]


@given(st.data())
async def test_any_single_change_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    folder = tmp_path_factory.mktemp("audit")
    await written(folder, 12, max_bytes=3000)
    await written(folder, 2)
    paths = files(folder)
    assert (await checked(folder)).is_intact
    change(paths, data)
    report = await checked(folder)
    # The end of the newest chain is the one place where a cut looks like a killed process.
    assert not report.is_intact or any(chain.state != "ended" for chain in report.chains)
    if report.is_intact:
        assert report.chains[-1].state != "ended"
        assert [chain.state for chain in report.chains[:-1]] == ["ended"]


def change(paths: list[Path], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(paths), "file")
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1), "line")
    match data.draw(st.sampled_from(CHANGES), "change"):
        case "edit":
            place = data.draw(st.integers(0, len(text) - 1), "byte")
            byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[place]), "value")
            path.write_bytes(text[:place] + bytes([byte]) + text[place + 1 :])
        case "delete":
            del lines[at]
            path.write_bytes(b"".join(lines))
        case "swap":
            other = data.draw(st.integers(0, len(lines) - 1).filter(lambda n: n != at), "with")
            lines[at], lines[other] = lines[other], lines[at]
            path.write_bytes(b"".join(lines))
        case "insert":
            piece = data.draw(st.binary(min_size=1, max_size=40), "piece")
            place = data.draw(st.integers(0, len(text)), "at")
            path.write_bytes(text[:place] + piece + text[place:])
        case "repeat":
            source = data.draw(st.sampled_from(paths), "from").read_bytes().splitlines(keepends=True)
            lines.insert(at, data.draw(st.sampled_from(source), "copy"))
            path.write_bytes(b"".join(lines))
        case _:
            start = data.draw(st.integers(0, len(text) - 1), "from")
            end = data.draw(st.integers(start + 1, len(text)), "to")
            path.write_bytes(text[:start] + text[end:])
