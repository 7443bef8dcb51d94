"""API keys: made, verified, rotated and revoked, in a real store."""

import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolyard.callers.errors import InvalidTokenError, VerifierUnavailableError
from toolyard.callers.keys import (
    PATTERN,
    ApiKeyError,
    ApiKeys,
    KeyHolder,
    MalformedKeyError,
    check_key,
    checksum,
    open_keys,
)
from toolyard.callers.names import CallerNameError
from toolyard.state import open_state
from toolyard.state.store import StateUnusableError
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer

SEALER = Sealer(b"a key of thirty-two bytes, or so")
ANNA = KeyHolder(name="anna")


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def keys(tmp_path: Path, clock: Clock) -> AsyncIterator[ApiKeys]:
    opened = ApiKeys(open_state("sqlite:", tmp_path), "yard", SEALER, owns_state=True, now=clock)
    yield opened
    await opened.close()


def content_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def put_a_folder_in_place_of(file: Path) -> None:
    for path in file.parent.iterdir():
        path.unlink()
    file.mkdir()


async def refusal(keys: ApiKeys, text: str) -> str:
    with pytest.raises(InvalidTokenError) as error:
        await keys.verify(text, "/mcp")
    assert error.value.description == ""
    assert text not in error.value.reason
    return error.value.reason


async def test_a_key_says_who_has_it(keys: ApiKeys):
    holder = KeyHolder(
        name="laptop", tenant="acme", user="anna", agent="coder", groups=("dev", "ops"), scopes=("tools",)
    )
    issued = await keys.create(holder)
    assert await keys.verify(issued.text, "/mcp") == Principal(
        tenant="acme",
        agent="coder",
        subject="anna",
        groups=frozenset({"dev", "ops"}),
        scopes=frozenset({"tools"}),
        kind="key",
        credential=issued.key.id,
    )


async def test_the_user_of_a_key_is_its_name_unless_another_is_given(keys: ApiKeys):
    issued = await keys.create(ANNA)
    principal = await keys.verify(issued.text, "/mcp")
    assert (principal.subject, principal.tenant) == ("anna", "local")


async def test_a_key_is_recognised_by_scanners_and_by_its_checksum(keys: ApiKeys):
    issued = await keys.create(ANNA)
    assert re.fullmatch(PATTERN, issued.text)
    assert check_key(issued.text) == issued.key.id
    for place in range(3, len(issued.text)):
        if issued.text[place] == "_":
            continue
        other = "b" if issued.text[place] == "a" else "a"
        with pytest.raises(MalformedKeyError, match="checksum"):
            check_key(issued.text[:place] + other + issued.text[place + 1 :])


@pytest.mark.parametrize("text", ["ty_", "ty_abc", "ty_" + "é" * 51, "sk-123", "ty_" + "a" * 10_000])
async def test_what_is_not_of_the_form_is_refused(keys: ApiKeys, text: str):
    with pytest.raises(MalformedKeyError, match="form"):
        check_key(text)
    assert "form" in await refusal(keys, text)


async def test_nothing_of_a_key_is_stored_but_a_keyed_hash(tmp_path: Path, keys: ApiKeys):
    issued = await keys.create(ANNA)
    await keys.verify(issued.text, "/mcp")
    await keys.close()
    secret = issued.text.split("_")[2].encode()
    stored = content_of(tmp_path)
    assert b"anna" in stored
    assert secret not in stored
    assert secret[:32] not in stored


async def test_an_unknown_key_a_wrong_secret_and_another_gateway_are_refused_alike(
    tmp_path: Path, keys: ApiKeys
):
    issued = await keys.create(ANNA)
    other = await keys.create(KeyHolder(name="ben"))
    start = f"ty_{issued.key.id}_{other.text.split('_')[2][:32]}"
    wrong = start + checksum(start)
    unknown_start = f"ty_{'0' * 12}_{'0' * 32}"
    unknown = unknown_start + checksum(unknown_start)
    assert "with this secret" in await refusal(keys, wrong)
    assert "with this secret" in await refusal(keys, unknown)
    state = open_state("sqlite:", tmp_path)
    assert "with this secret" in await refusal(ApiKeys(state, "another", SEALER), issued.text)
    changed = ApiKeys(state, "yard", Sealer(b"another key of the gateway, thirty"))
    assert "with this secret" in await refusal(changed, issued.text)
    assert changed.is_foreign(issued.key)
    await state.close()


async def test_a_key_ends_at_its_expiry(keys: ApiKeys, clock: Clock):
    issued = await keys.create(ANNA, expires=clock.time + 60)
    assert await keys.verify(issued.text, "/mcp")
    clock.time += 60
    assert "expired" in await refusal(keys, issued.text)


async def test_a_revoked_key_is_refused_and_stays_in_the_list(keys: ApiKeys, clock: Clock):
    issued = await keys.create(ANNA)
    await keys.revoke(issued.key.id)
    assert "revoked" in await refusal(keys, issued.text)
    assert [key.state(clock.time) for key in await keys.list()] == ["revoked"]


