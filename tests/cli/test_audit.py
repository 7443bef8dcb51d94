"""`toolyard audit`: records as a table or as lines, the check, and retention."""

import asyncio
import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.audit.records import record
from tests.cli.running import Toolyard
from toolyard.audit import AuditLog, open_audit
from toolyard.config.callers import AuditConfig

KEY = "0123456789abcdef0123456789abcdef"
CONFIG = '[audit]\nurl = "{url}"\nkeep = 3600\n'


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    made = Toolyard(tmp_path)
    made.write("toolyard.toml", CONFIG.format(url="file:"))
    folder = made.state / "toolyard"
    folder.mkdir(parents=True)
    (folder / "key").write_text(KEY)
    (folder / "key").chmod(0o600)
    return made


def opened(toolyard: Toolyard, url: str = "file:") -> AuditLog:
    return open_audit(AuditConfig(url=url), toolyard.state / "toolyard", KEY.encode())


def fill(toolyard: Toolyard, url: str = "file:") -> None:
    async def write() -> None:
        log = opened(toolyard, url)
        await log.append(record(0, request_bytes=120, response_bytes=3400, duration_ms=12.4))
        await log.append(record(1, agent="reader", subject="john", outcome="refused", rule="readers"))
        digest = log.arguments.digest(b'{"b": 2, "a": 1}')
        await log.append(record(2, server="notes", tool="search", arguments_digest=digest))
        await log.append(record(3, time=datetime.now(UTC) - timedelta(minutes=5), outcome="tool_error"))
        await log.close()

    asyncio.run(write())


def ids(text: str) -> list[str]:
    return [json.loads(line)["request_id"] for line in text.splitlines()]


@pytest.mark.parametrize("url", ["file:", "sqlite:"])
def test_a_table_says_who_called_what(toolyard: Toolyard, url: str):
    toolyard.write("toolyard.toml", CONFIG.format(url=url))
    fill(toolyard, url)
    told = toolyard("audit", "--until", "2026-11-16T12:00:03")
    assert told.status == 0, told.err
    assert told.out == (
        "time (UTC)           user  agent   tool          rule     ms  received  sent    outcome\n"
        "2026-11-16 12:00:00  jane  writer  git/git_log   writers  12  120 B     3.4 kB  ok\n"
        "2026-11-16 12:00:01  john  reader  git/git_log   readers  0   0 B       0 B     refused\n"
        "2026-11-16 12:00:02  jane  writer  notes/search  writers  0   0 B       0 B     ok\n"
    )


def test_filters_choose_and_json_is_the_stored_lines(toolyard: Toolyard):
    fill(toolyard)

    def found(*options: str) -> list[str]:
        return ids(toolyard("audit", "--json", *options).out)

    assert sorted(found()) == ["r-0", "r-1", "r-2", "r-3"]
    assert found("--agent", "read*") == ["r-1"]
    assert found("--user", "john") == ["r-1"]
    assert found("--outcome", "tool_error") == ["r-3"]
    assert found("--tool", "search") == found("--tool", "notes/*") == ["r-2"]
    assert found("--since", "1h", "--until", "1m") == ["r-3"]
    assert found("--arguments", '{"a":1,"b":2}') == ["r-2"]
    assert found("--arguments", '{"a":1,"b":3}') == []
    assert len(found("--limit", "2")) == 2
    assert toolyard("audit", "--agent", "nobody").out == "No records.\n"
    wrong = toolyard("audit", "--since", "yesterday")
    assert wrong.status == 2
    assert "'yesterday' is neither" in wrong.err


def test_verify_passes_and_names_file_line_and_kind_of_damage(toolyard: Toolyard):
    fill(toolyard)
    assert toolyard("audit", "verify").out == "4 records in 1 chain: intact.\n"
    [file] = (toolyard.state / "toolyard" / "audit").glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"john", b"jack"))
    told = toolyard("audit", "verify")
    assert told.status == 1
    assert f"{file.name}:3" in told.out
    assert "altered" in told.out
    assert "4 records in 1 chain: NOT intact: 1 damage." in told.out
    as_json = json.loads(toolyard("audit", "verify", "--json").out)
    assert as_json["intact"] is False
    assert as_json["damages"][0]["place"] == f"{file.name}:3"


def test_verify_with_another_key_says_that_it_needs_the_right_one(toolyard: Toolyard):
    fill(toolyard)
    told = toolyard("audit", "verify", TOOLYARD_KEY="another key, of 16 bytes or more")
    assert told.status == 1
    assert "which was not given" in told.out
    assert "--key-file" in told.err
    key = toolyard.state / "toolyard" / "key"
    assert toolyard("audit", "verify", "--key-file", str(key), TOOLYARD_KEY="x" * 20).status == 0


def test_prune_removes_what_is_old_and_verify_still_passes(toolyard: Toolyard):
    fill(toolyard)
    assert toolyard("audit", "prune").out == "Nothing to remove.\n"
    fill(toolyard)
    told = toolyard("audit", "prune", "--before", (datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert told.out == "Removed 12 lines of 2 chains.\n", told.err
    assert toolyard("audit").out == "No records.\n"
    assert toolyard("audit", "verify").out == "0 records in 0 chains: intact.\n"


def test_follow_goes_on_with_new_records(toolyard: Toolyard):
    fill(toolyard)
    process = toolyard.start("audit", "--follow", "--json", "--agent", "writer", "--since", "1h")
    assert process.stdout is not None
    try:
        assert ids(process.stdout.readline()) == ["r-3"]

        async def write() -> None:
            log = opened(toolyard)
            await log.append(record(7, time=datetime.now(UTC)))
            await log.append(record(8, time=datetime.now(UTC), agent="reader"))
            await log.append(record(9, time=datetime.now(UTC)))
            await log.close()

        asyncio.run(write())
        assert ids(process.stdout.readline()) == ["r-7"]
        assert ids(process.stdout.readline()) == ["r-9"]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130


def test_without_an_audit_it_says_what_to_add(toolyard: Toolyard):
    toolyard.write("toolyard.toml", "")
    told = toolyard("audit")
    assert told.status == 2
    assert 'url = "file:"' in told.err


def test_a_command_that_starts_the_servers_itself_leaves_no_records_that_nobody_signed(toolyard: Toolyard):
    toolyard.write("toolyard.toml", f'{CONFIG.format(url="file:")}[servers.demo]\nmodule = "demo"\n')
    assert toolyard("call", "mcp__demo__echo", "text=hello").out == "hello\n"
    outcome = toolyard("audit", "verify")
    assert (outcome.status, "intact" in outcome.out) == (0, True), outcome.out
