"""Whatever bytes are in a file, the tools answer."""

import gzip
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard import Client
from toolyard.kit.loader import load

PIECES = st.sampled_from(
    [
        *(
            b" ",
            b"\r",
            b"\x00",
            b"\xff\xfe",
            b"\x1b[31m",
            b"{",
            b"}",
            b'"',
            b"[",
            b"]",
            b"=",
            b"ERROR",
            b"<34>1 ",
        ),
        *(b"\n\n__CURSOR=s=1\n", b"__REALTIME_TIMESTAMP=1794785323711406\n", b"MESSAGE\n", b"PRIORITY=9\n"),
        *(b"\xff" * 8, b"\x05\x00\x00\x00\x00\x00\x00\x00", b"NaN", b"Traceback (most recent call last):"),
        *(b'{"time":', b'"MESSAGE":[256,-1]}', b'{"ts":1794785323,"level":1e999}', b'{"t":1e300}'),
        *(b'{"__REALTIME_TIMESTAMP":"17947853237114060000"}', b'{"ts":1794785323,"level":true,"msg":[]}'),
        *(b"2026-11-15 23:04:46 ", b"2026-13-45T99:99:99Z ", b"99999999999 ", b"9999999999.9 "),
        *(b"9999-12-31T23:59:59-14:00 ", b"9999-12-31 23:59:59.9 -14:00 ", b"0001-01-01 00:00:00 "),
        *(b"Feb 31 23:04:46 h p[1]: ", b"[Sun Feb 31 23:04:46 2026] ", b"0001-01-01T00:00:00+14:00 "),
        b'1.1.1.1 - - [15/Nov/2026:23:04:46 +9999] "GET /" 999 -',
        b'1.1.1.1 - - [31/Feb/2026:23:04:46 +0000] "GET /" 200 -',
    ]
)
LINES = st.lists(PIECES | st.binary(max_size=12), min_size=1, max_size=4).map(b"".join)
BEGINNINGS = st.sampled_from([b"", b"", b"__CURSOR=s=0\n"])
CONTENT = st.builds(bytes.__add__, BEGINNINGS, st.lists(LINES, max_size=12).map(b"\n".join))


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@settings(max_examples=50)
@given(content=CONTENT, is_packed=st.booleans(), clock=st.sampled_from(["now", "newest"]))
async def test_any_bytes_are_answered_with_entries_or_with_none(
    content: bytes, is_packed: bool, clock: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = "app.log.1.gz" if is_packed else "app.log"
        write(Path(folder, name), gzip.compress(content) if is_packed else content)
        server = load("toolyard.servers.render", options={"files": folder, "clock": clock, "timezone": "UTC"})
        async with Client(server) as client:
            for tool in ("search_logs", "find_errors", "service_status"):
                result = await client.call_tool(tool)
                assert not result.is_error, result.text
        await server.close()


async def test_a_line_that_nobody_can_spell_does_not_hide_the_others(tmp_path: Path) -> None:
    now = datetime.now(UTC).isoformat()
    micro = int(time.time() * 1e6)
    deep = "[" * 700 + "]" * 700
    lines = [
        f"{now} ERROR first",
        f'{{"__REALTIME_TIMESTAMP":"{micro}","MESSAGE":{deep}}}',
        '{"time":' + "9" * 400 + ',"message":"far"}',
        '{"time":"\u00b2\u00b2","message":"x"}',
        '{"__REALTIME_TIMESTAMP":"\u00b2","MESSAGE":"x"}',
        f'{{"__REALTIME_TIMESTAMP":"{micro}","MESSAGE":"x","PRIORITY":"\u00b2"}}',
        f'{{"time":"{now}","level":"error","message":"last","service":"{"s" * 60_000}"}}',
    ]
    write(tmp_path / "app.log", "\n".join(lines).encode())
    answer = await found_errors(tmp_path)
    assert [entry["message"].split("\n")[0] for entry in answer["entries"]] == ["last", "ERROR first"]
    assert len(answer["entries"][0]["service"]) == 100


async def test_a_file_whose_name_is_no_text_is_a_service_all_the_same(tmp_path: Path) -> None:
    name = os.fsdecode(b"odd\xff\nname.log")
    write(tmp_path / name, f"{datetime.now(UTC).isoformat()} ERROR x".encode())
    answer = await found_errors(tmp_path)
    assert [entry["service"] for entry in answer["entries"]] == ["odd\ufffd name.log"]


async def found_errors(folder: Path) -> dict[str, Any]:
    server = load("toolyard.servers.render", options={"files": str(folder)})
    async with Client(server) as client:
        result = await client.call_tool("find_errors")
    assert not result.is_error, result.text
    return result.structured
