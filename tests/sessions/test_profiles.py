"""Credential profiles: per tenant, their secrets in the vault, named and defaulted as one expects."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest

import toolyard
from tests.stores import RedisServer
from toolyard.config import Config
from toolyard.config.models import StateConfig
from toolyard.sessions import OldProfiles, ProfileStore
from toolyard.sessions.profile_errors import (
    InvalidProfileError,
    MissingProfileKeyError,
    ProfileLockedError,
    TooManyProfilesError,
    UnknownProfileError,
    WrongProfileKeyError,
)
from toolyard.sessions.profiles import MAX_CONFIG, MAX_PROFILES
from toolyard.state import MemoryState, State, StateError, open_state
from toolyard.state.store import StateUnavailableError
from toolyard.vault.base import SecretAddress
from toolyard.vault.envelope import secret_key
from toolyard.vault.factory import open_vault
from toolyard.vault.vault import Vault

KEY = "a key of the vault for tests"
GMAIL, SLACK = "composio.gmail", "composio.slack"
SECRET = {"type": "composio", "mcp_url": "https://example.com/mcp?k=hunter2", "user_id": "u-hunter2"}
OLD_KEY = "correct horse"
# What version 0.6.0 wrote into a state store, with `key = "correct horse"` in [state].
OLD_STORE = (
    '{"profiles":[{"profile_id":"82901e72-f90f-4d1a-8782-b2fcf2a00cfe","mcp_qualified_name":"composio'
    '.gmail","profile_name":"work","display_name":"work","encrypted_config":"gAAAAABq_V5b2kjld01N0DbT'
    "39Gqmh7DYeN6i-t5CQKKRgBPZ5eehaCGiMB82csnVD_6zti4skI71PZH_tApcmNJMCJS6hXFL8-S4wVeJm2cQ32O-Z8L4_hc"
    '1cCcCZZHpW4fH0aPipuN0YbA7b3Ko3FOSc6dI9hYhijAYFpE8oWrVThNK9NQtME9WIt24Mb3GoN6HvQfEBFq","config_ha'
    'sh":"fb2b2c1fb38dd6234f0c363c8c1c22a51837a7ba9e1a8e72a249dd5f80883471","is_active":true,"is_defa'
    'ult":true,"created_at":"2026-11-18T08:14:19.949Z","updated_at":"2026-11-18T08:14:19.949Z"},{"pro'
    'file_id":"6f309f6a-3de7-4a03-9987-fb93dc84d25a","mcp_qualified_name":"composio.slack","profile_n'
    'ame":"home","display_name":"home","encrypted_config":"gAAAAABq_V5bHcyxHB-14ZCtlCorYHOTvtQiw14lFN'
    "8mIKmK4_z4_U4lwfLNF0mwGIpxqQlioKOFs1ORFyriAm2Q4Pk8PHiwX3uIeMV_TPVsrhpnl4yWMgIVQkhTx2Eg-RATuQz4TV"
    'sHmLiPKRNCSr5esQUo3HZkUhTTqxVoMzLzhtI5_5R_WMc=","config_hash":"b5459a627922ce9c1e246d8413bedbf3b'
    '9f25014711aac87569202bb17000e9e","is_active":true,"is_default":true,"created_at":"2026-11-18T08:'
    '14:19.950Z","updated_at":"2026-11-18T08:14:19.950Z"}],"format":1}'
)


def vault_in(state: State, key: str = KEY) -> Vault:
    config = Config(state=StateConfig(url="memory:"))
    return open_vault(config, None, state, {"TOOLYARD_VAULT_KEY": key})


def profiles_in(state: State, key: str = KEY, old: str = "") -> ProfileStore:
    return ProfileStore(state, vault_in(state, key), OldProfiles.of(old, "memory:", None))


async def test_a_profile_is_kept_read_changed_and_deleted(state: State) -> None:
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    assert made.config == SECRET
    assert (made.display_name, made.is_active, made.is_default) == ("work", True, True)
    assert set(made.shown()) == {
        *("profile_id", "account_id", "mcp_qualified_name", "profile_name", "display_name"),
        *("config_hash", "is_active", "is_default", "created_at", "updated_at"),
    }
    again = profiles_in(state)
    assert await again.get("acme", made.profile_id) == made

    changed = await again.update("acme", made.profile_id, display_name="Work", config={"user_id": "new"})
    assert (changed.display_name, changed.profile_name) == ("Work", "work")
    assert changed.config == {"user_id": "new"}
    assert changed.config_hash != made.config_hash
    assert changed.created_at == made.created_at
    assert changed.updated_at >= made.updated_at
    assert await profiles.list("acme") == [changed]

    back = await profiles.update("acme", made.profile_id, config=dict(reversed(SECRET.items())))
    assert back.config_hash == made.config_hash, "it is of the contents, in whatever order"
    assert (await profiles.delete("acme", made.profile_id)).config == SECRET
    assert await profiles.list("acme") == []
    with pytest.raises(UnknownProfileError, match=made.profile_id):
        await profiles.get("acme", made.profile_id)


async def test_another_tenant_s_profile_is_an_unknown_one(state: State) -> None:
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    await profiles.create("other", GMAIL, "work", {})
    assert [each.account_id for each in await profiles.list("other")] == ["other"]
    for attempt in (
        profiles.get("other", made.profile_id),
        profiles.update("other", made.profile_id, profile_name="mine"),
        profiles.delete("other", made.profile_id),
        profiles.get("acme", "no such id"),
    ):
        with pytest.raises(UnknownProfileError):
            await attempt
    assert await profiles.get("acme", made.profile_id) == made


async def test_a_name_that_is_taken_gets_a_number_for_the_same_thing_only(state: State) -> None:
    profiles = profiles_in(state)
    names = [(await profiles.create("acme", GMAIL, "work", {})).profile_name for _ in range(3)]
    assert names == ["work", "work (2)", "work (3)"]
    assert await profiles.free_name("acme", GMAIL, "work") == "work (4)"
    slack = await profiles.create("acme", SLACK, "work", {})
    assert slack.profile_name == "work"
    first, second, _ = await profiles.list("acme", GMAIL)
    assert (await profiles.update("acme", second.profile_id, profile_name="work")).profile_name == "work (2)"
    assert (await profiles.update("acme", first.profile_id, profile_name="work")).profile_name == "work"


async def test_there_is_one_default_for_a_thing_among_the_active_ones(state: State) -> None:
    profiles = profiles_in(state)
    a, b, c = [await profiles.create("acme", GMAIL, name, {}) for name in "abc"]
    await profiles.create("acme", SLACK, "s", {})

    async def defaults() -> list[str]:
        return sorted(each.profile_name for each in await profiles.list("acme") if each.is_default)

    assert await defaults() == ["a", "s"]
    assert (await profiles.update("acme", b.profile_id, is_default=True)).is_default
    assert await defaults() == ["b", "s"]
    assert (await profiles.create("acme", GMAIL, "d", {}, is_default=True)).is_default
    assert await defaults() == ["d", "s"]
    await profiles.update("acme", b.profile_id, is_default=True)
    await profiles.update("acme", b.profile_id, is_active=False)
    assert await defaults() == ["a", "s"]
    await profiles.delete("acme", a.profile_id)
    assert await defaults() == ["c", "s"]
    assert [each.profile_name for each in await profiles.list("acme", SLACK)] == ["s"]
    assert (await profiles.get("acme", c.profile_id)).is_default


async def test_nothing_secret_is_in_the_store_in_a_repr_or_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    state = MemoryState()
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    with pytest.raises(InvalidProfileError) as refused:
        await profiles.update("acme", made.profile_id, config={"key": "hunter2", "file": object()})
    with pytest.raises(InvalidProfileError) as too_long:
        await profiles.create("acme", GMAIL, "long", {"key": "hunter2" * MAX_CONFIG})

    kept = b"".join([await state.get(key) or b"" for key in await state.keys("")])
    told = f"{made!r} {made.shown()} {refused.value} {too_long.value} {caplog.text} {kept.decode('latin-1')}"
    assert "hunter2" not in told
    assert KEY not in told
    assert "work" in told


async def test_with_another_key_nothing_is_read_added_or_lost(state: State) -> None:
    made = await profiles_in(state).create("acme", GMAIL, "work", SECRET)
    wrong = profiles_in(state, "another key of the vault")
    for attempt in (
        wrong.list("acme"),
        wrong.get("acme", made.profile_id),
        wrong.create("acme", SLACK, "new", {}),
        wrong.update("acme", made.profile_id, config={}),
    ):
        with pytest.raises(MissingProfileKeyError, match="put that key back") as caught:
            await attempt
        assert "another key of the vault" not in str(caught.value)
    assert await profiles_in(state).list("acme") == [made]

    assert (await wrong.delete("acme", made.profile_id)).config == {}
    assert await profiles_in(state).list("acme") == []


async def test_what_was_moved_from_one_tenant_to_another_does_not_open(state: State) -> None:
    profiles = profiles_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    await profiles.create("thief", GMAIL, "work", {})
    [key] = await state.keys("profiles:acme")
    await state.put(key.replace("acme", "thief"), await state.get(key) or b"")
    with pytest.raises(ProfileLockedError, match="does not have the configuration"):
        await profiles.get("thief", made.profile_id)
    here, there = (SecretAddress(one, "profile", name=made.profile_id) for one in ("acme", "thief"))
    await state.put(secret_key(there), await state.get(secret_key(here)) or b"")
    with pytest.raises(ProfileLockedError, match="damaged, or was moved"):
        await profiles.get("thief", made.profile_id)


async def test_a_profile_is_a_secret_of_the_vault_under_its_tenant(state: State) -> None:
    profiles, vault = profiles_in(state), vault_in(state)
    made = await profiles.create("acme", GMAIL, "work", SECRET)
    names = {one.name for one in await vault.list("acme", kind="profile")}
    assert made.profile_id in names
    assert await vault.list("other", kind="profile") == []
    await profiles.delete("acme", made.profile_id)
    assert made.profile_id not in {one.name for one in await vault.list("acme", kind="profile")}


async def test_without_a_key_a_store_that_others_share_is_refused(state: State) -> None:
    config = Config(state=StateConfig(url="redis://:hunter2@host/0"))
    old = OldProfiles.of("", config.state.url, None)
    profiles = ProfileStore(state, open_vault(config, None, state, {}), old)
    with pytest.raises(MissingProfileKeyError, match="TOOLYARD_VAULT_KEY") as caught:
        await profiles.create("acme", GMAIL, "work", SECRET)
    assert "hunter2" not in str(caught.value)
    assert await state.keys("") == []


# Profiles of earlier versions


async def test_profiles_of_an_earlier_version_move_to_the_vault_when_they_are_read(state: State) -> None:
    await state.put("profiles:acme", OLD_STORE.encode())
    profiles = profiles_in(state, old=OLD_KEY)
    first, second = await profiles.list("acme")
    assert (first.profile_name, first.config) == ("work", {"user_id": "u-hunter2", "type": "composio"})
    assert (second.mcp_qualified_name, second.is_default, second.config) == (SLACK, True, {"user_id": "u-2"})
    assert b"gAAAA" not in (await state.get("profiles:acme") or b"")
    assert await profiles_in(state).list("acme") == [first, second], "the old key is not needed any more"


async def test_profiles_of_an_earlier_version_are_left_alone_without_their_key(state: State) -> None:
    await state.put("profiles:acme", OLD_STORE.encode())
    for old, error in (("", MissingProfileKeyError), ("another", WrongProfileKeyError)):
        profiles = profiles_in(state, old=old)
        for attempt in (profiles.list("acme"), profiles.create("acme", GMAIL, "new", {})):
            with pytest.raises(error, match=r"key in \[state\]"):
                await attempt
        assert await state.get("profiles:acme") == OLD_STORE.encode()
    await state.put("profiles:thief", OLD_STORE.encode())
    with pytest.raises(ProfileLockedError, match="belongs to another one"):
        await profiles_in(state, old=OLD_KEY).list("thief")
    made = await profiles_in(state, old=OLD_KEY).create("acme", GMAIL, "new", {})
    assert [one.profile_name for one in await profiles_in(state).list("acme", GMAIL)] == ["work", "new"]
    assert not made.is_default


async def test_many_that_move_the_same_profiles_at_once_lose_none(state: State) -> None:
    await state.put("profiles:acme", OLD_STORE.encode())
    yards = [profiles_in(state, old=OLD_KEY) for _ in range(4)]
    lists = await asyncio.gather(*(yard.list("acme") for yard in yards))
    assert all(found == lists[0] for found in lists)
    assert len(lists[0]) == 2


async def test_the_key_file_of_an_earlier_version_is_read_and_never_made(
    tmp_path: Path, state: State
) -> None:
    await state.put("profiles:acme", OLD_STORE.encode())

    def with_file() -> ProfileStore:
        return ProfileStore(state, vault_in(state), OldProfiles.of("", "sqlite:", tmp_path))

    with pytest.raises(MissingProfileKeyError, match="restore the file"):
        await with_file().list("acme")
    assert os.listdir(tmp_path) == []
    (tmp_path / "profiles.key").write_text(f"{OLD_KEY}\n")
    assert len(await with_file().list("acme")) == 2


async def test_many_at_once_in_a_shared_store_lose_nothing(redis_server: RedisServer) -> None:
    states = [open_state(redis_server.url, None) for _ in range(3)]
    yards = [profiles_in(state) for state in states]
    made = await asyncio.gather(*(yard.create("acme", GMAIL, "work", {}) for yard in yards for _ in range(4)))
    assert len({each.profile_name for each in made}) == 12
    listed = await yards[0].list("acme")
    assert {each.profile_id for each in listed} == {each.profile_id for each in made}
    assert [each.is_default for each in listed].count(True) == 1
    for state in states:
        await state.close()


async def test_a_store_that_is_away_is_told_and_not_covered_up() -> None:
    store = open_state("redis://127.0.0.1:1/0", None)
    with pytest.raises(StateUnavailableError):
        await profiles_in(store).create("acme", GMAIL, "work", SECRET)
    await store.close()


async def test_what_another_version_wrote_is_left_alone(state: State) -> None:
    profiles = profiles_in(state)
    await profiles.create("acme", GMAIL, "work", SECRET)
    [key] = await state.keys("profiles:")
    for stranger in (b'{"format":3,"profiles":[]}', b"no JSON"):
        await state.put(key, stranger)
        with pytest.raises(StateError, match="version"):
            await profiles.create("acme", GMAIL, "work", SECRET)
        assert await state.get(key) == stranger


async def test_names_that_are_none_and_more_than_there_may_be_are_refused(state: State) -> None:
    profiles = profiles_in(state)
    for name in ("", "  ", "a\nb", "x" * 201):
        with pytest.raises(InvalidProfileError, match="cannot be a profile name"):
            await profiles.create("acme", GMAIL, name, {})
    for number in range(MAX_PROFILES):
        await profiles.create("acme", GMAIL, f"{number}", {})
    with pytest.raises(TooManyProfilesError, match=str(MAX_PROFILES)):
        await profiles.create("acme", GMAIL, "one more", {})


async def test_without_the_package_the_command_that_installs_it_is_named(tmp_path: Path) -> None:
    import msgspec

    # The standard library, us and msgspec.
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    ours = [str(tmp_path), str(Path(toolyard.__file__).parent.parent)]
    code = (
        f"import asyncio, sys; sys.path[:0] = {ours!r}\n"
        "from toolyard.config import Config\n"
        "from toolyard.sessions import OldProfiles, ProfileError, ProfileStore\n"
        "from toolyard.state import MemoryState\n"
        "from toolyard.vault.factory import open_vault\n"
        "state = MemoryState()\n"
        "vault = open_vault(Config(), None, state, {'TOOLYARD_VAULT_KEY': 'k' * 32})\n"
        "profiles = ProfileStore(state, vault, OldProfiles.of('key', '', None))\n"
        "try: asyncio.run(profiles.create('acme', 'a', 'b', {}))\n"
        "except ProfileError as error: print(error)\n"
    )
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert "extras add vault" in (await run.communicate())[0].decode()
