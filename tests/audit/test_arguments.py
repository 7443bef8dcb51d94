"""What of a call's arguments is recorded: nothing, a digest, or a redacted copy."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.records import KEY, record, stored_objects
from toolyard.audit import open_audit
from toolyard.audit.record import MAX_RECORDED, ArgumentPolicy, redacted_arguments
from toolyard.config.callers import AuditConfig

SECRET = "hunter2-hunter2"


def redacted(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(redacted_arguments(json.dumps(value).encode())))


def test_none_records_nothing_and_each_mode_only_its_own():
    raw = b'{"a": 1}'
    modes = {mode: ArgumentPolicy(mode, KEY) for mode in ("none", "digest", "redacted")}
    assert {mode: (bool(p.digest(raw)), p.redacted(raw) is not None) for mode, p in modes.items()} == {
        "none": (False, False),
        "digest": (True, False),
        "redacted": (False, True),
    }
    assert modes["digest"].digest(None) == ""


def test_a_digest_depends_on_the_key_and_not_on_order_or_blanks():
    policy = ArgumentPolicy("digest", KEY)
    assert policy.digest(b'{"a":1,"b":[2]}') == policy.digest(b'{ "b": [2], "a": 1 }')
    assert policy.digest(b'{"a":1}') != policy.digest(b'{"a":2}')
    assert policy.digest(b'{"a":1}') != ArgumentPolicy("digest", b"another key, long enough").digest(
        b'{"a":1}'
    )
    assert policy.digest(b"{not json") == policy.digest(b"{not json")


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "db_password",
        "apiKey",
        "API-Key",
        "authorization",
        "X-Auth-Token",
        "clientSecret",
        "pin",
        "access_token",
        "accessToken",
        "privateKey",
        "cookie",
        "session_id",
        "cardNumber",
        "userCredentials",
    ],
)
def test_secrets_are_known_by_their_names_at_any_depth(name: str):
    value = {"list": [{"deep": {name: SECRET}}], name: {"inner": SECRET}}
    assert SECRET not in json.dumps(redacted(value))


def test_secrets_are_known_by_their_form_and_other_values_stay():
    value = {
        "note": f"use Bearer {SECRET} for it",
        "url": f"https://jane:{SECRET}@example.com/x",
        "max_tokens": 5,
        "title": "a report",
        "ids": [1, 2, 3],
    }
    found = redacted(value)
    assert SECRET not in json.dumps(found)
    assert (found["max_tokens"], found["title"], found["ids"]) == (5, "a report", [1, 2, 3])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=30),
        lambda inner: (
            st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=10), inner, max_size=30)
        ),
    )
)
def test_whatever_is_sent_the_copy_is_small_and_is_json(value: Any):
    raw = msgspec.json.encode(value)
    assert len(msgspec.json.encode(redacted_arguments(raw))) <= MAX_RECORDED + 100


def test_long_and_broken_arguments_are_named_as_such():
    long = {f"name{number}": "x" * 300 for number in range(20)}
    assert redacted(long)["too_long"] == len(json.dumps(long))
    assert msgspec.to_builtins(redacted_arguments(b"{broken")) == {"unreadable": True}


async def test_names_that_are_too_long_or_no_unicode_do_not_break_a_line(tmp_path: Path):
    log = open_audit(AuditConfig(url="file:"), tmp_path, KEY)
    await log.append(record(1, tool="x" * 3_000_000))
    await log.append(record(2, tool="half \ud83d"))
    await log.close()
    _, long, half, _ = await stored_objects(log.store)
    assert len(long["tool"]) == 500
    assert half["tool"].startswith("half ")
