"""`toolyard stats`: what tools returned and what models were sent, as a table or as data."""

import json
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.cli.running import Toolyard
from toolyard.telemetry.usage import UsageLedger


def counted(folder: Path, config: Path | None = None) -> None:
    ledger = UsageLedger(folder, "" if config is None else str(config))
    for _ in range(3):
        ledger.add("acme", "writer", "git", "mcp__git__git_log", 13_600_000, 100_000)
    ledger.add("acme", "reader", "notes", "mcp__notes__search", 900, 900)
    ledger.add("other", "", "", "read_result", 0, 3_100)
    taken = ledger.take()
    assert taken is not None
    ledger.write(taken)


def test_a_table_says_what_was_kept_out(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    counted(toolyard.state / "toolyard")
    told = toolyard("stats")
    assert told.status == 0, told.err
    assert told.out == (
        "This week 40.8 MB became 304 kB, in 5 calls.\n"
        "tool                calls  received    sent  tokens saved  saved\n"
        "mcp__git__git_log       3   40.8 MB  300 kB    11,571,429    99%\n"
        "mcp__notes__search      1     900 B   900 B             0     0%\n"
        "read_result             1       0 B  3.1 kB             0     0%\n"
    )


def test_it_can_be_grouped_limited_and_read_by_programs(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    counted(toolyard.state / "toolyard")
    agents = json.loads(toolyard("stats", "--by", "agent", "--json").out)
    assert [row["name"] for row in agents] == ["writer", "reader", "(none)"]
    assert agents[0] == {
        "name": "writer",
        "calls": 3,
        "bytes_in": 40_800_000,
        "bytes_out": 300_000,
        "tokens_in": 11_657_143,
        "tokens_out": 85_714,
    }
    assert [row["name"] for row in json.loads(toolyard("stats", "--by", "tenant", "--json").out)] == [
        "acme",
        "other",
    ]
    few = toolyard("stats", "--limit", "1", "--days", "30").out.splitlines()
    assert few[0] == "In the last 30 days 40.8 MB became 304 kB, in 5 calls."
    assert few[-1] == "… and 2 more"


def test_it_reads_the_folder_of_the_configuration(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    config = toolyard.write("yard.toml", f'[gateway]\nstate_dir = "{tmp_path / "odd # folder?"}"\n')
    counted(tmp_path / "odd # folder?", config)
    assert "40.8 MB" in toolyard("stats", "--config", str(config)).out


def test_where_nothing_was_counted_it_says_so(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    assert toolyard("stats").out == "No calls in the last 7 days.\n"
    assert toolyard("stats", "--json").out == "[]\n"
    broken = toolyard.state / "toolyard" / "ledger.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no database " * 100)
    told = toolyard("stats")
    assert told.status == 2
    assert "ledger.db cannot be read" in told.err


KITCHEN = """
from toolyard.kit import Server

server = Server("kitchen")

@server.tool
def boil() -> str:
    return "boiled " * 2000
"""
YARD = '[gateway]\nview = "all"\n[servers.{name}]\nmodule = "{module}"\n'


def test_only_this_configuration_is_counted_though_several_share_a_folder(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    module = toolyard.write("kitchen.py", KITCHEN)
    for name in ("one", "two"):
        toolyard.write(f"{name}.toml", YARD.format(name=name, module=module))
        with toolyard.serving("--config", f"{name}.toml") as served:
            assert toolyard("call", f"mcp__{name}__boil", "--url", served.url).status == 0
            served.stop(signal.SIGTERM)
    for name in ("one", "two"):
        rows = json.loads(toolyard("stats", "--config", f"{name}.toml", "--json").out)
        assert [(row["name"], row["calls"]) for row in rows] == [(f"mcp__{name}__boil", 1)]
    all_of_it = ["stats", "--config", "one.toml", "--all", "--json"]
    everything = json.loads(toolyard(*all_of_it, "--by", "server").out)
    assert {row["name"] for row in everything} == {"one", "two"}
    files = json.loads(toolyard(*all_of_it, "--by", "config").out)
    assert {row["name"] for row in files} == {str(tmp_path / "one.toml"), str(tmp_path / "two.toml")}
    toolyard.write("three.toml", YARD.format(name="three", module=module))
    told = toolyard("stats", "--config", "three.toml")
    assert told.out == "No calls in the last 7 days.\n"
    assert told.err == "hint: --all shows other configurations, which have calls\n"


def test_what_an_earlier_version_counted_is_among_all_of_it(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    folder = toolyard.state / "toolyard"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "ledger.db")) as file, file:
        columns = "day TEXT, tenant TEXT, agent TEXT, server TEXT, tool TEXT"
        keys = "PRIMARY KEY (day, tenant, agent, server, tool)"
        counts = "calls INTEGER, came INTEGER, went INTEGER"
        file.execute(f"CREATE TABLE ledger ({columns}, {counts}, {keys}) WITHOUT ROWID")
        today = time.strftime("%Y-%m-%d", time.gmtime())
        file.execute("INSERT INTO ledger VALUES (?, '', '', 'git', 'old', 4, 100, 100)", [today])
    config = toolyard.write("yard.toml", "")
    assert "old" in toolyard("stats", "--all").out, "a file of before events were counted"
    counted(folder, config)
    assert "old" not in toolyard("stats", "--config", "yard.toml").out
    names = [
        row["name"] for row in json.loads(toolyard("stats", "--config", "yard.toml", "--all", "--json").out)
    ]
    assert "old" in names
    assert "mcp__git__git_log" in names
