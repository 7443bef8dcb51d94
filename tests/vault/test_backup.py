"""A backup of the vault opens without it, with its passphrase or key and nothing else."""

from pathlib import Path

import pytest

from tests.vault.conftest import Another
from tests.vault.interrupted import interrupted
from toolyard.vault import SecretAddress, VaultError, VaultKeyError, backup
from toolyard.vault.envelope import SECRETS
from toolyard.vault.master_keys import FileSource, new_key
from toolyard.vault.vault import Vault

PASSPHRASE = "correct horse battery"
ADDRESSES = [SecretAddress(f"tenant {n % 2}", "token", "github", f"user {n}", "x" * 300) for n in range(6)]


@pytest.fixture
async def full(vault: Vault) -> Vault:
    for number, at in enumerate(ADDRESSES):
        await vault.put(at, b"secret %d" % number)
    return vault


@pytest.mark.parametrize("by", [PASSPHRASE, new_key()], ids=["passphrase", "key"])
async def test_everything_comes_back_in_another_vault(full: Vault, another: Another, tmp_path: Path, by: str):
    content, count = await backup.export(full, by)
    assert count == len(ADDRESSES)
    assert b"secret 1" not in content
    elsewhere = another(
        FileSource(tmp_path / "elsewhere" / "vault.key", makes_itself=True),
        url=f"sqlite://{tmp_path}/other.db",
    )
    done = await backup.import_all(elsewhere, backup.opened(content, by))
    assert (done.written, done.same) == (len(ADDRESSES), 0)
    for number, at in enumerate(ADDRESSES):
        found = await elsewhere.read(at)
        assert found is not None
        assert found.value == b"secret %d" % number
    assert (await backup.import_all(elsewhere, backup.opened(content, by))).same == len(ADDRESSES)


async def test_what_the_vault_has_is_kept_unless_it_is_to_be_overwritten(full: Vault):
    content, _ = await backup.export(full, PASSPHRASE)
    await full.put(ADDRESSES[0], b"newer")
    await full.delete(ADDRESSES[1])
    saved = backup.opened(content, PASSPHRASE)
    done = await backup.import_all(full, saved)
    assert (done.written, done.same, done.kept) == (1, 4, (ADDRESSES[0],))
    found = await full.read(ADDRESSES[0])
    assert found is not None
    assert found.value == b"newer"
    assert (await backup.import_all(full, saved, overwrite=True)).written == 1


async def test_a_wrong_passphrase_a_wrong_key_and_a_damaged_file_are_refused(full: Vault):
    content, _ = await backup.export(full, PASSPHRASE)
    for wrong in ("correct horse batterz", new_key()):
        with pytest.raises(VaultKeyError):
            backup.opened(content, wrong)
    key = new_key()  # guessing a passphrase takes long, by intent
    content, _ = await backup.export(full, key)
    for at in (30, len(content) // 2, len(content) - 1):
        with pytest.raises(VaultError):
            backup.opened(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], key)
    for cut in (b"", b"PK\3\4", content[:20], content[:40], content[:-1]):
        with pytest.raises(VaultError):
            backup.opened(cut, key)
    with pytest.raises(VaultKeyError, match="too short"):
        await backup.export(full, "short")


async def test_a_secret_that_is_entered_during_an_import_stays(
    vault: Vault, another: Another, tmp_path: Path
):
    at = SecretAddress("acme", "key", "shop")
    saved = [backup.SavedSecret(at, b"old")]
    importing = interrupted(tmp_path / "vault.key", "get", SECRETS, lambda: another().put(at, b"new"))
    done = await backup.import_all(importing, saved)
    await importing.close()
    assert (done.written, done.kept) == (0, (at,))
    found = await vault.read(at)
    assert found is not None
    assert found.value == b"new"
