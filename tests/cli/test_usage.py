"""`toolyard usage`: what is used of each limit, as a table with bars or as data."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.speaker import free_port
from tests.cli.running import Outcome, Served, Toolyard
from tests.serving import serving
from toolyard.config.loader import load
from toolyard.edge.request import Receive, Scope, Send, send_json
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


# A gateway that counts in its own memory

IN_MEMORY = """
[gateway]
port = {port}
view = "all"

[servers.demo]
module = "demo"

[limits]
currency = "EUR"

[[limits.rules]]
name = "team"
calls_a_month = 10
cost_a_month = 4.0

[[limits.rules]]
name = "each tool"
per = "tool"
calls_a_month = 5

[[limits.prices]]
tools = ["*"]
call = 0.25
"""
WITH_KEYS = """
[auth]
keys = true
required = true

[access]
default = "deny"

[[access.rules]]
who = ["main"]
allow = ["*"]

[[access.rules]]
who = ["watcher"]
allow = ["demo/add"]
"""


def echo(toolyard: Toolyard, served: Served, key: str = "") -> None:
    shown = ("--key", key) if key else ()
    called = toolyard("call", "mcp__demo__echo", "text=hi", "--url", served.url, *shown)
    assert called.out == "hi\n", called.err


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[tuple[Toolyard, Served]]:
    """A gateway whose state is in memory, as it is by default, at the port of its configuration."""
    toolyard, port = Toolyard(tmp_path), free_port()
    toolyard.write("toolyard.toml", IN_MEMORY.format(port=port))
    with toolyard.serving("--port", str(port)) as served:
        yield toolyard, served


def test_a_gateway_that_counts_in_memory_is_asked_for_the_same_table(
    counting: tuple[Toolyard, Served],
) -> None:
    toolyard, served = counting
    assert toolyard("usage") == Outcome(0, "Nothing is used of any limit.\n", "")
    echo(toolyard, served)
    echo(toolyard, served)
    told = toolyard("usage")
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    assert re.split(r"  +", lines[0]) == ["who", "rule", "limit", "used", "left", "resets"]
    assert re.match(r"tool 'demo/echo' +each tool +5 calls a month +2 +3 +in .* ████░░░░░░  40%$", lines[1])
    assert re.match(r"the local user +team +10 calls a month +2 +8 +in .* ██░░░░░░░░  20%$", lines[2])
    assert re.match(r"the local user +team +4.00 EUR a month +0.50 EUR +3.50 EUR +in ", lines[3])
    assert len(lines) == 4
    (row,) = json.loads(toolyard("usage", "--json", "--rule", "each tool").out)
    assert re.fullmatch(r"\d{4}-\d\d-01T00:00:00Z", row.pop("resets_at"))
    assert row == {
        "who": "tool 'demo/echo'",
        "per": "tool",
        "rule": "each tool",
        "measure": "calls_a_month",
        "limit": "5 calls a month",
        "used": 2.0,
        "ceiling": 5.0,
        "left": 3.0,
    }


def test_a_gateway_is_found_by_its_address_without_a_configuration(
    counting: tuple[Toolyard, Served], tmp_path_factory: pytest.TempPathFactory
) -> None:
    toolyard, served = counting
    echo(toolyard, served)
    elsewhere = Toolyard(tmp_path_factory.mktemp("elsewhere"))
    told = elsewhere("usage", "--url", served.url, "--per", "tool")
    assert "tool 'demo/echo'" in told.out, told.err
    assert "the local user" not in told.out
    nothing = elsewhere("usage")
    assert (nothing.status, nothing.out) == (2, "")
    assert "--url a running gateway" in nothing.err


def test_where_no_gateway_answers_it_says_what_to_do(tmp_path: Path) -> None:
    toolyard, port = Toolyard(tmp_path), free_port()
    toolyard.write("toolyard.toml", IN_MEMORY.format(port=port))
    told = toolyard("usage")
    assert (told.status, told.out) == (2, "")
    assert f"error: no gateway answers at http://127.0.0.1:{port}: " in told.err
    assert "hint: start it with `toolyard serve`, name it with --url" in told.err
    assert 'url = "sqlite:" in [state]' in told.err
    assert "Traceback" not in told.err


def test_a_gateway_without_limits_is_named(tmp_path: Path) -> None:
    toolyard = Toolyard(tmp_path)
    toolyard.write("toolyard.toml", '[servers.demo]\nmodule = "demo"\n')
    with toolyard.serving() as served:
        told = toolyard("usage", "--url", served.url)
    assert (told.status, told.out) == (2, "")
    assert "had it [limits] when it was started?" in told.err


def test_a_key_needs_the_scope_and_shows_its_tenant_and_what_it_may_know_of(tmp_path: Path) -> None:
    toolyard, port = Toolyard(tmp_path), free_port()
    toolyard.write("toolyard.toml", IN_MEMORY.format(port=port) + WITH_KEYS)

    def made(name: str, agent: str, tenant: str, *scopes: str) -> str:
        named = [part for scope in scopes for part in ("--scope", scope)]
        return toolyard("keys", "create", name, "--agent", agent, "--tenant", tenant, *named).out.strip()

    ana, ben = made("ana", "main", "acme"), made("ben", "main", "other")
    main, watcher = made("ops", "main", "acme", "usage"), made("eve", "watcher", "acme", "usage")
    with toolyard.serving("--port", str(port)) as served:
        echo(toolyard, served, ana)
        echo(toolyard, served, ben)

        def ask(key: str) -> Outcome:
            return toolyard("usage", "--json", *(("--key", key) if key else ()))

        for key in ("", ana):
            refused = ask(key)
            assert (refused.status, refused.out) == (2, "")
            assert refused.err.endswith("a key that may: toolyard keys create NAME --scope usage\n")
        assert {row["who"] for row in json.loads(ask(main).out)} == {
            "user 'ana' of 'acme'",
            "tool 'demo/echo'",
        }
        assert {row["who"] for row in json.loads(ask(watcher).out)} == {"user 'ana' of 'acme'"}


class Stranger:
    """Answers everything with one text, as a server that is no gateway may."""

    path = "/mcp"

    def __init__(self, text: bytes) -> None:
        self._text = text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send_json(send, 200, self._text, [])

    async def close(self) -> None:
        pass


def report(**changes: Any) -> bytes:
    row = {"who": "a", "per": "all", "rule": "", "measure": "calls", "limit": "b", "unit": "calls", "used": 1}
    times = {"ceiling": 2, "resets_at": 1e9, "resets_in": 5}
    return json.dumps({"currency": "EUR", "usage": [row | times | changes]}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"<html>",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        report(ceiling=0),
        report(resets_at=1e300),
        report(unit="\u20ac"),
        report(used="many"),
    ],
)
async def test_an_answer_that_is_no_gateways_is_an_error_and_no_traceback(
    tmp_path: Path, text: bytes
) -> None:
    async with serving(Stranger(text)) as served:
        url = f"http://127.0.0.1:{served.port}"
        told = await asyncio.to_thread(Toolyard(tmp_path), "usage", "--url", url)
    assert (told.status, told.out) == (2, "")
    assert "the answer is not a gateway's" in told.err
    assert "Traceback" not in told.err


async def test_what_a_gateway_sends_cannot_move_the_cursor(tmp_path: Path) -> None:
    async with serving(Stranger(report(who="a\x1b[2J", limit="b\nc", rule="\x07", used=1e300))) as served:
        url = f"http://127.0.0.1:{served.port}"
        told = await asyncio.to_thread(Toolyard(tmp_path), "usage", "--url", url)
    assert told.status == 0, told.err
    assert len(told.out.splitlines()) == 2
    assert "\x1b[2J" not in told.out
    assert "\x07" not in told.out
