"""The stores of one machine, the address of a store, and what is missing."""

import asyncio
import os
import sqlite3
import stat
import sys
from pathlib import Path

import msgspec
import pytest

import toolyard
from tests.waiting import until
from toolyard.state import MemoryState, StateError, open_state
from toolyard.state.store import StateFullError, StateUnavailableError, StateUnusableError


async def test_several_processes_share_one_file_and_lose_nothing(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/shared.db"
    command = [sys.executable, "-m", "tests.state.adding", url, "sum", "60"]
    adding = [await asyncio.create_subprocess_exec(*command) for _ in range(3)]
    assert [await each.wait() for each in adding] == [0, 0, 0]

    state = open_state(url, None)
    assert await state.get("sum") == b"180"
    await state.close()


async def test_the_file_is_for_its_owner_alone_and_outlives_the_process(tmp_path: Path) -> None:
    state = open_state("sqlite:", tmp_path / "new" / "folder")
    await state.put("key", b"value")
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert "state.db" in [each.name for each in files]
    assert {stat.S_IMODE(os.stat(each).st_mode) for each in files} == {0o600}
    await state.close()

    again = open_state("sqlite:state.db", tmp_path / "new" / "folder")
    assert await again.get("key") == b"value"
    await again.close()


async def test_what_has_expired_does_not_pile_up_in_the_file(tmp_path: Path) -> None:
    first = open_state("sqlite:", tmp_path)
    for number in range(50):
        await first.put(f"{number:02}", b"value", 0.01)

    async def gone() -> bool:
        return not await first.keys("")

    await until(gone)
    second = open_state("sqlite:", tmp_path)
    await second.put("last", b"value")
    with sqlite3.connect(tmp_path / "state.db") as line:
        assert line.execute("SELECT key FROM state").fetchall() == [("last",)]
    await first.close()
    await second.close()


async def test_a_file_that_is_no_database_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"this is a letter to my aunt, and not a database at all" * 100)
    state = open_state("sqlite:", tmp_path)
    with pytest.raises(StateUnusableError, match=r"state\.db.*move it away"):
        await state.put("key", b"value")
    assert path.read_bytes().startswith(b"this is a letter")

    path.unlink()
    await state.put("key", b"value")
    assert await state.get("key") == b"value"
    await state.close()


async def test_a_place_that_cannot_hold_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = open_state(f"sqlite://{tmp_path}/file/state.db", None)
    with pytest.raises(StateUnavailableError, match=r"file/state\.db"):
        await state.get("key")
    await state.close()


async def test_a_full_memory_drops_what_will_expire_and_refuses_what_would_stay() -> None:
    state = MemoryState(max_entries=3, max_bytes=100)
    await state.put("forever", b"value")
    await state.put("older", b"value", 600)
    await state.put("newer", b"value", 60)
    await state.put("older", b"written again", 600)
    await state.put("more", b"value", 600)
    assert await state.keys("") == ["forever", "more", "older"]

    await state.put("big", b"x" * 80)
    assert await state.keys("") == ["big", "forever"]
    with pytest.raises(StateFullError, match="sqlite:"):
        await state.put("bigger", b"x" * 80)
    assert await state.keys("") == ["big", "forever"]
    await state.put("big", b"y" * 80)
    assert await state.get("big") == b"y" * 80


async def test_keys_that_are_written_again_and_again_take_no_more_room() -> None:
    state = MemoryState(max_entries=10)
    for number in range(5000):
        await state.put(f"key {number % 5}", b"%d" % number, 600)
    assert await state.keys("") == [f"key {number}" for number in range(5)]
    assert await state.get("key 4") == b"4999"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://u:secret@host/x", "unknown store type 'mysql'"),
        ("my-secret-password", "no store type"),
        ("redis", "no store type"),
        ("sqlite://host/file", "names a host"),
        ("sqlite:", "no state folder"),
    ],
)
def test_an_invalid_url_is_refused_with_examples_of_valid_ones(url: str, told: str) -> None:
    with pytest.raises(StateError, match=told) as caught:
        open_state(url, None)
    assert "secret" not in str(caught.value)
    assert "sqlite:" in str(caught.value)


@pytest.mark.parametrize("url", ["redis://:secret@host/0", "postgresql://u:secret@host/x"])
async def test_a_package_that_is_not_installed_is_named_with_the_command_that_installs_it(
    url: str, tmp_path: Path
) -> None:
    # Without site-packages there is nothing but the standard library, us, and what we cannot be without.
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    code = (
        f"import sys; sys.path[:0] = [{str(Path(toolyard.__file__).parent.parent)!r}, {str(tmp_path)!r}]\n"
        "from toolyard.state import StateError, open_state\n"
        f"try: open_state({url!r}, None)\n"
        "except StateError as error: print(error)\n"
    )
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", code, stdout=asyncio.subprocess.PIPE
    )
    said = (await run.communicate())[0].decode()
    extra = "redis" if url.startswith("redis") else "postgres"
    assert f"extras add {extra}" in said
    assert "secret" not in said
