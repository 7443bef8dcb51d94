"""A call that is described and not made, and what of its arguments people are shown."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.policy.confirming import ABOUT, ANNA
from toolyard.catalogue.items import TOOLS, read_item
from toolyard.kit.schema.validation import SchemaValidator
from toolyard.policy.description import preview, shown, who
from toolyard.results.preview import SHAPED_SCHEMA
from toolyard.upstream.base import Forward
from toolyard.wire.call import NO_CHANNEL, SERVER_KEY, Call, Caller, Principal

TOOL = read_item(
    TOOLS,
    Raw(b'{"name":"delete","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}'),
)


def described(version: str, arguments: Any) -> Any:
    params = Raw(msgspec.json.encode({"name": "delete", "arguments": arguments}))
    call = Call("tools/call", params, Caller(version, {}, identity=ANNA), NO_CHANNEL, 1)
    outcome = preview(Forward.of(call), "files", "delete", "look first", TOOL, ABOUT)
    assert outcome.kind == "complete"
    assert not outcome.is_error
    assert isinstance(outcome.body, Raw)
    assert outcome.size == len(bytes(outcome.body))
    return msgspec.json.decode(outcome.body)


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_a_preview_says_what_would_be_called_and_why_it_was_not(version: str) -> None:
    result = described(version, {"path": "a", "password": "hunter2"})
    text = result["content"][0]["text"]
    assert text.startswith("Not called: rule 'look first'")
    assert '"path": "a"' in text
    assert "destructiveHint" in text
    assert "hunter2" not in str(result)
    structured = result["structuredContent"]
    assert structured["arguments"] == {"path": "a", "password": "***"}
    assert (structured["server"], structured["tool_name"], structured["rule"]) == (
        "files",
        "delete",
        "look first",
    )
    assert structured["annotations"] == {"destructiveHint": True}
    assert not result.get("isError", False)
    if version == "2026-07-28":
        assert result["resultType"] == "complete"
        assert result["_meta"][SERVER_KEY]["name"] == "yard"
    else:
        assert "resultType" not in result


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("prompts/get", {"name": "x", "arguments": {"a": "1"}}, ("messages", 0, "content", "text")),
        ("resources/read", {"uri": "x"}, ("contents", 0, "text")),
    ],
)
def test_prompts_and_resources_are_described_in_their_own_form(
    version: str, method: str, params: Any, path: Any
) -> None:
    call = Call(method, Raw(msgspec.json.encode(params)), Caller(version, {}), NO_CHANNEL, 1)
    outcome = preview(Forward.of(call), "files", "x", "look first", None, ABOUT)
    assert isinstance(outcome.body, Raw)
    found = msgspec.json.decode(outcome.body)
    for step in path:
        found = found[step]
    assert found.startswith("Not called: rule 'look first'")
    assert (b'"resultType":"complete"' in bytes(outcome.body)) is (version == "2026-07-28")


def test_its_structured_content_fits_the_output_schemas_that_the_gateway_lists() -> None:
    structured = described("2026-07-28", {})["structuredContent"]
    SchemaValidator(SHAPED_SCHEMA)(Raw(msgspec.json.encode(structured)))


def test_no_argument_can_hide_another() -> None:
    long = {"a": "x" * 10_000, "b": "here", "c": list(range(1000)), "d": {str(n): n for n in range(1000)}}
    found = shown(long)
    assert found["b"] == "here"
    assert found["a"].endswith("… (10,000 characters)")
    assert found["c"][-1] == "… 980 more"
    assert found["d"]["…"] == "980 more"
    alike = {"n" * 300 + "a": 1, "n" * 300 + "b": 2}
    assert sorted(shown(alike).values()) == [1, 2]


def test_invisible_characters_are_spelled_out() -> None:
    assert shown({"path": "a\u202eb\u200bc\x1b[2J"}) == {"path": "a\\u202eb\\u200bc\\x1b[2J"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"api_key": 12345}, {"api_key": "***"}),
        ({"auth": {"password": {"value": "x"}}}, {"auth": {"password": "***"}}),
        ({"headers": ["Authorization: Bearer abcdefgh"]}, {"headers": ["Authorization: ***"]}),
        ({"url": "https://me:pass@host/x"}, {"url": "https://***@host/x"}),
        ({"n": 10**30}, {"n": str(10**30)}),
    ],
)
def test_secrets_are_masked_wherever_they_are(arguments: Any, expected: Any) -> None:
    assert shown(arguments) == expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_is_shown_can_be_encoded_and_is_bounded(value: Any) -> None:
    msgspec.json.encode(shown({"value": value}))


def test_callers_are_named_as_far_as_they_are_known() -> None:
    assert who(Principal()) == "the local user"
    assert who(Principal(agent="writer")) == "agent 'writer'"
    assert who(Principal(tenant="acme")) == "tenant 'acme'"
    assert who(Principal(tenant="acme", subject="anna")) == "'anna' (tenant 'acme')"
