"""`toolyard vault` and `toolyard secret` as users run them."""

import json
import os

import pytest

from tests.cli.running import Toolyard

PASSPHRASE = "correct horse battery"
VALUE = "s3cr3t-value-4711"


def test_a_secret_is_set_listed_used_rotated_saved_and_deleted(toolyard: Toolyard):
    assert toolyard("vault", "status").out.startswith("master key  none yet")
    assert toolyard("secret", "set", "shop", stdin=f"{VALUE}\n").status == 0
    assert json.loads(toolyard("secret", "list", "--json").out) == [{"name": "shop"}]
    before = json.loads(toolyard("vault", "status", "--json").out)
    assert before["secrets"] == {"named": 1}

    rotated = toolyard("vault", "rotate")
    assert "1 tenant moved of 1" in rotated.out
    after = json.loads(toolyard("vault", "status", "--json").out)
    assert after["master"] != before["master"]
    assert after["earlier"] == {}

    saved = toolyard("vault", "export", "backup", stdin=PASSPHRASE)
    assert saved.status == 0, saved.err
    assert os.stat(toolyard.folder / "backup").st_mode & 0o777 == 0o600
    assert toolyard("secret", "delete", "shop").status == 0
    wrong = toolyard("vault", "import", "backup", stdin="another passphrase")
    assert wrong.status == 2
    assert "hint:" in wrong.err
    assert "Imported 1 secret;" in toolyard("vault", "import", "backup", stdin=PASSPHRASE).out
    assert json.loads(toolyard("secret", "list", "--json").out) == [{"name": "shop"}]


def test_check_says_which_secret_is_missing_and_shows_none(toolyard: Toolyard):
    toolyard.write(
        "toolyard.toml",
        '[servers.shop]\nurl = "http://127.0.0.1:1/mcp"\nheaders = { x-key = "${secret:shop}" }\n',
    )
    missing = toolyard("check")
    assert missing.status == 1
    assert "toolyard secret set shop" in missing.out + missing.err
    toolyard("secret", "set", "shop", stdin=VALUE)
    found = toolyard("check", "--connect", "--timeout", "5")
    assert VALUE not in found.out + found.err
    assert "secret set" not in found.out + found.err


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("secret", "set", "x"), ""),
        (("secret", "set", "x"), "\0"),
        (("secret", "set", "a}b"), "v"),
        (("secret", "set", "x", VALUE), ""),
        (("secret", "delete", "x"), ""),
        (("vault", "export", "b"), "short"),
        (("vault", "import", "toolyard.toml"), PASSPHRASE),
        (("vault", "export", "b", "--key", "sesame"), ""),
    ],
)
def test_what_cannot_be_done_is_an_error_with_a_hint(toolyard: Toolyard, words: tuple[str, ...], stdin: str):
    toolyard.write("toolyard.toml", "")
    outcome = toolyard(*words, stdin=stdin)
    assert outcome.status == 2
    assert "hint:" in outcome.err
    assert not (toolyard.folder / "b").exists()


def test_a_shared_store_without_a_key_is_refused(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[state]\nurl = "redis://127.0.0.1:1"\n')
    outcome = toolyard("vault", "init")
    assert outcome.status == 2
    assert "TOOLYARD_VAULT_KEY" in outcome.err


def test_a_printed_key_can_be_used_as_it_is(toolyard: Toolyard):
    key = toolyard("vault", "init", "--print").out.strip()
    assert toolyard("secret", "set", "x", stdin="v", TOOLYARD_VAULT_KEY=key).status == 0
    assert not (toolyard.state / "toolyard" / "vault.key").exists()
    other = toolyard("vault", "init", "--print").out.strip()
    status = toolyard("vault", "status", TOOLYARD_VAULT_KEY=other)
    assert status.status == 1
    assert "not known here" in status.err
