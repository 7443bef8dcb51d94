"""Records that are put together from a template are those that would have been encoded whole."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from toolyard.audit import AuditRecord, CallEnding, RecordTemplate, open_audit
from toolyard.audit.chain import ChainKey
from toolyard.audit.record import MAX_BODY, ArgumentMode, ArgumentPolicy
from toolyard.audit.verify import verify
from toolyard.config.callers import AuditConfig

from .records import KEY, NOON, request_ids

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
shared = st.fixed_dictionaries(
    dict.fromkeys(
        ("method", "server", "tool", "tenant", "subject", "issuer", "agent", "client", "credential"), names
    )
    | {"credential_kind": st.sampled_from(["key", "jwt"]), "decision": st.just("allow"), "rule": names}
)
arguments = st.none() | st.dictionaries(names, names | st.integers(-99, 99) | st.booleans(), max_size=4)
endings = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(["ok", "tool_error"]),
        "request_bytes": st.integers(0, 2**31),
        "response_bytes": st.integers(0, 2**31),
        "seconds": st.floats(0, 1e5),
        "request_id": st.from_regex(r"[0-9a-f]{8}-[0-9]{1,9}", fullmatch=True),
        "trace_id": st.just("") | st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
        "thread": names,
    }
)


@given(shared, endings, arguments, st.sampled_from(["none", "digest", "redacted"]))
def test_a_record_from_a_template_says_what_a_whole_one_says(
    shared: dict[str, str], ending: dict[str, Any], sent: dict[str, Any] | None, mode: ArgumentMode
):
    policy = ArgumentPolicy(mode, KEY)
    raw = None if sent is None else Raw(msgspec.json.encode(sent))
    template = RecordTemplate.of(**shared)
    assert template is not None
    written = msgspec.json.decode(
        template.body(CallEnding(arguments=raw, **ending), policy), type=AuditRecord
    )
    seconds = ending.pop("seconds")
    whole = AuditRecord(
        **shared,
        **ending,
        time=written.time,
        duration_ms=int(seconds * 1e6) / 1000,
        arguments_digest=policy.digest(raw),
        arguments=policy.redacted(raw),
    )
    assert written == msgspec.json.decode(msgspec.json.encode(whole), type=AuditRecord)


@pytest.mark.parametrize("name", ["x" * 20_000, "half \ud83d"], ids=["too long", "no Unicode"])
def test_a_name_that_has_to_be_cut_has_no_template(name: str):
    assert RecordTemplate.of(tool=name) is None


def test_a_record_from_a_template_stays_readable_whatever_the_call_brings():
    template = RecordTemplate.of(tool="t" * 1000, client="c" * 1000)
    assert template is not None
    sent = Raw(msgspec.json.encode({"text": "x" * 100_000}))
    ending = CallEnding("ok", sent, 1, 1, 0.0, "r-1", "", "half \ud83d" + "t" * 100_000)
    assert len(template.body(ending, ArgumentPolicy("redacted", KEY))) < MAX_BODY


async def test_lines_from_templates_and_whole_records_form_one_chain(tmp_path: Path):
    log = open_audit(AuditConfig(url="file:"), tmp_path, KEY)
    template = RecordTemplate.of(method="tools/call", tool="log")
    assert template is not None
    for number in range(4):
        ending = CallEnding("ok", None, 1, 1, 0.001, f"r-{2 * number}")
        assert log.append_call(template, ending) is None
        await log.append(AuditRecord(time=NOON, outcome="ok", request_id=f"r-{2 * number + 1}"))
    await log.close()
    assert await request_ids(log.store) == [f"r-{number}" for number in range(8)]
    assert (await verify(log.store, [ChainKey(KEY)])).is_intact


async def test_a_store_that_has_to_be_waited_for_gives_something_to_await(tmp_path: Path):
    log = open_audit(AuditConfig(url="sqlite:"), tmp_path, KEY)
    template = RecordTemplate.of(method="tools/call", tool="log")
    assert template is not None
    written = log.append_call(template, CallEnding("ok", None, 1, 1, 0.001, "r-1"))
    assert written is not None
    await written
    assert await request_ids(log.store) == ["r-1"]
    await log.close()
