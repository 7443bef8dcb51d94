"""docs/reference/config.md: a key does not exist unless it is documented, and the example is a real one."""

import re
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import fields

from toolyard.config import (
    Composio,
    Config,
    GatewayConfig,
    Http,
    InProcess,
    SearchConfig,
    ServerConfig,
    StateConfig,
    Stdio,
    TelemetryConfig,
    load,
)
from toolyard.config.entry import KEYS
from toolyard.config.sources import KEYS as TOP
from toolyard.config.tables import GATEWAY, SEARCH, STATE, TELEMETRY

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "config.md").read_text()
FIRST_CELLS = re.compile(r"^\| `(\w+)` \|", re.M)


def documented(*headings: str) -> list[str]:
    """The keys in the tables under these headings."""
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.M))
    return [key for heading in headings for key in FIRST_CELLS.findall(sections[heading])]


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("At the top", TOP),
        ("`[gateway]`", GATEWAY),
        ("`[search]`", SEARCH),
        ("`[state]`", STATE),
        ("`[telemetry]`", TELEMETRY),
        ("Servers", KEYS),
    ],
)
def test_every_key_is_in_its_table_once_and_no_table_has_another(heading: str, keys: tuple[str, ...]):
    assert sorted(documented(heading)) == sorted(keys)


def test_every_field_has_a_key():
    models = {GatewayConfig: GATEWAY, SearchConfig: SEARCH, StateConfig: STATE, TelemetryConfig: TELEMETRY}
    for model, keys in models.items():
        assert [field.name for field in fields(model)] == list(keys)
    kinds = (ServerConfig, Stdio, Http, InProcess, Composio)
    of_servers = {field.name for model in kinds for field in fields(model)}
    assert of_servers - {"name", "where"} == set(KEYS) - {"enabled", "type"}


def test_the_documented_defaults_are_the_real_ones():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \|", PAGE, re.M)
    told = {
        key: default
        for key, default in rows
        if "/" not in default and key not in ("include", "enabled", "api_key")
    }
    real = {
        field.name: field.default
        for model in (
            ServerConfig,
            Stdio,
            Http,
            Composio,
            GatewayConfig,
            SearchConfig,
            StateConfig,
            TelemetryConfig,
        )
        for field in fields(model)
    }
    sizes = {'"2GiB"': 2 * 2**30, '"1GiB"': 2**30}
    for key, default in told.items():
        if default in sizes:
            assert real[key] == sizes[default]
        elif default not in ("{}", "[]"):
            value = tomllib.loads(f"x = {default}")["x"]
            assert real[key] == (tuple(value) if isinstance(value, list) else value), key
    assert len(told) > 20


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
