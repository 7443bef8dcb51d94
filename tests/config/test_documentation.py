"""docs/reference/config.md: a key does not exist unless it is documented, and the example is a real one."""

import re
import tomllib
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import fields

from toolyard.config import (
    Composio,
    Config,
    GatewayConfig,
    Http,
    InProcess,
    ResultsConfig,
    SearchConfig,
    ServerConfig,
    StateConfig,
    Stdio,
    StoreConfig,
    TelemetryConfig,
    load,
)
from toolyard.config.caller_tables import (
    ACCESS,
    ACCESS_RULE,
    AUDIT,
    LIMIT_RULE,
    LIMITS,
    LOGIN_SERVER,
    PRICE,
)
from toolyard.config.callers import AccessConfig, AccessRule, AuditConfig, LimitRule, LimitsConfig, PriceRule
from toolyard.config.loader import KEYS as TOP
from toolyard.config.servers import KEYS
from toolyard.config.tables import GATEWAY, RESULTS, SEARCH, STATE, STORE, TELEMETRY

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "config.md").read_text()
FIRST_CELLS = re.compile(r"^\| `(\w+)` \|", re.M)


def section(heading: str) -> str:
    return dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.M))[heading]


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("At the top", TOP),
        ("`[gateway]`", GATEWAY),
        ("`[search]`", SEARCH),
        ("`[state]`", STATE),
        ("`[results]`", RESULTS),
        ("`[store]`", STORE),
        ("`[telemetry]`", TELEMETRY),
        ("`[access]`", ACCESS),
        ("`[[access.rules]]`", ACCESS_RULE),
        ("`[limits]`", LIMITS),
        ("`[[limits.rules]]`", LIMIT_RULE),
        ("`[[limits.prices]]`", PRICE),
        ("`[audit]`", AUDIT),
        ("Servers", KEYS),
    ],
)
def test_every_key_is_in_its_table_once_and_no_table_has_another(heading: str, keys: tuple[str, ...]):
    assert sorted(FIRST_CELLS.findall(section(heading))) == sorted(keys)


def test_every_key_of_the_authorization_server_is_in_its_table():
    (table,) = re.findall(r"^### `\[auth\.server\]`\n((?:(?!##).*\n)*)", PAGE, re.M)
    assert sorted(FIRST_CELLS.findall(table)) == sorted(LOGIN_SERVER)


TABLES = {
    GatewayConfig: GATEWAY,
    SearchConfig: SEARCH,
    StateConfig: STATE,
    ResultsConfig: RESULTS,
    StoreConfig: STORE,
    TelemetryConfig: TELEMETRY,
    AccessConfig: ACCESS,
    AccessRule: ACCESS_RULE,
    LimitsConfig: LIMITS,
    PriceRule: PRICE,
    AuditConfig: AUDIT,
}
SERVERS = (ServerConfig, Stdio, Http, InProcess, Composio)


def test_every_field_has_a_key():
    for model, keys in TABLES.items():
        assert [field.name for field in fields(model)] == list(keys)
    assert {field.name for field in fields(LimitRule)} == set(LIMIT_RULE)
    of_servers = {field.name for model in SERVERS for field in fields(model)}
    assert of_servers - {"name", "where"} == set(KEYS) - {"enabled", "type"}


@pytest.mark.parametrize(
    ("heading", "models"),
    [
        ("`[gateway]`", [GatewayConfig]),
        ("`[search]`", [SearchConfig]),
        ("`[state]`", [StateConfig]),
        ("`[results]`", [ResultsConfig]),
        ("`[store]`", [StoreConfig]),
        ("`[telemetry]`", [TelemetryConfig]),
        ("`[access]`", [AccessConfig]),
        ("`[[access.rules]]`", [AccessRule]),
        ("`[limits]`", [LimitsConfig]),
        ("`[audit]`", [AuditConfig]),
        ("Servers", SERVERS),
    ],
)
def test_the_documented_defaults_are_the_real_ones(heading: str, models: list[type[Struct]]):
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \|", section(heading), re.M)
    told = {key: default for key, default in rows if key not in ("state_dir", "api_key", "enabled")}
    real = {field.name: field.default for model in models for field in fields(model)}
    sizes = {'"2GiB"': 2 * 2**30, '"1GiB"': 2**30, '"512MiB"': 2**29, '"64MiB"': 2**26}
    assert told
    for key, default in told.items():
        if default in sizes:
            assert real[key] == sizes[default]
        elif default not in ("{}", "[]"):
            value = tomllib.loads(f"x = {default}")["x"]
            assert real[key] == (tuple(value) if isinstance(value, list) else value), key


def test_the_example_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"cursor": {"command": "x"}}}')
    example = re.search(r"```toml\n(.*?)```", PAGE, re.S)
    assert example
    (tmp_path / "toolyard.toml").write_text(example[1])
    config: Config = load(tmp_path / "toolyard.toml", {"DOCS_TOKEN": "x"})
    assert [server.name for server in config.servers] == ["git", "docs", "demo", "files", "cursor"]
    assert config.broken == ()
