"""Composio's workbench: files arrive whole or not at all, whatever the service says about them."""

import asyncio
import hashlib
import io
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.composio import ComposioEmulator
from toolyard.wire.call import Caller, Identity, Principal
from toolyard.wire.versions import LATEST_MODERN
from toolyard.workbench import WorkbenchError
from toolyard.workbench.composio import (
    ComposioAccess,
    ComposioApi,
    ComposioError,
    ComposioStore,
    ComposioWorkbench,
    ComposioWorkbenches,
)

REPORT = b"<h1>Report</h1>\n" + bytes(range(256))
LARGE = random.Random(17).randbytes(6_000_000)
MAIL: dict[str, Any] = {"tool": "GMAIL_SEND_EMAIL", "toolkit": "gmail"}


def caller(user: str = "ana", thread: str = "t1") -> Caller:
    return Caller(LATEST_MODERN, {}, identity=Identity(Principal(tenant=user), thread))


@asynccontextmanager
async def workbenches(composio: ComposioEmulator, **settings: Any) -> AsyncIterator[ComposioWorkbenches]:
    access = ComposioAccess(api_key=composio.api_key, base_url=composio.url, **settings)
    found = ComposioWorkbenches.at(access)
    try:
        yield found
    finally:
        await found.close()


@pytest.fixture
async def composio() -> AsyncIterator[ComposioEmulator]:
    async with ComposioEmulator() as emulator:
        yield emulator


@pytest.fixture
async def benches(composio: ComposioEmulator) -> AsyncIterator[ComposioWorkbenches]:
    async with workbenches(composio) as found:
        yield found


@pytest.fixture
def bench(benches: ComposioWorkbenches) -> ComposioWorkbench:
    return benches.of(caller())


async def written(bench: ComposioWorkbench, path: str, data: bytes, **more: Any) -> None:
    assert (await bench.write_file(path, io.BytesIO(data), **more)).size == len(data)


async def read(bench: ComposioWorkbench, path: str, **more: Any) -> bytes:
    into = io.BytesIO()
    found = await bench.read_file(path, into, **more)
    assert found.size == len(into.getvalue())
    return into.getvalue()


def held(composio: ComposioEmulator, user: str = "ana") -> dict[str, bytes]:
    """All files in the user's sandboxes."""
    boxes = [box for (owner, _), box in composio.sandboxes.items() if owner == user]
    return {path: data for box in boxes for path, data in box.files.items()}


# Up and down


@pytest.mark.parametrize(
    "data", [b"", b"x", REPORT, bytes(4_999_999)], ids=["empty", "one", "some", "five MB"]
)
async def test_a_file_goes_up_in_one_cell_is_checked_in_a_second_and_comes_back_the_same(
    composio: ComposioEmulator, bench: ComposioWorkbench, data: bytes
) -> None:
    await written(bench, "/home/user/deep/er/report.html", data)
    assert held(composio) == {"/home/user/deep/er/report.html": data}
    assert len(composio.asked("session.execute_meta")) == 2
    assert await read(bench, "/home/user/deep/er/report.html") == data
    assert await read(bench, "deep/er/report.html") == data, "relative to the home"


async def test_a_large_file_goes_up_through_the_mount_which_is_empty_again(
    composio: ComposioEmulator, benches: ComposioWorkbenches, bench: ComposioWorkbench
) -> None:
    await written(bench, "large.bin", LARGE)
    assert held(composio) == {"/home/user/large.bin": LARGE}
    assert len(composio.asked("store.put")) == 1
    assert await read(bench, "large.bin") == LARGE
    await benches.close()
    assert not [key for key in composio.world.blobs if key.startswith("mounts/")]


async def test_without_a_mount_a_large_file_goes_up_in_parts() -> None:
    async with ComposioEmulator(v31=False) as composio, workbenches(composio) as benches:
        bench = benches.of(caller())
        await written(bench, "large.bin", LARGE)
        assert held(composio) == {"/home/user/large.bin": LARGE}
        assert not composio.asked("store.put")
        assert len(composio.asked("session.execute_meta")) == 3, "two parts and the check"
        assert await read(bench, "large.bin") == LARGE


