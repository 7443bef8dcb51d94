"""The tables about issuers: documented and loaded."""

import re
from pathlib import Path

from msgspec.structs import fields

from toolyard.callers.tokens import token_verifiers
from toolyard.config import load
from toolyard.config.callers import IssuerConfig

DOCS = Path(__file__).parents[2] / "docs"


def test_every_key_of_an_issuer_is_documented_once():
    page = (DOCS / "reference/config.md").read_text()
    (section,) = re.findall(r"^#+ `\[\[auth\.issuers\]\]`\n((?:(?!#).*\n)*)", page, re.M)
    told = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert told == [field.name for field in fields(IssuerConfig)]


def test_the_examples_of_the_guide_load(tmp_path: Path):
    examples = re.findall(r"```toml\n(.*?)```", (DOCS / "guides/tokens.md").read_text(), re.S)
    assert len(examples) == 2
    for example in examples:
        (tmp_path / "toolyard.toml").write_text(example)
        config = load(tmp_path / "toolyard.toml", {"INTROSPECTION_SECRET": "x"})
        assert token_verifiers(config.auth)