async def test_a_rotated_key_overlaps_with_its_successor(keys: ApiKeys, clock: Clock):
    first = await keys.create(ANNA)
    second = await keys.rotate(first.key.id, overlap=3600)
    assert await keys.verify(first.text, "/mcp") == await keys.verify(second.text, "/mcp")
    clock.time += 1800
    third = await keys.rotate(first.key.id, overlap=3600)
    clock.time += 1800
    assert "with this secret" in await refusal(keys, first.text)
    assert await keys.verify(second.text, "/mcp")
    clock.time += 1800
    assert "with this secret" in await refusal(keys, second.text)
    assert await keys.verify(third.text, "/mcp")


async def test_without_overlap_the_old_key_ends_at_once(keys: ApiKeys):
    first = await keys.create(ANNA)
    second = await keys.rotate(first.key.id, overlap=0)
    assert "with this secret" in await refusal(keys, first.text)
    assert await keys.verify(second.text, "/mcp")


async def test_a_revoked_key_cannot_be_rotated(keys: ApiKeys):
    issued = await keys.create(ANNA)
    await keys.revoke(issued.key.id)
    with pytest.raises(ApiKeyError, match="revoked"):
        await keys.rotate(issued.key.id, overlap=0)


async def test_the_last_use_is_written_at_most_once_a_minute(keys: ApiKeys, clock: Clock, tmp_path: Path):
    issued = await keys.create(ANNA)
    start = clock.time
    for _ in range(5):
        await keys.verify(issued.text, "/mcp")
        clock.time += 10
    await keys.close()
    with sqlite3.connect(tmp_path / "state.db") as database:
        written = database.execute("SELECT value FROM state WHERE key LIKE '%:used:%'").fetchall()
    assert [int(value) for (value,) in written] == [int(start)]


async def test_a_name_is_taken_until_its_key_is_revoked(keys: ApiKeys):
    first = await keys.create(ANNA)
    with pytest.raises(ApiKeyError, match="a key 'anna' exists"):
        await keys.create(ANNA)
    await keys.revoke(first.key.id)
    second = await keys.create(ANNA)
    assert (await keys.find("anna")).id == second.key.id
    assert (await keys.find(first.key.id)).revoked is not None
    with pytest.raises(ApiKeyError, match="no key 'ben'"):
        await keys.find("ben")


@pytest.mark.parametrize(
    "holder",
    [
        KeyHolder(name="Anna"),
        KeyHolder(name="аnna"),  # noqa: RUF001 (Cyrillic)
        KeyHolder(name="b1", agent="Coder"),
        KeyHolder(name="b2", agent="c0der"),
        KeyHolder(name="b3", tenant="ACME"),
        KeyHolder(name="b4", tenant="acme", user="Zoe"),
        KeyHolder(name="b5", groups=("DEV",)),
    ],
)
async def test_names_that_look_like_known_ones_are_refused(keys: ApiKeys, holder: KeyHolder):
    await keys.create(KeyHolder(name="anna", tenant="acme", agent="coder", user="zoe", groups=("dev",)))
    before = len(await keys.list())
    for _ in range(2):
        with pytest.raises(ApiKeyError, match="only by case, by Unicode form or by look"):
            await keys.create(holder)
    assert len(await keys.list()) == before
    assert await keys.create(KeyHolder(name="ben", tenant="acme", agent="coder", groups=("dev",)))


async def test_a_name_that_cannot_be_one_is_refused(keys: ApiKeys):
    with pytest.raises(CallerNameError):
        await keys.create(KeyHolder(name="a\u202eb"))


async def test_with_a_store_in_memory_keys_are_in_a_file_of_the_state_folder(tmp_path: Path):
    first = open_keys("", tmp_path, "yard", SEALER)
    issued = await first.create(ANNA)
    await first.close()
    second = open_keys("sqlite:", tmp_path, "yard", SEALER)
    assert (await second.verify(issued.text, "/mcp")).subject == "anna"
    await second.close()
    with pytest.raises(StateUnusableError):
        open_keys("memory:", None, "yard", SEALER)


async def test_a_store_that_is_down_is_no_reason_to_call_a_key_invalid(tmp_path: Path, keys: ApiKeys):
    issued = await keys.create(ANNA)
    await keys.close()
    put_a_folder_in_place_of(tmp_path / "state.db")
    broken = open_keys("sqlite:", tmp_path, "yard", SEALER)
    with pytest.raises(VerifierUnavailableError):
        await broken.verify(issued.text, "/mcp")
    await broken.close()


@pytest.mark.parametrize("many", [100_000])
async def test_a_look_up_reads_one_record_however_many_keys_there_are(
    tmp_path: Path, keys: ApiKeys, many: int
):
    """As SQLite plans it: a search of the primary key, whatever the number of rows."""
    issued = await keys.create(ANNA)
    with sqlite3.connect(tmp_path / "state.db") as database:
        rows = ((f"callers:yard:key:{number:012d}", b"{}") for number in range(many))
        database.executemany("INSERT INTO state (key, value) VALUES (?, ?)", rows)
        plan = database.execute(
            "EXPLAIN QUERY PLAN SELECT value FROM state WHERE key = 'x' AND (expires IS NULL OR expires > 1)"
        ).fetchall()
    assert "SEARCH state USING PRIMARY KEY" in plan[0][3]
    assert (await keys.verify(issued.text, "/mcp")).subject == "anna"