async def test_parts_get_smaller_until_the_workbench_takes_them(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    composio.world.max_code = 600_000
    data = LARGE[:1_000_001]
    await written(bench, "a.bin", data)
    assert held(composio) == {"/home/user/a.bin": data}
    composio.world.max_code = 10_000
    with pytest.raises(ComposioError, match="has more than 10000 characters"):
        await written(bench, "b.bin", data)


@pytest.mark.parametrize("failure", ["a store that fails", "an address that has expired"])
async def test_if_the_store_of_the_mount_fails_a_large_file_goes_up_in_parts(
    composio: ComposioEmulator, bench: ComposioWorkbench, failure: str
) -> None:
    if failure == "a store that fails":
        composio.drop("store.put")
    else:
        composio.stale()
    await written(bench, "large.bin", LARGE)
    assert held(composio) == {"/home/user/large.bin": LARGE}


@pytest.mark.parametrize("form", ["s3url", "content", "uri", "local"])
@pytest.mark.parametrize("data", [b"plain text\n", REPORT], ids=["text", "binary"])
async def test_every_known_form_of_a_download_gives_the_file_itself(form: Any, data: bytes) -> None:
    """`content` breaks binary files on the way, and `local` names a file of whoever runs Composio's SDK."""
    async with ComposioEmulator(file_form=form) as composio, workbenches(composio) as benches:
        bench = benches.of(caller())
        await written(bench, "report.html", data)
        assert await read(bench, "report.html") == data


async def test_a_download_that_loses_bytes_on_the_way_is_read_again_in_parts(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    await written(bench, "report.html", REPORT)
    composio.corrupt("store.get")
    assert await read(bench, "report.html") == REPORT


async def test_a_download_that_breaks_off_says_so(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    await written(bench, "large.bin", LARGE)
    composio.cut("store.get")
    with pytest.raises(ComposioError) as raised:
        await read(bench, "large.bin")
    assert (raised.value.fault, raised.value.code) == ("interrupted", "unavailable")


async def test_a_workbench_that_lies_about_success_is_found_out(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    composio.lie("session.execute_meta")
    with pytest.raises(ComposioError) as raised:
        await written(bench, "report.html", REPORT)
    assert raised.value.fault == "mismatch"


async def test_a_reply_without_the_mark_of_the_cell_is_no_success(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    # The workbench prints less than it should: what the program would print is lost.
    await bench.run("import builtins; builtins.print = lambda *values, **more: None")
    with pytest.raises(ComposioError) as raised:
        await written(bench, "report.html", REPORT)
    assert (raised.value.fault, raised.value.subject) == ("mismatch", "/home/user/report.html")


HOSTILE = [
    "quo'te.txt",
    'dou"ble.txt',
    "new\nline.txt",
    "'); import os; os.system('touch /tmp/pwned'); ('",
    "-rf",
    "--help",
    "$(touch pwned)",
    "{braces}.txt",
    "back\\slash.txt",
    "ümlaut 日本.txt",
    "..hidden",
]


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_path_is_never_a_part_of_the_code(
    composio: ComposioEmulator, bench: ComposioWorkbench, name: str
) -> None:
    await written(bench, f"/home/user/dir/{name}", REPORT)
    assert held(composio) == {f"/home/user/dir/{name}": REPORT}
    assert await read(bench, f"/home/user/dir/{name}") == REPORT
    codes = [record.body["arguments"].get("code_to_execute", "") for record in composio.asked("execute_meta")]
    assert codes
    assert not any(name in code for code in codes)


@pytest.mark.parametrize(
    ("path", "code"),
    [("", "not_a_file"), ("a\0b", "outside"), ("/home/user/", "not_a_file"), ("x" * 5000, "not_a_file")],
)
async def test_a_path_that_can_be_no_file_s_is_refused_unsent(
    composio: ComposioEmulator, bench: ComposioWorkbench, path: str, code: str
) -> None:
    for work in (bench.write_file(path, io.BytesIO(b"x")), bench.read_file(path, io.BytesIO())):
        with pytest.raises(WorkbenchError) as raised:
            await work
        assert raised.value.code == code
    assert composio.requests == []


async def test_errors_say_what_is_wrong_with_the_remote_path(bench: ComposioWorkbench) -> None:
    await written(bench, "dir/a.txt", b"first")
    for work, code in (
        (read(bench, "missing.txt"), "missing"),
        (read(bench, "dir"), "not_a_file"),
        (written(bench, "dir", b"x"), "not_a_file"),
        (written(bench, "dir/a.txt/b.txt", b"x"), "not_a_file"),
        (written(bench, "dir/a.txt", b"x", overwrite=False), "exists"),
        (written(bench, "/proc/nothing/here", b"x"), "missing"),
    ):
        with pytest.raises(WorkbenchError) as raised:
            await work
        assert raised.value.code == code
    assert await read(bench, "dir/a.txt") == b"first"


async def test_a_file_over_the_limit_is_not_sent_and_not_fetched(composio: ComposioEmulator) -> None:
    async with workbenches(composio, max_bytes=1000) as benches:
        bench = benches.of(caller())
        with pytest.raises(WorkbenchError) as raised:
            await written(bench, "a.bin", bytes(1001))
        assert raised.value.code == "too_large"
        assert not composio.asked("session.execute_meta")
        await bench.run("open('/home/user/b.bin', 'wb').write(bytes(1001))")
        with pytest.raises(WorkbenchError) as raised:
            await read(bench, "b.bin")
        assert raised.value.code == "too_large"
        assert not composio.asked("session.execute")
        await written(bench, "c.bin", bytes(1000))
        with pytest.raises(WorkbenchError):
            await read(bench, "c.bin", max_bytes=999)


async def test_the_unfinished_file_of_a_cancelled_upload_is_removed_and_the_old_one_stays() -> None:
    async with ComposioEmulator(v31=False) as composio, workbenches(composio) as benches:
        bench = benches.of(caller())
        await written(bench, "large.bin", b"old")
        first = composio.slow("session.execute_meta")
        second = composio.slow("session.execute_meta")
        task = asyncio.create_task(written(bench, "large.bin", LARGE + LARGE))
        await first.arrived.wait()
        first.release()
        await second.arrived.wait()
        assert any(".toolyard-" in path for path in held(composio)), "the first part is there"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        second.release()
        await benches.close()
        assert held(composio) == {"/home/user/large.bin": b"old"}


async def test_a_file_that_changes_while_it_is_sent_is_not_stored(
    composio: ComposioEmulator, tmp_path: Path
) -> None:
    path = tmp_path / "growing.bin"
    path.write_bytes(bytes(2_000_000))

    class Changing(io.FileIO):
        """Another content each time that it is read from its start."""

        def seek(self, offset: int, whence: int = 0) -> int:
            path.write_bytes(os.urandom(2_000_000))
            return super().seek(offset, whence)

    api = ComposioApi(ComposioAccess(api_key=composio.api_key, base_url=composio.url))
    with Changing(path, "rb") as file, pytest.raises(ComposioError) as raised:
        await ComposioStore(api).upload(file, "growing.bin", **MAIL)  # pyright: ignore[reportArgumentType]
    assert raised.value.fault == "changed"
    assert all(blob.content is None for blob in composio.world.blobs.values())
    await api.close()


# Sessions


async def test_each_conversation_has_its_own_session_and_files(
    composio: ComposioEmulator, benches: ComposioWorkbenches
) -> None:
    one, other = benches.of(caller("ana", "t1")), benches.of(caller("ana", "t2"))
    await asyncio.gather(written(one, "a.txt", b"one"), written(one, "b.txt", b"two"))
    assert len(composio.sessions) == 1, "one session, though two calls began at once"
    with pytest.raises(WorkbenchError, match="No such file"):
        await read(other, "a.txt")
    assert {session.user_id for session in composio.sessions.values()} == {"ana"}


async def test_a_session_that_is_named_is_used_if_it_is_the_caller_s_own(
    composio: ComposioEmulator, benches: ComposioWorkbenches
) -> None:
    ana, bo = benches.of(caller("ana")), benches.of(caller("bo"))
    session = (await ana.run("x = 41")).session_id
    assert session in composio.sessions
    again = benches.of(caller("ana", "another conversation"))
    assert (await again.run("print(x + 1)", session=session)).stdout == "42\n"
    await written(again, "a.txt", b"mine", session=session)
    assert await read(ana, "a.txt") == b"mine"
    for work in (
        bo.run("print(x)", session=session),
        bo.bash("ls", session=session),
        read(bo, "a.txt", session=session),
        written(bo, "a.txt", b"stolen", session=session),
        bo.run("print(1)", session="trs_unknown"),
    ):
        with pytest.raises(WorkbenchError) as raised:
            await work
        assert raised.value.code == "no_session"
    assert await read(ana, "a.txt") == b"mine"


@pytest.mark.parametrize("status", [401, 404, 410, 200])
async def test_an_expired_session_is_renewed_and_the_call_runs_once_more(
    composio: ComposioEmulator, bench: ComposioWorkbench, status: int
) -> None:
    first = (await bench.run("print(1)")).session_id
    composio.expire(first, status)
    assert (await bench.run("print(2)")).stdout == "2\n"
    assert len(composio.sessions) == 2
    with pytest.raises(WorkbenchError) as raised:
        await bench.run("print(3)", session=first)
    assert raised.value.code == "no_session"


async def test_a_sandbox_of_the_code_interpreter_can_be_read_by_its_id(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    sandbox = composio.world.sandbox("ana", "sbx_1")
    sandbox.place("/home/user/made.csv").write_bytes(REPORT)
    assert await read(bench, "/home/user/made.csv", session="sbx_1") == REPORT


# Cells


async def test_cells_and_commands_say_how_they_ended(bench: ComposioWorkbench) -> None:
    shown: list[tuple[str, str]] = []

    async def on_output(stream: Any, text: str) -> None:
        shown.append((stream, text))

    done = await bench.run("import sys; print('out'); print('err', file=sys.stderr)", on_output=on_output)
    assert (done.stdout, done.stderr, done.error) == ("out\n", "err\n", None)
    assert shown == [("stdout", "out\n"), ("stderr", "err\n")]
    failed = await bench.run("1/0")
    assert failed.fault == "exception"
    assert "ZeroDivisionError" in (failed.error or "")
    long = await bench.run("print('x' * 1_000_000)")
    assert long.stdout_file is not None
    assert len(await read(bench, long.stdout_file)) == 1_000_001

    listed = await bench.bash("echo \"it's\" 'here'; cd / && false")
    assert (listed.stdout, listed.exit_code) == ("it's here\n", 1)
    assert (await bench.bash("exit 7")).exit_code == 7
    assert (await bench.bash('echo "$(echo deep)" >&2')).stderr == "deep\n"


async def test_a_cell_without_an_end_is_given_up(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    await bench.run("pass")
    composio.slow("session.execute_meta", times=2)
    assert (await bench.run("print(1)", timeout=0.05)).fault == "timeout"
    assert (await bench.bash("true", timeout=0.05)).fault == "timeout"


# What goes wrong at Composio


async def test_a_request_that_was_rejected_unread_is_sent_again(
    composio: ComposioEmulator, bench: ComposioWorkbench
) -> None:
    composio.fail("session.execute_meta", 429, retry_after=0)
    composio.fail("session.create", 503, retry_after=0)
    assert (await bench.run("print(1)")).stdout == "1\n"
    composio.fail("session.execute_meta", 429, retry_after=600, times=9)
    with pytest.raises(ComposioError) as raised:
        await bench.run("print(1)")
    assert (raised.value.fault, raised.value.code) == ("rate_limited", "unavailable")


@pytest.mark.parametrize(
    ("fault", "how"),
    [("failing", "status"), ("failing", "drop"), ("garbled", "garbage")],
)
async def test_a_request_that_may_have_run_is_not_repeated(
    composio: ComposioEmulator, bench: ComposioWorkbench, fault: str, how: str
) -> None:
    await bench.run("n = 0")
    composio.requests.clear()
    spoil = {"status": composio.fail, "drop": composio.drop, "garbage": composio.garble}[how]
    spoil("session.execute_meta")
    with pytest.raises(ComposioError) as raised:
        await bench.run("n += 1")
    assert raised.value.fault == fault
    assert len(composio.asked("session.execute_meta")) == 1


async def test_a_wrong_key_and_a_wrong_address_are_named_and_the_key_is_not(
    composio: ComposioEmulator,
) -> None:
    key = "ak_secret_and_wrong"
    composio.fail("session.create", 401, message=f"Invalid API key {key}", times=9)
    for url, fault in ((composio.url, "unauthorized"), ("http://127.0.0.1:9", "unreachable")):
        benches = ComposioWorkbenches.at(ComposioAccess(api_key=key, base_url=url))
        with pytest.raises(ComposioError) as raised:
            await benches.of(caller()).run("print(1)")
        assert raised.value.fault == fault
        assert key not in str(raised.value)
        assert key not in repr(benches.api.access)
        await benches.close()


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest",
        "http://10.0.0.1/x",
        "http://[::1]:1/x",
        "http://user:password@example.com/x",
        "http://localhost:1/x",
    ],
)
async def test_a_private_address_in_a_reply_is_not_followed(address: str) -> None:
    async with ComposioEmulator(storage=address) as composio, workbenches(composio) as benches:
        bench = benches.of(caller())
        store = ComposioStore(benches.api)
        with pytest.raises(ComposioError) as raised:
            await store.upload(io.BytesIO(REPORT), "report.html", **MAIL)
        assert raised.value.fault == "blocked"
        await written(bench, "report.html", REPORT)
        with pytest.raises(ComposioError) as raised:
            await read(bench, "report.html")
        assert raised.value.fault == "blocked"


async def test_an_address_that_is_not_of_the_web_is_not_opened() -> None:
    async with ComposioEmulator(storage="file:///etc") as composio, workbenches(composio) as benches:
        with pytest.raises(ComposioError) as raised:
            await ComposioStore(benches.api).upload(io.BytesIO(REPORT), "report.html", **MAIL)
        assert raised.value.fault == "blocked"
        bench = benches.of(caller())
        await written(bench, "report.html", REPORT)
        assert await read(bench, "report.html") == REPORT, "in parts"


async def test_a_private_store_can_be_allowed() -> None:
    async with ComposioEmulator() as store:
        async with (
            ComposioEmulator(storage=store.url) as composio,
            workbenches(composio, allow=("127.0.0.1",)) as benches,
        ):
            store.world.grants, store.world.blobs = composio.world.grants, composio.world.blobs
            bench = benches.of(caller())
            await written(bench, "report.html", REPORT)
            assert await read(bench, "report.html") == REPORT
        assert [record.method for record in store.requests] == ["GET"]
        assert "x-api-key" not in store.requests[0].headers, "the key is for the API alone"


# Attachments


async def test_an_attachment_is_stored_under_its_key(
    composio: ComposioEmulator, benches: ComposioWorkbenches
) -> None:
    stored = await ComposioStore(benches.api).upload(io.BytesIO(REPORT), "/a/b/report.html", **MAIL)
    assert stored.key == "proj_emulated/gmail/GMAIL_SEND_EMAIL/report.html"
    assert (stored.name, stored.mimetype, stored.size) == ("report.html", "text/html", len(REPORT))
    assert stored.md5 == hashlib.md5(REPORT).hexdigest()
    assert composio.world.blobs[stored.key].content == REPORT
    assert "Signature" not in stored.url
    assert stored.url.startswith(composio.url)
    put = composio.asked("store.put")[0]
    assert (put.headers["content-type"], put.headers["content-length"]) == ("text/html", str(len(REPORT)))
    assert "x-api-key" not in put.headers


@pytest.mark.parametrize("how", ["stale", "corrupt", "drop"])
async def test_an_upload_that_failed_on_its_way_is_tried_once_more(
    composio: ComposioEmulator, benches: ComposioWorkbenches, how: str
) -> None:
    spoil = {
        "stale": lambda times: composio.stale(times),
        "corrupt": lambda times: composio.corrupt("store.put", times=times),
        "drop": lambda times: composio.drop("store.put", times=times),
    }[how]
    spoil(1)
    stored = await ComposioStore(benches.api).upload(io.BytesIO(REPORT), "report.html", **MAIL)
    assert composio.world.blobs[stored.key].content == REPORT
    spoil(2)
    with pytest.raises(ComposioError) as raised:
        await ComposioStore(benches.api).upload(io.BytesIO(REPORT), "other.html", **MAIL)
    assert raised.value.fault == ("interrupted" if how == "drop" else "storage")


@pytest.mark.parametrize("backend", ["s3", "azure_blob_storage"])
async def test_what_the_store_has_already_is_not_sent_again(backend: Any) -> None:
    async with (
        ComposioEmulator(knows_files=True, backend=backend) as composio,
        workbenches(composio) as benches,
    ):
        store = ComposioStore(benches.api)
        first = await store.upload(io.BytesIO(REPORT), "report.html", **MAIL)
        assert await store.upload(io.BytesIO(REPORT), "report.html", **MAIL) == first
        assert len(composio.asked("store.put")) == 1
        await store.upload(io.BytesIO(b"new"), "report.html", **MAIL)
        assert composio.world.blobs[first.key].content == b"new"


async def test_an_unknown_tool_is_named(composio: ComposioEmulator, benches: ComposioWorkbenches) -> None:
    with pytest.raises(ComposioError, match="GMAIL_TELEPORT") as raised:
        await ComposioStore(benches.api).upload(
            io.BytesIO(b"x"), "a.txt", tool="GMAIL_TELEPORT", toolkit="gmail"
        )
    assert raised.value.fault == "refused"
    assert len(composio.requests) == 1


async def test_a_very_long_name_is_replaced(composio: ComposioEmulator, benches: ComposioWorkbenches) -> None:
    stored = await ComposioStore(benches.api).upload(io.BytesIO(b"x"), "n" * 200 + ".pdf", **MAIL)
    assert len(stored.name) < 100
    assert stored.name.endswith(".pdf")
    assert stored.mimetype == "application/pdf"
