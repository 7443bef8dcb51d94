"""`toolyard usage`: what is used of each limit, as a table with bars or as data."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.cli.running import Toolyard
from toolyard.config.loader import load
from toolyard.limits import Limiter, LimitExceededError
from toolyard.state.sqlite import SqliteState
from toolyard.wire.call import Principal

CONFIG = """
[state]
url = "sqlite://{folder}/state.db"

[limits]
currency = "EUR"

[[limits.rules]]
name = "team"
calls_a_month = 10
bytes_a_month = "10kB"
cost_a_month = 4.0

[[limits.rules]]
who = ["coder"]
per = "agent"
concurrent = 4

[[limits.rules]]
name = "all"
per = "all"
rate = 0.001
burst = 10

[[limits.prices]]
tools = ["*"]
call = 0.25
"""
ANA = Principal(subject="ana", agent="coder")
BEN = Principal(tenant="acme", subject="ben")


async def used(config: Path, folder: Path) -> None:
    state = SqliteState(folder / "state.db")
    limiter = Limiter(load(config).limits, state, store_seconds=30, lease_seconds=600)
    await limiter.admit(ANA, "notes", "add")
    for who, times in ((ANA, 3), (BEN, 2)):
        for _ in range(times):
            admission = await limiter.admit(who, "notes", "add")
            await admission.finish(bytes=1500, tokens=100, failed=False)
    for _ in range(10):
        try:
            await limiter.admit(Principal(tenant="x"), "notes", "add")
        except LimitExceededError:
            break
    await state.close()


@pytest.fixture
def toolyard(tmp_path: Path) -> Toolyard:
    toolyard = Toolyard(tmp_path)
    config = toolyard.write("toolyard.toml", CONFIG.format(folder=tmp_path))
    asyncio.run(used(config, tmp_path))
    return toolyard


def test_a_table_shows_who_used_how_much_of_what_the_fullest_first(toolyard: Toolyard) -> None:
    told = toolyard("usage")
    assert told.status == 0, told.err
    lines = [re.split(r"  +", line) for line in told.out.splitlines()]
    assert lines[0] == ["who", "rule", "limit", "used", "left", "resets"]
    assert (lines[1][0], lines[1][-1]) == ("all callers", "██████████ 100%")
    text = told.out
    assert re.search(r"all callers +all +a call every 1,000 s, 10 at once +10 +0 +full in 2 h", text)
    assert re.search(r"user 'ana' +team +10 calls a month +4 +6 +in .* ████░░░░░░  40%", text)
    assert re.search(r"user 'ana' +team +10,000 bytes a month +4.5 kB +5.5 kB +in ", text)
    assert re.search(r"user 'ben' of 'acme' +team +4.00 EUR a month +0.50 EUR +3.50 EUR ", text)
    assert re.search(r"agent 'coder' +4 calls at a time +1 +3 +when a call ends +██░░░░░░░░  25%", text)
    few = toolyard("usage", "--limit", "2").out.splitlines()
    assert few[-1].startswith("… and ")


def test_it_can_be_filtered_and_read_by_programs(toolyard: Toolyard) -> None:
    rows = json.loads(toolyard("usage", "--json", "--who", "BEN").out)
    assert {row["who"] for row in rows} == {"user 'ben' of 'acme'"}
    cost = next(row for row in rows if row["measure"] == "cost_a_month")
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", cost.pop("resets_at"))
    assert cost == {
        "who": "user 'ben' of 'acme'",
        "per": "user",
        "rule": "team",
        "measure": "cost_a_month",
        "limit": "4.00 EUR a month",
        "used": 0.5,
        "ceiling": 4.0,
        "left": 3.5,
    }

    def whose(*options: str) -> set[str]:
        return {row["who"] for row in json.loads(toolyard("usage", "--json", *options).out)}

    assert whose("--per", "agent") == {"agent 'coder'"}
    assert whose("--full") == {"all callers"}
    assert whose("--rule", "all") == {"all callers"}
    assert toolyard("usage", "--who", "nobody").out == "Nothing is used of any limit.\n"


def test_a_rule_that_is_not_there_is_named_with_one_that_is(toolyard: Toolyard) -> None:
    told = toolyard("usage", "--rule", "taem")
    assert told.status == 2
    assert "no rule 'taem'" in told.err
    assert "'team'" in told.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the configuration has no limits"),
        ("[[limits.rules]]\nrate = 1\n", 'url = "sqlite:"'),
        ('[[limits.rules]]\nrate = 1\n[state]\nurl = "redis://:secret@127.0.0.1:1/0"\n', "is Redis up"),
        ('[[limits.rules]]\nrate = 1\nwho = ["usr:a"]\n[state]\nurl = "sqlite:"\n', "'usr:a'"),
    ],
)
def test_where_there_is_nothing_to_read_it_says_why(tmp_path: Path, text: str, says: str) -> None:
    toolyard = Toolyard(tmp_path)
    toolyard.write("toolyard.toml", text)
    told = toolyard("usage")
    assert told.status == 2
    assert says in told.err
    assert "secret" not in told.err
