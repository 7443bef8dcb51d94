"""`toolyard vault` and `toolyard secret` as users run them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

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
    forgotten = toolyard("vault", "rotate", "--forget")
    assert f"Dropped from the file: {after['master']}, {before['master']}." in forgotten.out

    saved = toolyard("vault", "export", "backup", stdin=PASSPHRASE)
    assert saved.status == 0, saved.err
    assert os.stat(toolyard.folder / "backup").st_mode & 0o777 == 0o600
    assert toolyard("secret", "delete", "shop").status == 0
    wrong = toolyard("vault", "import", "backup", stdin="another passphrase")
    assert wrong.status == 2
    assert "hint:" in wrong.err
    assert "Imported 1 secret;" in toolyard("vault", "import", "backup", stdin=PASSPHRASE).out
    assert json.loads(toolyard("secret", "list", "--json").out) == [{"name": "shop"}]


def test_a_key_that_is_gone_or_another_is_named_in_words(toolyard: Toolyard):
    toolyard("secret", "set", "shop", stdin=f"{VALUE}\n")
    file = Path(toolyard("vault", "status").out.partition("(file:")[2].partition(")")[0])
    kept = file.rename(file.with_name("kept"))
    gone = toolyard("vault", "status")
    assert (gone.status, gone.out.startswith("master key  not usable")) == (1, True), gone.out
    file.write_text(toolyard("vault", "init", "--print").out)
    file.chmod(0o600)
    another = toolyard("secret", "set", "shop", stdin="x")
    assert "the key of the gateway itself was wrapped by the master key" in another.err
    kept.replace(file)
    assert toolyard("vault", "status").status == 0


def test_the_command_to_enter_the_key_of_all_is_named_once(toolyard: Toolyard):
    entry = '[servers.shop]\nurl = "http://127.0.0.1:9/mcp"\nauth = { mode = "api_key", per = "all" }\n'
    (toolyard.folder / "toolyard.toml").write_text(entry)
    listed = toolyard("list")
    assert (listed.status, (listed.out + listed.err).count("toolyard login shop")) == (3, 1), listed.out


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
    assert "nothing is lost" not in status.err  # nobody knows whether there is a copy of that key


KEYED = '[servers.shop]\nurl = "http://127.0.0.1:1/mcp"\nauth = "api_key"\n'


def lose(key: Path) -> None:
    key.unlink()


def show(key: Path) -> None:
    key.chmod(0o644)


def replace_it(key: Path) -> None:
    key.write_text("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=\n")


def damage(key: Path) -> None:
    key.write_text("not a key\n")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lose, "there is no file"),
        (show, "chmod 600"),
        (replace_it, "which is not known here"),
        (damage, "is not a key"),
    ],
)
def test_a_gateway_whose_vault_cannot_be_opened_does_not_start(
    toolyard: Toolyard, harm: Callable[[Path], None], said: str
):
    toolyard.write("toolyard.toml", KEYED)
    toolyard("secret", "set", "shop", stdin=VALUE)
    [key] = toolyard.state.rglob("vault.key")
    harm(key)
    for command in (("serve", "--port", "0"), ("stdio",)):
        refused = toolyard(*command)
        assert (refused.status, said in refused.err, "hint:" in refused.err) == (2, True, True), refused.err
    checked = toolyard("check")
    assert (checked.status, said in checked.out) == (1, True), checked.out


def test_a_shared_store_without_a_key_is_refused_by_what_needs_the_vault_and_by_nothing_else(
    toolyard: Toolyard,
):
    shared = '[state]\nurl = "redis://127.0.0.1:1/0"\n'
    toolyard.write("toolyard.toml", KEYED + shared)
    refused = toolyard("serve", "--port", "0")
    assert (refused.status, "TOOLYARD_VAULT_KEY" in refused.err) == (2, True), refused.err
    examined = toolyard("doctor")
    assert "the vault is in a store that others share" in examined.out
    toolyard.write("toolyard.toml", KEYED.replace('auth = "api_key"\n', "") + shared)
    with toolyard.serving():
        pass


def test_without_the_extra_the_command_that_installs_it_is_named(toolyard: Toolyard):
    toolyard.write("toolyard.toml", KEYED)
    toolyard.write("sitecustomize.py", "import sys\nsys.modules['cryptography'] = None\n")
    refused = toolyard("serve", "--port", "0", PYTHONPATH=str(toolyard.folder))
    assert (refused.status, "extras add vault" in refused.err) == (2, True), refused.err


def test_a_gateway_that_keeps_no_secrets_does_not_import_cryptography(toolyard: Toolyard):
    toolyard.write("toolyard.toml", '[servers.shop]\nurl = "http://127.0.0.1:1/mcp"\n')
    toolyard.write("sitecustomize.py", "import sys\nsys.modules['cryptography'] = None\n")
    with toolyard.serving(PYTHONPATH=str(toolyard.folder)):
        assert not list(toolyard.state.rglob("vault.key"))
