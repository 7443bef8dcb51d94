"""Secrets in the vault: read, replaced by one of many, bound to their place, and safe from damage."""

import asyncio
import os
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from tests.vault.conftest import Another
from toolyard.config import Config, StateConfig
from toolyard.state import State
from toolyard.vault import (
    SecretAddress,
    VaultDamagedError,
    VaultError,
    VaultKeyError,
    VaultUnavailableError,
)
from toolyard.vault.envelope import SECRETS, TENANTS, secret_key, tenant_key
from toolyard.vault.factory import open_vault, require_key
from toolyard.vault.master_keys import FileSource
from toolyard.vault.rotation import rotate
from toolyard.vault.vault import Vault

TOKEN = SecretAddress("acme", "token", "github", "acme/user:1f", "https://github.com")


def address(name: str, tenant: str = "acme") -> SecretAddress:
    return SecretAddress(tenant, "key", "shop", "", name)


async def value(vault: Vault, at: SecretAddress = TOKEN, max_age: float = 0.0) -> bytes | None:
    found = await vault.read(at, max_age)
    return None if found is None else found.value


async def test_a_secret_is_read_back_and_listed_by_its_address(vault: Vault):
    assert await vault.read(TOKEN) is None
    version = await vault.replace(TOKEN, b"ghu_16C7e42F292c69", None)
    found = await vault.read(TOKEN)
    assert found is not None
    assert (found.value, found.version) == (b"ghu_16C7e42F292c69", version)
    assert "ghu_" not in repr(found)
    assert await vault.list("acme") == [TOKEN]
    assert await vault.list("acme", "acme/user:1f", "token") == [TOKEN]
    assert await vault.list("acme", "acme/user:2e") == await vault.list("acme", kind="key") == []
    assert await vault.list("other") == []


async def test_the_store_holds_nothing_readable(vault: Vault, store: State):
    await vault.put(TOKEN, b"ghu_16C7e42F292c69")
    raw = b"".join([await store.get(key) or b"" for key in await store.keys("")])
    assert b"ghu_" not in raw


async def test_of_two_that_replace_the_same_version_one_succeeds(vault: Vault):
    first = await vault.replace(TOKEN, b"one", None)
    assert await vault.replace(TOKEN, b"two", None) is None
    second = await vault.replace(TOKEN, b"two", first)
    assert second not in (None, first)
    assert await vault.replace(TOKEN, b"three", first) is None
    assert not await vault.delete(TOKEN, first)
    assert await value(vault) == b"two"
    assert await vault.delete(TOKEN, second)
    assert await vault.read(TOKEN) is None


async def test_replicas_share_secrets_and_make_one_key_for_a_tenant(another: Another, shared_url: str):
    tenant = uuid4().hex
    replicas = [another(url=shared_url) for _ in range(5)]
    mine = [address(str(number), tenant) for number in range(5)]
    await asyncio.gather(
        *(one.replace(at, at.name.encode(), None) for one, at in zip(replicas, mine, strict=True))
    )
    for one in replicas:
        assert [await value(one, at) for at in mine] == [at.name.encode() for at in mine]
    won = await asyncio.gather(*(one.replace(address("x", tenant), b"x", None) for one in replicas))
    assert sum(version is not None for version in won) == 1


async def test_long_and_strange_names_have_places_of_their_own(vault: Vault):
    strange = [
        SecretAddress("a:b", "token", "c"),
        SecretAddress("a", "token", "b:c"),
        SecretAddress("a", "token", "x" * 5000, "ü/\n", "https://例え.jp/?a=b#c"),
        SecretAddress("a", "token", "x" * 5001, "ü/\n", "https://例え.jp/?a=b#c"),
        SecretAddress("#a", "token", "%23"),
        SecretAddress("", "named", name=""),
    ]
    for number, at in enumerate(strange):
        assert await vault.replace(at, b"%d" % number, None)
    for number, at in enumerate(strange):
        assert await value(vault, at) == b"%d" % number
        assert at in await vault.list(at.tenant)


@pytest.mark.parametrize(
    "elsewhere",
    [
        SecretAddress("other", "token", "github", "acme/user:1f", "https://github.com"),
        SecretAddress("acme", "token", "evil", "acme/user:1f", "https://github.com"),
        SecretAddress("acme", "token", "github", "acme/user:2e", "https://github.com"),
        SecretAddress("acme", "token", "github", "acme/user:1f", "https://evil.example"),
        SecretAddress("acme", "key", "github", "acme/user:1f", "https://github.com"),
    ],
    ids=["tenant", "server", "principal", "name", "kind"],
)
async def test_a_record_that_is_moved_elsewhere_does_not_open_there(
    vault: Vault, store: State, elsewhere: SecretAddress
):
    await vault.put(TOKEN, b"secret")
    await vault.put(address("so that the other tenant has a key", "other"), b"x")
    raw = await store.get(secret_key(TOKEN))
    assert raw is not None
    await store.put(secret_key(elsewhere), raw)
    with pytest.raises(VaultDamagedError):
        await vault.read(elsewhere)
    assert await value(vault) == b"secret"


