"""The tables about issuers: documented, loaded, and refused where a token would reach a server."""

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from toolyard.callers.tokens import token_verifiers
from toolyard.config import ConfigError, load
from toolyard.config.callers import IssuerConfig

DOCS = Path(__file__).parents[2] / "docs"


def test_every_key_of_an_issuer_is_documented_once():
    page = (DOCS / "reference/config.md").read_text()
    (section,) = re.findall(r"^## `\[\[auth\.issuers\]\]`\n((?:(?!## ).*\n)*)", page, re.M)
    told = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert told == [field.name for field in fields(IssuerConfig)]


def test_the_examples_of_the_guide_load(tmp_path: Path):
    examples = re.findall(r"```toml\n(.*?)```", (DOCS / "guides/tokens.md").read_text(), re.S)
    assert len(examples) == 2
    for example in examples:
        (tmp_path / "toolyard.toml").write_text(example)
        config = load(tmp_path / "toolyard.toml", {"INTROSPECTION_SECRET": "x"})
        assert token_verifiers(config.auth)


def test_a_server_is_never_handed_what_callers_show_to_us(tmp_path: Path):
    file = tmp_path / "toolyard.toml"
    server = '[servers.crm]\nurl = "https://crm.example.com/mcp"\ncaller_keys = ["{}"]\n'
    issuer = '[[auth.issuers]]\nissuer = "https://login.example.com"\n'
    file.write_text(server.format("Authorization") + issuer)
    with pytest.raises(ConfigError, match="'crm' is handed 'authorization'"):
        load(file, {})
    file.write_text(server.format("x-crm-key") + issuer)
    assert load(file, {}).servers[0].caller_keys == ("x-crm-key",)
    file.write_text(server.format("authorization"))
    assert load(file, {}).servers[0].caller_keys == ("authorization",)
