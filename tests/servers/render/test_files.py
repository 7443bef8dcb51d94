"""The same three tools on log files: formats, rotation, periods of time, levels, big files."""

import gzip
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.servers.render.talking import ERAS, talking
from tests.servers.render.writing import ago, as_export, as_json, iso, journal, write


@pytest.mark.parametrize("era", ERAS)
async def test_logs_errors_and_status_come_from_files(era: str, tmp_path: Path) -> None:
    write(
        tmp_path / "shop.log",
        f"{iso(7000)} INFO started",
        f"{iso(120)} INFO order placed",
        f"{iso(60)} ERROR payment failed",
        "Traceback (most recent call last):",
        '  File "bank.py", line 3, in charge',
        "",
        "BankTimeout: no answer",
        f"{iso(30)} WARNING pool is nearly full",
    )
    write(tmp_path / "worker.log", f"{iso(90)} ERROR import stopped", f"{iso(5)} CRITICAL out of memory")
    async with talking(era, files=str(tmp_path)) as talk:
        logs = await talk.logs()
        assert [(entry["service"], entry["level"]) for entry in logs.structured["entries"]] == [
            ("worker", "critical"),
            ("shop", "warning"),
            ("shop", "error"),
            ("worker", "error"),
            ("shop", "info"),
        ]
        assert (logs.structured["source"], logs.structured["service"]) == ("files", "all")
        assert talk.progress == [(1, 2, "shop read"), (2, 2, "worker read")]
        errors = await talk.errors(service="shop")
        assert errors.messages == [
            "ERROR payment failed\nTraceback (most recent call last):\n"
            '  File "bank.py", line 3, in charge\nBankTimeout: no answer'
        ]
        assert (await talk.errors(service="worker")).structured["total_errors"] == 2
        assert (await talk.logs(service="shop", hours=2)).structured["total_logs"] == 4
        assert (await talk.logs(text="POOL*full")).structured["total_logs"] == 1
        assert (await talk.logs(limit=2)).structured["has_more"] is True
        assert "Did you mean 'worker'" in await talk.refusal(service="workers")
        status = await talk.status()
        assert {name: service["errors_15min"] for name, service in status.items()} == {"shop": 1, "worker": 2}


NGINX = '10.0.0.7 - ana [{}] "GET /cart?id=1 HTTP/1.1" {} 512 "-" "Mozilla/5.0"'
ACCESS, RFC3339 = "%d/%b/%Y:%H:%M:%S +0000", "%Y-%m-%dT%H:%M:%S.123456789Z"
SECONDS = "%s"
LINES: list[tuple[str, str, str, str, str]] = [
    # The line with {} for its moment, the form of the moment, level, type, and what the message has.
    ("{} [worker-1] ERROR shop - it broke", "%Y-%m-%d %H:%M:%S,123", "error", "app", "it broke"),
    ("{} INFO no error here", "%Y-%m-%dT%H:%M:%S+00:00", "info", "app", "no error here"),
    ("ERROR [{}] shop: it broke", "%Y-%m-%d %H:%M:%S", "error", "app", "it broke"),
    ("{} [error] 12#0: *1 connect() failed", "%Y/%m/%d %H:%M:%S", "error", "app", "connect() failed"),
    ("[{}] [core:warn] [pid 5] AH00098: pid", "%a %b %d %H:%M:%S.000001 %Y", "warning", "app", "AH00098"),
    ("{} UTC [42] FATAL:  database does not exist", "%Y-%m-%d %H:%M:%S.111", "critical", "app", "database"),
    ("{} host sshd[812]: error: kex failed", "%b %d %H:%M:%S", "error", "app", "error: kex failed"),
    ("<11>1 {} host shop 7 - - it broke", RFC3339, "error", "app", "it broke"),
    ("{}.25 DEBUG by epoch", SECONDS, "debug", "app", "by epoch"),
    (NGINX.format("{}", 502), ACCESS, "error", "request", "GET /cart?id=1 HTTP/1.1 502"),
    (NGINX.format("{}", 404), ACCESS, "warning", "request", "404"),
    ("shop.example:443 " + NGINX.format("{}", 200), ACCESS, "info", "request", "200"),
    ('{"time": "{}", "level": "WARN", "msg": "slow"}', RFC3339, "warning", "app", "slow"),
    ('{"ts": {}, "level": 50, "msg": "it broke"}', SECONDS, "error", "app", "it broke"),
    ('{"ts": {}123, "level": 30, "msg": "in ms"}', SECONDS, "info", "app", "in ms"),
    ('{"@timestamp": "{}", "message": "m", "log.level": "info"}', RFC3339, "info", "app", "m"),
    ('{"time": "{}", "log": "ERROR boo\\n", "stream": "stderr"}', RFC3339, "error", "app", "boo"),
    ('{"time": "{}", "method": "GET", "status": 500, "msg": "GET /"}', RFC3339, "error", "request", "GET /"),
    ('{"timestamp": "{}", "type": "build", "message": "made"}', RFC3339, "info", "build", "made"),
    ('{"asctime": "{}", "message": "oh", "stack": "at 3"}', "%Y-%m-%d %H:%M:%S", "info", "app", "oh\nat 3"),
]


