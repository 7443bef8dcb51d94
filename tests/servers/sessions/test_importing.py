"""Conversations from files: Claude Code's own, the documented form, and everything that is neither."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from tests.emulators.anthropic_messages import ToolUse, scripted_claude
from tests.servers.sessions.archive import Archive, entry, session, write_lines
from toolyard.servers.sessions.formats.files import MAX_BYTES, lines


async def test_a_transcript_that_claude_code_itself_has_written_is_understood(
    sqlite_archive: Archive, tmp_path: Path
):
    (tmp_path / "hello.txt").write_text("greetings from the orchard\n")
    turns = [ToolUse("Read", {"file_path": str(tmp_path / "hello.txt")}), "It greets us.", "Invoices? Paid."]
    async with scripted_claude(turns) as model:
        options = ClaudeAgentOptions(
            env=model.env(tmp_path), cwd=tmp_path, setting_sources=[], tools=["Read"], allowed_tools=["Read"]
        )
        async with ClaudeSDKClient(options) as client:
            for prompt in ("Please read hello.txt", "And the invoices?"):
                await client.query(prompt)
                async for _ in client.receive_response():
                    pass

    tally = await sqlite_archive.read(tmp_path / ".claude" / "projects")

    assert (tally.files, tally.messages) == (1, 6)
    assert (tally.broken, tally.unknown) == (0, 0), tally.first_fault
    ((session_id, kept),) = (await sqlite_archive.recent()).items()
    assert (kept["title"], kept["message_count"]) == ("Please read hello.txt", 4)
    assert kept["cost_usd"] > 0
    for query in ("invoices paid", "greets us", "orchard", "hello.txt"):
        assert await sqlite_archive.search(query) == [session_id], query
    transcript = await sqlite_archive.transcript(session_id)
    order = [
        "## User",
        "- `Read {",
        "## Tool result",
        "It greets us.",
        "And the invoices?",
        "Invoices? Paid.",
    ]
    places = [transcript.index(piece) for piece in order]
    assert places == sorted(places)
    assert (await sqlite_archive.read(tmp_path / ".claude" / "projects")).messages == 0


async def test_what_people_and_models_said_is_kept_and_what_the_program_told_itself_is_not(
    archive: Archive, tmp_path: Path
):
    path = write_lines(
        tmp_path / "s1.jsonl",
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "sessionId": "s1"},
        entry("user", "u0", "<command-name>/clear</command-name>", isMeta=False),
        entry("user", "u1", "caveat emptor", isMeta=True),
        entry("user", "u2", "<system-reminder>tidy</system-reminder>Where is the harbour?"),
        entry("assistant", "a1", [{"type": "thinking", "thinking": "pondering deeply"}]),
        entry(
            "assistant",
            "a2",
            [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t1", "name": "Grep", "input": {"pattern": "harbour"}},
                {"type": "hologram", "data": "unheard of"},
            ],
        ),
        entry("user", "u3", [{"type": "tool_result", "content": [{"type": "text", "text": "found: quay"}]}]),
        entry("user", "u4", "In short: boats and piers.", isCompactSummary=True),
        entry("user", "u5", "Search the islands", isSidechain=True, agentId="scout"),
        entry(
            "assistant",
            "a5",
            [{"type": "text", "text": "Islands searched"}],
            isSidechain=True,
            agentId="scout",
        ),
        {"type": "system", "subtype": "info", "content": "compacted", "sessionId": "s1", "uuid": "y"},
        {"type": "ai-title", "aiTitle": "Finding the harbour", "sessionId": "s1"},
        {"type": "cost-state", "totalCostUSD": 1.5, "sessionId": "s1"},
        {"type": "from-the-future", "sessionId": "s1", "anything": [1, 2]},
    )
    tally = await archive.read(path)
    assert (tally.unknown, tally.broken) == (0, 0)
    for said in ("harbour", "look", "quay", "boats", "islands searched", "finding"):
        assert await archive.search(said) == ["s1"], said
    for not_said in ("caveat", "clear", "tidy", "pondering", "compacted", "snapshot", "unheard"):
        assert await archive.search(not_said) == [], not_said
    kept = (await archive.recent())["s1"]
    assert (kept["title"], kept["cost_usd"]) == ("Finding the harbour", 1.5)
    assert (kept["message_count"], kept["summary"]) == (2, "In short: boats and piers.")
    assert "# Sub-agent scout\n\n## User" in await archive.transcript("s1")


async def test_a_title_of_a_persons_own_stays_and_a_summary_names_the_session_of_its_message(
    archive: Archive, tmp_path: Path
):
    write_lines(
        tmp_path / "b.jsonl",
        # Of a session in another file, which is read after this one.
        {"type": "summary", "summary": "Roses are pruned", "leafUuid": "u9"},
        {"type": "summary", "summary": "Nobody's", "leafUuid": "gone"},
        entry("user", "u1", "first words", "b"),
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "b"},
        {"type": "ai-title", "aiTitle": "Its", "sessionId": "b"},
    )
    write_lines(tmp_path / "c.jsonl", entry("user", "u9", "how do I prune roses", "c"))
    await archive.read(tmp_path)
    titles = {key: kept["title"] for key, kept in (await archive.recent()).items()}
    assert titles == {"b": "Mine", "c": "Roses are pruned"}
    assert await archive.search("pruned") == ["c"]


async def test_only_what_is_new_is_read_and_nothing_is_there_twice(archive: Archive, tmp_path: Path):
    path = write_lines(tmp_path / "s1.jsonl", entry("user", "u1", "alpha"), entry("user", "u2", "beta"))
    assert (await archive.read(tmp_path)).messages == 2
    again = await archive.read(tmp_path)
    assert (again.files, again.read) == (1, 0)

    write_lines(path, entry("user", "u3", "gamma"))
    grown = await archive.read(tmp_path)
    assert (grown.lines, grown.messages) == (1, 1)

    # Written anew, as an editor or a synchronising program does: all of it is read, none of it is added.
    text = path.read_text()
    path.write_text(json.dumps(entry("user", "u0", "zero")) + "\n" + text)
    anew = await archive.read(tmp_path)
    assert (anew.lines, anew.messages) == (4, 1)
    # The same session in another file, as a copy has it.
    (tmp_path / "copy.jsonl").write_text(path.read_text())
    assert (await archive.read(tmp_path)).messages == 0
    assert (await archive.recent())["s1"]["message_count"] == 4
    assert (await archive.transcript("s1")).count("## User") == 4


async def test_a_line_that_is_being_written_is_read_when_it_is_whole(sqlite_archive: Archive, tmp_path: Path):
    path = write_lines(tmp_path / "s1.jsonl", entry("user", "u1", "alpha"))
    line = json.dumps(entry("user", "u2", "beta"))
    with path.open("a") as file:
        file.write(line[:40])
        file.flush()
        first = await sqlite_archive.read(path)
        assert (first.messages, first.broken) == (1, 0)
        file.write(line[40:])
        file.flush()
        # Whole, though without its end: nothing more may come.
        assert (await sqlite_archive.read(path)).messages == 1
        file.write("\n" + json.dumps(entry("user", "u3", "gamma")) + "\n")
    assert (await sqlite_archive.read(path)).messages == 1
    assert (await sqlite_archive.transcript("s1")).count("## User") == 3


async def test_whatever_lies_around_is_survived_counted_and_told(
    archive: Archive, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "projects"
    outside = write_lines(tmp_path / "outside" / "o.jsonl", entry("user", "o1", "outside words", "out"))
    good = entry("user", "u1", "survivor")
    write_lines(
        folder / "mixed.jsonl",
        "{not json",
        b"\xff\xfe broken bytes",
        "[" * 100_000,
        "42",
        '"text"',
        "null",
        {"type": "user", "sessionId": "s1"},
        {"type": "user", "sessionId": 7, "message": {"content": "x"}},
        {"some": "thing"},
        "",
        session("bad", title=5),
        entry("user", "u7", {"not": "a list"}),
        entry("user", "u8", [1, None, {"type": "text", "text": 5}]),
        good,
    )
    (folder / "picture.jsonl").write_bytes(b"\x89PNG\x00\x01\x02" * 1000)
    (folder / "empty.jsonl").touch()
    (folder / "notes.txt").write_text("not looked at")
    (folder / "other.json").write_text('{"an": "object"}')
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.jsonl")
    with caplog.at_level("INFO"):
        tally = await archive.read(folder, tmp_path / "nowhere")

    assert tally.messages == 1
    assert (tally.broken, tally.unknown) == (3, 8)
    assert (tally.binary, tally.links, tally.unreadable) == (1, 1, 1)
    assert await archive.search("survivor") == ["s1"]
    assert await archive.search("outside") == []
    assert "3 broken lines" in caplog.text
    assert "1 links not followed" in caplog.text
    assert (await archive.read(folder)).read == 0, "what cannot be read is not read again and again"


async def test_a_line_without_end_takes_no_memory_and_what_follows_it_is_read(tmp_path: Path):
    path = tmp_path / "giant.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a":1}\n')
        file.write(b"x" * 5_000 + b"\n")
        file.write(b'{"b":2}\n')
        file.write(b"y" * 5_000)
    with path.open("rb") as file:
        found = list(lines(file, 0, most=1_000))
    assert [(line.data, line.is_complete) for line in found] == [
        (b'{"a":1}\n', True),
        (None, True),
        (b'{"b":2}\n', True),
        (None, False),
    ]
    assert [line.end for line in found] == [8, 5_009, 5_017, 10_017]
    assert MAX_BYTES < 1 << 26


async def test_the_documented_form_is_read_from_one_object_a_list_or_lines(archive: Archive, tmp_path: Path):
    (tmp_path / "one.json").write_text(json.dumps(session("one", "uno", "si"), indent=2))
    (tmp_path / "list.json").write_text(json.dumps([session("two", "dos"), session("three", "tres")]))
    write_lines(
        tmp_path / "lines.ndjson",
        b"\xef\xbb\xbf" + json.dumps(session("four", "cuatro")).encode(),
        session("five", "cinco", extra=[1]),
    )
    write_lines(tmp_path / "misnamed.json", session("six", "seis"), session("seven", "siete"))
    tally = await archive.read(tmp_path)
    assert (tally.unknown, tally.broken) == (0, 0), tally.first_fault
    assert set(await archive.recent()) == {"one", "two", "three", "four", "five", "six", "seven"}

    (tmp_path / "one.json").write_text(json.dumps(session("one", "eins", "ja", "zwei")))
    await archive.read(tmp_path)
    assert await archive.search("uno") == []
    assert (await archive.recent())["one"]["message_count"] == 3


async def test_two_imports_of_the_same_files_at_once_keep_each_message_once(archive: Archive, tmp_path: Path):
    for at in range(3):
        write_lines(
            tmp_path / f"s{at}.jsonl",
            *(entry("user", f"{at}-{n}", f"message {n} of {at}", f"s{at}") for n in range(40)),
        )
    await asyncio.gather(archive.read(tmp_path), archive.read(tmp_path), archive.read(tmp_path))
    assert {kept["message_count"] for kept in (await archive.recent()).values()} == {40}


async def test_imported_conversations_are_their_owners(archive: Archive, tmp_path: Path):
    write_lines(tmp_path / "s1.jsonl", entry("user", "u1", "private words"))
    await archive.read(tmp_path, user="ana")
    assert await archive.search("private") == []
    assert await archive.search("private", user="ana") == ["s1"]
    # The same files for somebody else are read for them too.
    assert (await archive.read(tmp_path, user="rui")).messages == 1


async def test_a_long_transcript_is_kept_in_pieces_and_in_order(archive: Archive, tmp_path: Path):
    entries = [entry("user", f"u{at}", f"step {at} of many") for at in range(1_203)]
    tally = await archive.read(write_lines(tmp_path / "s1.jsonl", *entries))
    assert tally.messages == 1_203
    assert (await archive.recent())["s1"]["message_count"] == 1_203
    transcript = await archive.transcript("s1")
    assert transcript.index("step 7 of many") < transcript.index("step 8 of many")
