"""Writing, reading, listing and compressing: the seed's sentences, and the fields beside them."""

import asyncio
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.servers.local_toolkit.talking import Bench
from tests.waiting import PATIENCE

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001"
    "e221bc330000000049454e44ae426082"
)


async def test_the_seeds_sentences_are_kept_word_for_word(bench: Bench):
    ana = bench.user()
    said = await ana.good("write_local_file", path="work_products/report.html", content="<p>olá</p>")
    assert said.text == "Successfully wrote 10 chars to work_products/report.html"
    assert said.structured == {
        "path": "work_products/report.html",
        "chars": 10,
        "bytes": 11,
        "uri": "workspace:///work_products/report.html",
    }
    absolute = f"{bench.folder}/work_products/report.html"
    said = await ana.good("write_local_file", path=absolute, content="again")
    assert said.text == f"Successfully wrote 5 chars to {absolute}"
    said = await ana.good("read_local_file", path=absolute)
    assert said.text == said.structured["content"] == "again"
    assert await ana.refused("read_local_file", path="missing.txt") == (
        "Error: There is no 'missing.txt' in the workspace."
    )
    assert json.loads((await ana.good("list_directory", path=".")).text) == ["work_products"]


async def test_a_portuguese_server_answers_in_portuguese_under_the_same_names(bench: Bench):
    ana = bench.user(locale="pt")
    said = await ana.good("write_local_file", path="a.md", content="olá")
    assert said.text == "3 caracteres gravados em a.md"
    assert await ana.refused("read_local_file", path="../a") == (
        "Erro: '../a' está fora da área de trabalho. Use um caminho relativo a ela, como 'notas/a.md'."
    )


async def test_a_long_text_is_read_in_parts_that_join_without_a_seam(bench: Bench):
    ana = bench.user(read_bytes=1000)
    text = "".join(f"{number} é ação 日本 👩‍🚀\n" for number in range(200))
    await ana.write("long.txt", text)
    parts: list[str] = []
    start: int | None = 0
    while start is not None:
        found = (await ana.good("read_local_file", path="long.txt", start=start)).structured
        parts.append(found["content"])
        assert found["end"] - found["start"] <= 1000
        start = found["next_start"]
    assert "".join(parts) == text
    said = await ana.good("read_local_file", path="long.txt", start=0, size=10)
    assert said.text.endswith(
        f"[bytes 0 to {said.structured['end']} of {len(text.encode())}; read on with "
        f"start={said.structured['end']}]"
    )
    assert "after the end" in await ana.refused("read_local_file", path="long.txt", start=10**9)


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"\xef\xbb\xbfol\xc3\xa1", "utf-8-sig", "olá"),
        ("olá 日本".encode("utf-16"), "utf-16", "olá 日本"),
        ("a\nb".encode("utf-32"), "utf-32", "a\nb"),
        ("São Paulo “quoted”".encode("cp1252"), "cp1252", "São Paulo “quoted”"),
        (b"", "utf-8", ""),
    ],
)
async def test_a_text_is_read_in_the_encoding_it_has(bench: Bench, data: bytes, encoding: str, text: str):
    ana = bench.user()
    bench.folder.mkdir(exist_ok=True)
    (bench.folder / "a.txt").write_bytes(data)
    found = (await ana.good("read_local_file", path="a.txt")).structured
    assert (found["encoding"], found["content"], found["mime_type"]) == (encoding, text, "text/plain")


async def test_a_picture_is_shown_and_another_binary_is_described(bench: Bench):
    ana = bench.user()
    bench.folder.mkdir(exist_ok=True)
    (bench.folder / "dot.png").write_bytes(PICTURE)
    (bench.folder / "data.bin").write_bytes(bytes(range(256)))
    (bench.folder / "huge.bin").touch()
    os.truncate(bench.folder / "huge.bin", 10 * 1024**3)
    async with ana.client() as client:
        shown = await client.call_tool("read_local_file", {"path": "dot.png"})
    assert [type(block).__name__ for block in shown.content] == ["Text", "Image"]
    assert shown.structured is not None
    assert shown.structured["mime_type"] == "image/png"
    said = await ana.good("read_local_file", path="data.bin")
    assert said.text.startswith("data.bin is not text: application/octet-stream, 256 bytes")
    said = await ana.good("read_local_file", path="huge.bin")
    assert f"{10 * 1024**3} bytes" in said.text


async def test_a_list_has_sizes_and_times_and_says_if_there_is_more(bench: Bench):
    ana = bench.user(list_limit=2)
    for name in ("a.txt", "b/c.txt", "d.txt"):
        await ana.write(name, "x")
    (bench.folder / "link").symlink_to("/etc/passwd")
    found = (await ana.good("list_directory")).structured
    assert (len(found["entries"]), found["more"]) == (2, True)
    entry = (await ana.good("list_directory", path="b")).structured["entries"][0]
    assert entry["modified"].endswith("+00:00")
    assert {**entry, "modified": ""} == {
        "name": "c.txt",
        "path": "b/c.txt",
        "kind": "file",
        "size": 1,
        "modified": "",
    }
    assert "is not a folder" in await ana.refused("list_directory", path="a.txt")


