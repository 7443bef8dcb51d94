"""Every source of a master key opens what it sealed, and says what to do if it is not there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import keyring
import keyring.backend
import keyring.errors
import pytest

from tests.artifacts.servers import Moto
from tests.vault.conftest import Another
from toolyard.config import Config, StateConfig, VaultConfig
from toolyard.vault import SecretAddress, VaultDamagedError, VaultError, VaultKeyError
from toolyard.vault.aws import AwsRefusedError
from toolyard.vault.factory import sources
from toolyard.vault.master_keys import AgeSource, EnvSource, FileSource, KeySource, KmsSource, source_of
from toolyard.vault.rotation import rotate

TOKEN = SecretAddress("acme", "token", "github", "acme/user:1f")


class KeyringInMemory(keyring.backend.KeyringBackend):
    priority = 1  # pyright: ignore[reportAssignmentType]

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise keyring.errors.KeyringLocked("locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


@pytest.fixture
def ring() -> Any:
    before = keyring.get_keyring()
    made = KeyringInMemory()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def _kms() -> KmsSource:
    made: Any = boto3.client("kms", region_name="eu-west-1").create_key()
    return KmsSource(made["KeyMetadata"]["Arn"])


@pytest.fixture(params=["file", "env", "keyring", "aws-kms", "age"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeySource:
    match request.param:
        case "file":
            made: KeySource = FileSource(tmp_path / "a.key")
            made.create()
        case "env":
            monkeypatch.setenv("MY_KEY", "correct horse battery staple")
            made = source_of("env:MY_KEY")
        case "keyring":
            request.getfixturevalue("ring")
            made = source_of("keyring:toolyard/vault")
            made.create()
        case "aws-kms":
            request.getfixturevalue("aws_environment")
            made = _kms()
        case _:
            made = source_of(f"age:{tmp_path / 'identity.txt'}")
            made.create()
    return made


async def test_each_source_seals_rotates_and_binds_the_tenant(another: Another, source: KeySource):
    await another().put(TOKEN, b"secret")  # by the file in the folder
    assert (await rotate(another(source, in_the_folder(another)))).rewrapped == 1
    found = await another(source).read(TOKEN)
    assert found is not None
    assert found.value == b"secret"
    key = source.load()[0]
    wrapped = key.wrap("acme", bytes(32))
    assert key.unwrap("acme", wrapped) == bytes(32)
    with pytest.raises(VaultDamagedError):
        key.unwrap("another", wrapped)
    with pytest.raises(VaultDamagedError):
        key.unwrap("acme", wrapped[:-1] + bytes([wrapped[-1] ^ 1]))


def in_the_folder(another: Another) -> KeySource:
    return another().keys.source


def test_a_key_that_is_missing_is_named_with_what_to_do(
    tmp_path: Path, ring: KeyringInMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("NO_SUCH", raising=False)
    for spec, word in {
        f"file:{tmp_path}/none": "toolyard vault init",
        "env:NO_SUCH": "--print",
        "keyring:toolyard/none": "toolyard vault init",
        f"age:{tmp_path}/none": "toolyard vault init",
    }.items():
        with pytest.raises(VaultKeyError, match="no key") as caught:
            source_of(spec).load()
        assert word in caught.value.hint


@pytest.mark.parametrize("spec", ["sesame", "file:", "vault:x", "s3cr3t-k3y:x y", "keyring:onlyone"])
def test_a_source_that_is_none_is_refused_without_quoting_it(spec: str):
    with pytest.raises(VaultKeyError) as caught:
        source_of(spec)
    assert "keyring:" in caught.value.hint
    assert spec == "keyring:onlyone" or spec not in caught.value.message


def test_short_and_empty_keys_are_refused():
    for text in ("tiny", " "):
        with pytest.raises(VaultKeyError) as caught:
            EnvSource("K", {"K": text}).load()
        assert text == " " or text not in str(caught.value)


def test_a_key_is_the_same_in_base64_and_hexadecimal():
    key = bytes(range(32))
    from base64 import b64encode, urlsafe_b64encode

    forms = (key.hex(), b64encode(key).decode(), urlsafe_b64encode(key).decode())
    assert len({EnvSource("K", {"K": form}).load()[0].id for form in forms}) == 1


def test_a_key_in_the_keyring_is_made_once_whoever_is_late(ring: KeyringInMemory):
    first, late = (source_of("keyring:toolyard/vault").create().id for _ in range(2))
    assert first == late == source_of("keyring:toolyard/vault").load()[0].id


def test_a_locked_keyring_and_an_age_file_without_identity_are_errors(tmp_path: Path, ring: KeyringInMemory):
    ring.locked = True
    with pytest.raises(VaultError) as caught:
        source_of("keyring:toolyard/vault").load()
    assert "unlock" in caught.value.hint
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(VaultKeyError, match="no identity"):
        AgeSource(tmp_path / "empty").load()


def test_a_key_of_kms_that_may_not_be_used_is_no_damaged_vault(aws_environment: Moto):
    arn = "arn:aws:kms:eu-west-1:123456789012:key/00000000-0000-0000-0000-000000000000"
    with pytest.raises(AwsRefusedError) as caught:
        KmsSource(arn).load()[0].wrap("acme", bytes(32))
    assert caught.value.code == "NotFoundException"
    assert "role" in caught.value.hint


@pytest.mark.parametrize(
    ("config", "environ", "shown"),
    [
        (Config(), {}, "file:/state/vault.key"),
        (Config(), {"TOOLYARD_VAULT_KEY": "k" * 40}, "env:TOOLYARD_VAULT_KEY"),
        (Config(state=StateConfig(url="redis://h", key="text")), {}, "the key of [state]"),
        (Config(vault=VaultConfig(key="env:X")), {"TOOLYARD_VAULT_KEY": "k" * 40}, "env:X"),
        (Config(state=StateConfig(url="postgresql://h/n")), {}, "none"),
    ],
)
def test_the_source_is_what_the_settings_say(config: Config, environ: dict[str, str], shown: str):
    assert sources(config, Path("/state"), environ)[0].shown == shown


def test_what_stands_for_a_key_is_never_shown(source: KeySource, capsys: pytest.CaptureFixture[str]):
    shown: list[Callable[[], str]] = [lambda: repr(source.load()), lambda: source.shown, lambda: repr(source)]
    text = "".join(one() for one in shown)
    for key in source.load():
        assert getattr(key, "as_text", lambda: "nothing")() not in text
    assert "correct horse" not in text
    assert "AGE-SECRET" not in text