async def test_the_key_of_a_tenant_does_not_open_for_another(another: Another, vault: Vault, store: State):
    await vault.put(TOKEN, b"secret")
    raw = await store.get(tenant_key("acme"))
    assert raw is not None
    record = msgspec.msgpack.decode(raw)
    await store.put(tenant_key("thief"), msgspec.msgpack.encode([record[0], "thief", record[2]]))
    with pytest.raises(VaultDamagedError, match="thief"):
        await another().put(address("x", "thief"), b"x")


async def test_every_bit_that_is_changed_or_cut_off_is_noticed(vault: Vault, store: State):
    await vault.put(TOKEN, b"secret")
    key = secret_key(TOKEN)
    whole = await store.get(key)
    assert whole is not None
    for at in range(len(whole)):
        await store.put(key, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(VaultDamagedError) as caught:
            await vault.read(TOKEN)
        assert caught.value.hint
        await store.put(key, whole[:at] or b"\0")
        with pytest.raises(VaultDamagedError):
            await vault.read(TOKEN)
    await store.put(key, whole)
    assert await value(vault) == b"secret"


async def test_a_damaged_secret_can_be_entered_again(vault: Vault, store: State):
    await vault.put(TOKEN, b"secret")
    await store.put(secret_key(TOKEN), b"\xc1 nothing")
    with pytest.raises(VaultDamagedError):
        await vault.replace(TOKEN, b"new", None)
    await vault.put(TOKEN, b"new")
    assert await value(vault) == b"new"


async def test_a_cached_read_sees_own_writes_at_once_and_others_after_its_age(another: Another):
    now = 100.0
    mine, other = another(), another()
    mine._clock = lambda: now  # pyright: ignore[reportPrivateUsage]
    await mine.put(TOKEN, b"one")
    await other.put(TOKEN, b"two")
    assert await value(mine, max_age=5) == b"one"
    assert await value(mine) == b"two"
    await other.put(TOKEN, b"three")
    assert await value(mine, max_age=5) == b"two"
    now = 106.0
    assert await value(mine, max_age=5) == b"three"
    await mine.delete(TOKEN)
    assert await value(mine, max_age=5) is None


# Keys


async def test_another_key_opens_nothing_and_loses_nothing(another: Another, tmp_path: Path):
    right, wrong = FileSource(tmp_path / "vault.key"), FileSource(tmp_path / "other.key")
    right.create()
    await another(right).put(TOKEN, b"secret")
    wrong.create()
    for attempt in (another(wrong).read(TOKEN), another(wrong).put(TOKEN, b"mine"), another(wrong).check()):
        with pytest.raises(VaultKeyError, match="not known here") as caught:
            await attempt
        assert "previous" in caught.value.hint
    assert await value(another(right)) == b"secret"


async def test_a_lost_key_file_is_not_made_anew_over_secrets(another: Another, tmp_path: Path):
    await another().put(TOKEN, b"secret")
    kept = (tmp_path / "vault.key").rename(tmp_path / "elsewhere")
    for attempt in (
        another().read(TOKEN),
        another().put(address("x", "new tenant"), b"x"),
        another().check(),
    ):
        with pytest.raises(VaultKeyError, match="no file") as caught:
            await attempt
        assert "backup" in caught.value.hint
    assert not (tmp_path / "vault.key").exists()
    kept.rename(tmp_path / "vault.key")
    assert await value(another()) == b"secret"


async def test_the_key_file_is_private_and_refused_if_others_can_read_it(another: Another, tmp_path: Path):
    await another().put(TOKEN, b"secret")
    file = tmp_path / "vault.key"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(VaultKeyError, match="others can read") as caught:
        await another().read(TOKEN)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize("content", ["", "# nothing\n", "not a key\n", "AAAA\n", "\0\xff"])
async def test_a_damaged_key_file_is_named_and_left_as_it_is(another: Another, tmp_path: Path, content: str):
    await another().put(TOKEN, b"secret")
    file = tmp_path / "vault.key"
    good = file.read_bytes()
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(VaultKeyError) as caught:
        await another().read(TOKEN)
    assert "vault.key" in caught.value.message
    assert "backup" in caught.value.hint
    assert file.read_bytes() == content.encode("latin-1")
    file.write_bytes(good)
    assert await value(another()) == b"secret"


def test_a_shared_store_without_a_key_is_refused(tmp_path: Path):
    config = Config(state=StateConfig(url="redis://127.0.0.1:1"))
    with pytest.raises(VaultKeyError, match="no key") as caught:
        require_key(config, tmp_path, {})
    assert "TOOLYARD_VAULT_KEY" in caught.value.hint
    require_key(config, tmp_path, {"TOOLYARD_VAULT_KEY": "k" * 40})
    require_key(Config(), tmp_path, {})


async def test_a_store_that_does_not_answer_is_no_lost_secret(tmp_path: Path):
    config = Config(state=StateConfig(url="redis://127.0.0.1:1", key="a key of the state"))
    vault = open_vault(config, tmp_path, environ={})
    try:
        with pytest.raises(VaultUnavailableError):
            await vault.read(TOKEN)
    finally:
        await vault.close()


async def test_what_is_too_big_is_refused_before_anything_is_written(vault: Vault):
    await vault.put(TOKEN, b"small")
    with pytest.raises(VaultError, match="bytes"):
        await vault.put(TOKEN, bytes(1 << 20))
    assert await value(vault) == b"small"


# Rotation


async def test_after_a_rotation_running_and_new_gateways_read_everything(another: Another, tmp_path: Path):
    running = another()
    tenants = [f"tenant {number}" for number in range(20)]
    for tenant in tenants:
        await running.put(address("x", tenant), tenant.encode())
    before = (tmp_path / "vault.key").read_text()
    done = await rotate(another())
    assert (done.rewrapped, done.total) == (20, 20)
    assert (tmp_path / "vault.key").read_text() != before
    # The running one wraps a new tenant by the new key, and the others are open to it as before.
    await running.put(address("x", "new"), b"new")
    new = another()
    for tenant in tenants:
        assert await value(running, address("x", tenant)) == tenant.encode()
        assert await value(new, address("x", tenant)) == tenant.encode()
    assert await value(new, address("x", "new")) == b"new"
    assert (await new.status()).earlier == {}


async def test_a_rotation_that_was_stopped_goes_on_where_it_was(another: Another, tmp_path: Path):
    vault = another()
    for number in range(6):
        await vault.put(address("x", str(number)), b"%d" % number)

    class Killed(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise Killed

    with pytest.raises(Killed):
        await rotate(another(), on_progress=stop)
    half = await another().status()
    assert (sum(half.earlier.values()), half.unknown) == (3, ())
    assert [await value(another(), address("x", str(n))) for n in range(6)] == [b"%d" % n for n in range(6)]
    keys = len(FileSource(tmp_path / "vault.key").load())
    done = await rotate(another())
    assert done.rewrapped == 3
    assert len(FileSource(tmp_path / "vault.key").load()) == keys == 2
    assert (await another().status()).earlier == {}


async def test_with_the_old_key_forgotten_it_opens_nothing_more(another: Another, tmp_path: Path):
    await another().put(TOKEN, b"secret")
    stolen = (tmp_path / "vault.key").read_bytes()
    await rotate(another(), forget=True)
    (tmp_path / "stolen").write_bytes(stolen)
    os.chmod(tmp_path / "stolen", 0o600)
    with pytest.raises(VaultKeyError, match="not known here"):
        await another(FileSource(tmp_path / "stolen")).read(TOKEN)
    assert await value(another()) == b"secret"


async def test_a_half_rotated_store_with_the_new_key_alone_says_which_key_is_missing(
    another: Another, tmp_path: Path
):
    old, new = FileSource(tmp_path / "vault.key"), FileSource(tmp_path / "new.key")
    old.create()
    vault = another(old)
    await vault.put(address("x", "1"), b"1")
    await vault.put(address("x", "2"), b"2")
    missing = old.load()[0].id
    new.create()
    both = another(new, old)
    key = (await both._state.keys(TENANTS))[0]  # pyright: ignore[reportPrivateUsage]
    await both._rewrap(key, await both.keys.current())  # pyright: ignore[reportPrivateUsage]
    alone = another(new)
    assert await value(alone, address("x", "1")) == b"1"
    with pytest.raises(VaultKeyError, match=missing):
        await alone.read(address("x", "2"))
    assert (await alone.status()).unknown == (missing,)
    assert (await rotate(another(new, old))).rewrapped == 1
    assert await value(another(new), address("x", "2")) == b"2"


async def test_nothing_to_rotate_to_is_said(another: Another, monkeypatch: pytest.MonkeyPatch):
    from toolyard.vault.master_keys import EnvSource

    vault = another(EnvSource("KEY", {"KEY": "k" * 40}))
    await vault.put(TOKEN, b"x")
    with pytest.raises(VaultKeyError, match="no new master key"):
        await rotate(vault)


async def test_records_of_a_newer_version_are_left_alone(vault: Vault, store: State):
    await vault.put(TOKEN, b"secret")
    raw = await store.get(secret_key(TOKEN))
    assert raw is not None
    members = msgspec.msgpack.decode(raw)
    await store.put(secret_key(TOKEN), msgspec.msgpack.encode([2, *members[1:]]))
    with pytest.raises(VaultDamagedError) as caught:
        await vault.read(TOKEN)
    assert "update" in caught.value.hint
    assert await store.keys(SECRETS) == [secret_key(TOKEN)]