async def test_each_format_gives_its_moment_level_type_and_message(tmp_path: Path) -> None:
    moments = [ago(100 + number).replace(microsecond=0) for number in range(len(LINES))]
    for number, ((template, form, *_), moment) in enumerate(zip(LINES, moments, strict=True)):
        stamp = str(int(moment.timestamp())) if form == SECONDS else f"{moment:{form}}"
        write(tmp_path / f"app{number}x.log", template.replace("{}", stamp))
    async with talking(files=str(tmp_path), timezone="UTC") as talk:
        entries = (await talk.logs(limit=100)).structured["entries"]
    for entry, moment, (template, _, level, kind, message) in zip(entries, moments, LINES, strict=True):
        assert entry["timestamp"].startswith(f"{moment:%Y-%m-%dT%H:%M:%S}"), template
        assert (entry["level"], entry["type"]) == (level, kind), template
        assert message in entry["message"], template


async def test_timestamps_without_a_zone_are_of_the_zone_that_is_set(tmp_path: Path) -> None:
    moment = ago(100).replace(microsecond=0)
    write(tmp_path / "app.log", f"{moment - timedelta(hours=3):%Y-%m-%d %H:%M:%S} INFO here")
    async with talking(files=str(tmp_path), timezone="America/Sao_Paulo") as talk:
        (entry,) = (await talk.logs()).structured["entries"]
        assert entry["timestamp"].startswith(f"{moment:%Y-%m-%dT%H:%M:%S}")


@pytest.mark.parametrize("form", ["json", "export", "export.gz"])
async def test_exports_of_the_journal_have_a_service_for_each_unit(form: str, tmp_path: Path) -> None:
    entries = [
        journal(7_300, "shop", "too old"),
        journal(60, "sshd", "session opened"),
        journal(40, "shop", "it broke\n\n__nearly a separator\nat the end", priority=3),
        journal(20, "shop", "careful", priority=4),
        journal(10, "sshd", "session closed", priority=7),
    ]
    if form == "json":
        # A message that is not text comes as numbers.
        entries.append(journal(5, "shop", list("naïve".encode())))
        write(tmp_path / "night.json", *as_json(*entries))
    else:
        entries.append(journal(5, "shop", "naïve"))
        raw = as_export(*entries)
        (tmp_path / f"night.{form}").write_bytes(gzip.compress(raw) if form.endswith("gz") else raw)
    async with talking(files=str(tmp_path)) as talk:
        said = await talk.logs(service="shop")
        assert said.messages == ["naïve", "careful", "it broke\n\n__nearly a separator\nat the end"]
        assert [entry["level"] for entry in said.structured["entries"]] == ["info", "warning", "error"]
        assert (await talk.logs()).structured["total_logs"] == 5
        assert (await talk.logs(service="night")).structured["total_logs"] == 5
        assert "Did you mean 'sshd'?" in await talk.refusal(service="ssh")
        assert (await talk.status())["shop"]["errors_15min"] == 1


async def test_rotated_files_are_one_log_and_a_traceback_across_them_one_entry(tmp_path: Path) -> None:
    write(tmp_path / "app.log", "  in charge", "BankTimeout", f"{iso(10)} INFO newest")
    write(
        tmp_path / "app.log.1",
        f"{iso(70)} INFO before",
        f"{iso(60)} ERROR broke",
        "Traceback (most recent call last):",
    )
    write(tmp_path / "app.log.2.gz", f"{iso(90)} INFO packed")
    write(tmp_path / "app.log.10.gz", f"{iso(300)} INFO oldest")
    write(tmp_path / "web-2026-11-14.log", f"{iso(50)} INFO of a day")
    write(tmp_path / "web.log", f"{iso(40)} INFO of today")
    async with talking(files=f"{tmp_path}/*.log*") as talk:
        assert (await talk.logs(service="app")).messages == [
            "INFO newest",
            "ERROR broke\nTraceback (most recent call last):\n  in charge\nBankTimeout",
            "INFO before",
            "INFO packed",
            "INFO oldest",
        ]
        assert (await talk.logs(service="web")).messages == ["INFO of today", "INFO of a day"]
        assert list(await talk.status()) == ["app", "web"]