async def test_files_with_one_name_do_not_overwrite_each_other_in_an_archive(bench: Bench):
    ana = bench.user()
    for folder in ("a", "b", "c"):
        await ana.write(f"{folder}/x.txt", folder)
    await ana.write("c/X (2).txt", "d")
    await ana.write(".hidden", "e")
    files = ["a/x.txt", "b/x.txt", f"{bench.folder}/c/x.txt", "c/X (2).txt", ".hidden"]
    found = (await ana.good("compress_files", files=files, output_archive="out/all.zip")).structured
    archive_path = bench.folder / "out" / "all.zip"
    assert (found["success"], found["archive_path"]) == (True, str(archive_path))
    assert (found["files_included"], found["size_bytes"]) == (5, archive_path.stat().st_size)
    with zipfile.ZipFile(archive_path) as archive:
        assert archive.testzip() is None
        content = {name: archive.read(name).decode() for name in archive.namelist()}
    assert content == {"x.txt": "a", "x (2).txt": "b", "x (3).txt": "c", "X (2) (2).txt": "d", ".hidden": "e"}
    assert [one["name"] for one in found["files"]] == list(content)


@pytest.mark.parametrize(
    ("files", "output", "said"),
    [
        ([], "a.zip", "'files' is empty"),
        (["missing"], "a.zip", "There is no 'missing'"),
        (["a.txt", "folder"], "a.zip", "'folder' is not a file"),
        (["../outside/secret.txt"], "a.zip", "outside the workspace"),
        (["link"], "a.zip", "is not a file"),
        (["fifo"], "a.zip", "is not a file"),
        (["a.txt"], "../a.zip", "outside the workspace"),
        (["a.txt"], "folder", "'folder' is not a file"),
        (["a.txt", "huge.bin"], "a.zip", "is full"),
    ],
)
async def test_what_cannot_be_compressed_fails_as_in_the_seed_and_leaves_nothing(
    bench: Bench, files: list[str], output: str, said: str
):
    ana = bench.user(max_bytes=1_000_000)
    await ana.write("a.txt", "x")
    await ana.write("folder/b.txt", "x")
    (bench.folder / "link").symlink_to(bench.folder.parent / "outside" / "secret.txt")
    os.mkfifo(bench.folder / "fifo")
    if "huge.bin" in files:
        (bench.folder / "huge.bin").write_bytes(os.urandom(1_500_000))
    failed = json.loads(await ana.refused("compress_files", files=files, output_archive=output))
    assert failed["success"] is False
    assert said in failed["error"]
    left = {path.name for path in bench.folder.rglob("*")}
    assert left <= {"a.txt", "folder", "b.txt", "link", "fifo", "huge.bin"}


async def test_compressing_reports_progress_and_a_cancelled_one_leaves_nothing(bench: Bench):
    ana = bench.user()
    bench.folder.mkdir()
    for number in range(3):
        (bench.folder / f"{number}.bin").write_bytes(os.urandom(20_000_000))
    begun = asyncio.Event()
    files = [f"{number}.bin" for number in range(3)]
    async with ana.client(on_progress=lambda *_: begun.set()) as client:
        call = asyncio.create_task(
            client.call_tool("compress_files", {"files": files, "output_archive": "a.zip"})
        )
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    async with asyncio.timeout(PATIENCE):
        while any(".toolyard" in path.name for path in bench.folder.iterdir()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the thread gives up after the block it is writing
    assert sorted(path.name for path in bench.folder.iterdir()) == files


async def test_an_archive_is_written_in_bounded_memory(bench: Bench):
    import tracemalloc

    ana = bench.user()
    bench.folder.mkdir()
    (bench.folder / "a.bin").touch()
    os.truncate(bench.folder / "a.bin", 200_000_000)
    await ana.good("list_directory")
    tracemalloc.start()
    try:
        await ana.good("compress_files", files=["a.bin"], output_archive="a.zip")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


async def test_a_text_that_is_not_unicode_is_refused(bench: Bench):
    from toolyard.servers.local_toolkit.reading import nature_of

    # No client can send such a text, but code can call the function; and a name never decides alone.
    assert nature_of("a.txt", b"\x00\x01").encoding is None
    assert nature_of("a.png", b"just text").mime_type == "text/plain"
    assert nature_of("a.docx", b"PK\x03\x04rest\x00").mime_type.startswith("application/vnd")
    assert nature_of("a", io.BytesIO(b"%PDF-1.7\x00").read()).mime_type == "application/pdf"


async def test_the_limits_of_the_settings_hold(bench: Bench):
    ana = bench.user(max_file_bytes=1000, max_files=3)
    assert "too large (at most 1,000 bytes)" in await ana.refused(
        "write_local_file", path="a.txt", content="x" * 1001
    )
    for number in range(3):
        await ana.write(f"{number}.txt", "x")
    assert "too many files and folders (at most 3)" in await ana.refused(
        "write_local_file", path="a.txt", content=""
    )


def test_nothing_is_made_before_the_first_call(tmp_path: Path):
    Bench(tmp_path / "work").server()
    assert not (tmp_path / "work").exists()