async def test_of_a_big_file_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    with path.open("wb") as handle:
        # A hole of 2 GiB: whoever reads all of it would not be done in time.
        handle.truncate(2 << 30)
        handle.seek(0, os.SEEK_END)
        handle.write(b"\n")
        handle.writelines(
            f"{iso(2_000 - number / 10)} INFO line {number}\n".encode() for number in range(10_000)
        )
        handle.write(f"{iso(1)} INFO {'x' * 3_000_000}\n".encode())
        handle.write(f"{iso(1)} INFO last\n".encode())
    async with talking(files=str(path)) as talk:
        said = await talk.logs(limit=3)
        assert said.messages[0] == "INFO last"
        assert said.messages[1].startswith("INFO xxx")
        assert len(said.messages[1]) < 5_000
        assert said.messages[2] == "INFO line 9999"
        assert (await talk.logs(text="line 9000")).structured["total_logs"] == 1
        early = await talk.logs(text="nowhere", hours=24)
        assert early.structured["has_more"] is True
        assert early.structured["notices"] == ["Only the newest 64 MiB of big were searched."]


async def test_old_copies_are_read_when_time_counts_from_their_newest_entry(tmp_path: Path) -> None:
    day = 86_400
    newest = ago(8 * day)
    lines = [f"{iso(9 * day)} ERROR long before", f"{iso(8 * day + 60)} ERROR broke"]
    write(tmp_path / "old.log", *lines, f"{newest:%Y-%m-%dT%H:%M:%SZ} INFO end")
    async with talking(files=str(tmp_path)) as talk:
        said = await talk.logs()
        assert said.messages == []
        (notice,) = said.structured["notices"]
        assert notice.startswith(f"The newest entry is from {newest:%Y-%m-%dT%H:%M:%S}")
    async with talking(files=str(tmp_path), clock="newest") as talk:
        assert (await talk.logs()).messages == ["INFO end", "ERROR broke"]
        assert (await talk.errors()).messages == ["ERROR broke"]


async def test_a_file_without_timestamps_has_a_record_for_each_line(tmp_path: Path) -> None:
    write(tmp_path / "plain.txt", "starting", "ERROR it broke", "done")
    async with talking(files=str(tmp_path)) as talk:
        assert (await talk.logs()).messages == ["done", "ERROR it broke", "starting"]
        assert (await talk.errors()).messages == ["ERROR it broke"]


async def test_what_cannot_be_read_is_named_and_the_rest_is_answered(tmp_path: Path) -> None:
    write(tmp_path / "good.log", f"{iso(9)} INFO here")
    (tmp_path / "broken.log.gz").write_bytes(b"\x1f\x8b not really")
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 50)
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    cut = gzip.compress("".join(f"{iso(9)} INFO cut {n}\n" for n in range(3_000)).encode())
    (tmp_path / "cut.log.gz").write_bytes(cut[: len(cut) // 2])
    async with talking(files=str(tmp_path)) as talk:
        assert (await talk.logs(service="good")).messages == ["INFO here"]
        said = await talk.logs(text="here")
        assert said.messages == ["INFO here"]
        assert any(notice.startswith("broken.log.gz cannot be read") for notice in said.structured["notices"])
        cut_off = (await talk.logs(service="cut")).structured
        assert cut_off["total_logs"] == 50
        assert cut_off["notices"][0].startswith("cut.log.gz cannot be read")
        status = await talk.status()
        assert status["good"]["ok"] is True
        assert status["broken"]["ok"] is False
        assert "cannot be read" in status["broken"]["problem"]


@pytest.mark.parametrize("value", ["/no/such/*.log", ["/no/such/file", "/neither"]])
async def test_files_that_are_not_there_are_said_with_the_setting(value: Any) -> None:
    async with talking(files=value, locale="pt") as talk:
        assert "Nenhum arquivo de log corresponde a '/no/such/" in await talk.refusal()


async def test_two_logs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    write(tmp_path / "blue" / "app.log", f"{iso(9)} INFO blue")
    write(tmp_path / "green" / "app.log", f"{iso(8)} INFO green")
    async with talking(files=[str(tmp_path / "blue"), str(tmp_path / "green" / "*")]) as talk:
        assert (await talk.logs(service="blue/app")).messages == ["INFO blue"]
        assert (await talk.logs()).messages == ["INFO green", "INFO blue"]


async def test_moments_that_cannot_be_do_not_hide_those_that_can(tmp_path: Path) -> None:
    write(
        tmp_path / "odd.log",
        "0001-01-01T00:00:00+14:00 ERROR before all time",
        f"{iso(60)} ERROR here",
        "9999-12-31T23:59:59 ERROR after all time",
        "0001-01-01 00:00:00 ERROR at the beginning of time",
    )
    for clock in ("now", "newest"):
        async with talking(files=str(tmp_path), clock=clock) as talk:
            assert (await talk.errors()).messages == ["ERROR here"]
