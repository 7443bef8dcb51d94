"""Which era a request is taken for, and the order in which a modern one is checked."""

import json
from typing import Any

import pytest

from toolyard.wire.eras import is_modern, read_legacy_progress_token, read_modern
from toolyard.wire.errors import HeaderMismatch, InvalidParams, McpError, UnsupportedVersion
from toolyard.wire.headers import Head
from toolyard.wire.messages import parse
from toolyard.wire.versions import LEGACY_VERSIONS

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"
META = {VERSION: "2026-07-28", CAPABILITIES: {}}
CALL = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}


def head(headers: dict[str, str] | list[tuple[str, str]]) -> Head:
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Head([(name.encode(), value.encode("latin-1")) for name, value in pairs])


def body(params: Any, method: str = "tools/call") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def modern(raw: bytes, headers: Any = None) -> bool:
    """Whether a message is taken for a modern one; without headers, as on stdio."""
    return is_modern(raw, parse(raw).params, None if headers is None else head(headers))


def check(raw: bytes, headers: Any = None) -> None:
    message = parse(raw)
    assert isinstance(message.method, str)
    read_modern(message.method, message.params, None if headers is None else head(headers))


def refusal(raw: bytes, headers: Any = None) -> McpError:
    with pytest.raises(McpError) as caught:
        check(raw, headers)
    return caught.value


# Which era


def test_a_request_with_modern_meta_is_modern_with_or_without_headers():
    raw = body({"name": "echo", "_meta": META})
    assert modern(raw)
    assert modern(raw, CALL)
    assert modern(raw, {})


def test_a_request_without_meta_is_legacy():
    assert not modern(body({"name": "echo"}))
    assert not modern(body({"name": "echo"}), {})


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_a_legacy_version_header_leaves_a_request_legacy(version: str):
    assert not modern(body({"name": "echo"}), {"mcp-protocol-version": version})


@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01", "nonsense", ""])
def test_any_other_version_header_makes_a_request_modern(version: str):
    assert modern(body({"name": "echo"}), {"mcp-protocol-version": version})


def test_modern_meta_beats_a_legacy_header():
    assert modern(body({"name": "echo", "_meta": META}), {"mcp-protocol-version": "2025-11-25"})


def test_the_version_key_among_the_arguments_does_not_make_a_request_modern():
    assert not modern(body({"name": "echo", "arguments": {"_meta": META, "text": VERSION}}))


def test_other_meta_does_not_make_a_request_modern():
    assert not modern(body({"name": "echo", "_meta": {"progressToken": 1}}))
    assert not modern(body({"name": "echo", "_meta": VERSION}))
    assert not modern(body({"name": "echo", "_meta": None}))


@pytest.mark.parametrize("value", [5, None, {}, ""])
def test_a_version_of_the_wrong_type_still_says_that_the_request_wants_to_be_modern(value: Any):
    assert modern(body({"name": "echo", "_meta": {VERSION: value}}))


def test_a_key_spelt_with_an_escaped_slash_is_the_same_key():
    # json_encode in PHP writes every slash this way.
    assert modern(body({"name": "echo", "_meta": META}).replace(b"/", b"\\/"))


# The ladder of a modern request


def test_a_request_that_is_right_in_everything_passes():
    check(body({"name": "echo", "_meta": META}), CALL)


def test_without_headers_the_body_alone_is_checked():
    check(body({"name": "echo", "_meta": META}))


@pytest.mark.parametrize(
    ("meta", "names"),
    [
        ({}, VERSION),
        ({CAPABILITIES: {}}, VERSION),
        ({VERSION: "2026-07-28"}, CAPABILITIES),
        ({VERSION: "2026-07-28", CAPABILITIES: None}, CAPABILITIES),
        ({VERSION: "2026-07-28", CAPABILITIES: []}, CAPABILITIES),
        ({VERSION: "2026-07-28", CAPABILITIES: "{}"}, CAPABILITIES),
        ({VERSION: 20260728, CAPABILITIES: {}}, VERSION),
        ({VERSION: None, CAPABILITIES: {}}, VERSION),
        (META | {CLIENT: "me"}, CLIENT),
        (META | {CLIENT: {"name": 5}}, CLIENT),
        (META | {"progressToken": 1.5}, "progressToken"),
        (META | {"progressToken": {}}, "progressToken"),
        (META | {"io.modelcontextprotocol/logLevel": 5}, "logLevel"),
    ],
)
def test_a_required_key_that_is_missing_or_wrong_is_invalid_params_and_named(meta: Any, names: str):
    for headers in (None, CALL):
        error = refusal(body({"name": "echo", "_meta": meta}), headers)
        assert isinstance(error, InvalidParams)
        assert names in error.message


@pytest.mark.parametrize("meta", [None, [], "x", 5])
def test_meta_that_is_no_object_is_invalid_params(meta: Any):
    assert isinstance(refusal(body({"name": "echo", "_meta": meta}), CALL), InvalidParams)


def test_meta_that_is_missing_is_invalid_params():
    assert isinstance(refusal(body({"name": "echo"}), CALL), InvalidParams)


@pytest.mark.parametrize("unknown", ["", "x", "io.modelcontextprotocol/other", "com.example/thing"])
def test_meta_keys_nobody_knows_are_ignored(unknown: str):
    check(body({"name": "echo", "_meta": META | {unknown: 5}}), CALL)


def test_an_unknown_version_is_refused_with_the_versions_that_are_known():
    meta = META | {VERSION: "2099-01-01"}
    for headers in (None, CALL | {"mcp-protocol-version": "2099-01-01"}):
        error = refusal(body({"name": "echo", "_meta": meta}), headers)
        assert isinstance(error, UnsupportedVersion)
        assert error.data == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


def test_an_unknown_version_in_the_header_is_refused_even_without_meta():
    error = refusal(body({"name": "echo"}), CALL | {"mcp-protocol-version": "2099-01-01"})
    assert isinstance(error, UnsupportedVersion)


def test_a_legacy_version_in_modern_meta_is_unsupported_there():
    error = refusal(body({"name": "echo", "_meta": META | {VERSION: "2025-11-25"}}))
    assert isinstance(error, UnsupportedVersion)


def test_a_very_long_version_is_not_sent_back_whole():
    error = refusal(body({"name": "echo", "_meta": META | {VERSION: "9" * 100_000}}))
    assert len(error.message) + len(error.data["requested"]) < 1000


@pytest.mark.parametrize(
    "headers",
    [
        {**CALL, "mcp-protocol-version": "2025-11-25"},
        {**CALL, "mcp-protocol-version": "2099-01-01"},
        {name: value for name, value in CALL.items() if name != "mcp-protocol-version"},
        {**CALL, "mcp-method": "tools/list"},
        {**CALL, "mcp-method": "TOOLS/CALL"},
        {**CALL, "mcp-method": ""},
        {name: value for name, value in CALL.items() if name != "mcp-method"},
        {**CALL, "mcp-name": "other"},
        {**CALL, "mcp-name": "Echo"},
        {**CALL, "mcp-name": ""},
        {**CALL, "mcp-name": "=?base64?b3RoZXI=?="},
        {**CALL, "mcp-name": "=?base64?!!!?="},
        {name: value for name, value in CALL.items() if name != "mcp-name"},
        [*CALL.items(), ("mcp-name", "echo")],
        [*CALL.items(), ("mcp-method", "tools/call")],
        [*CALL.items(), ("mcp-protocol-version", "2026-07-28")],
        [*CALL.items(), ("mcp-param-a", "1"), ("mcp-param-a", "1")],
    ],
)
def test_headers_that_do_not_mirror_the_body_are_a_mismatch(headers: Any):
    raw = body({"name": "echo", "_meta": META})
    # The second time the `_meta` may come from a cache; the headers must not.
    for _ in range(2):
        assert isinstance(refusal(raw, headers), HeaderMismatch)
    check(raw, CALL)


def test_space_around_a_header_value_does_not_matter():
    check(body({"name": "echo", "_meta": META}), {name: f" {value}\t " for name, value in CALL.items()})


def test_an_encoded_name_is_decoded_before_it_is_compared():
    encoded = CALL | {"mcp-name": "=?base64?5ZCN5YmN?="}
    check(body({"name": "名前", "_meta": META}), encoded)


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ],
)
def test_the_name_header_mirrors_the_member_that_names_the_target(method: str, key: str):
    headers = CALL | {"mcp-method": method, "mcp-name": "target"}
    check(body({key: "target", "_meta": META}, method), headers)
    assert isinstance(refusal(body({key: "else", "_meta": META}, method), headers), HeaderMismatch)
    for wrong in ({}, {key: None}, {key: 5}, {key: ["target"]}):
        assert isinstance(refusal(body(wrong | {"_meta": META}, method), headers), InvalidParams)


def test_a_method_that_names_nothing_needs_no_name_header():
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
    check(body({"_meta": META}, "tools/list"), headers)


# Legacy progress tokens


@pytest.mark.parametrize("token", [0, 7, "seven", ""])
def test_a_legacy_progress_token_is_found(token: Any):
    raw = body({"name": "echo", "_meta": {"progressToken": token}})
    assert read_legacy_progress_token(raw, parse(raw).params) == token


@pytest.mark.parametrize("meta", [None, {}, [], {"progressToken": None}, {"progressToken": 1.5}, "progressToken"])
def test_a_legacy_request_without_a_usable_progress_token_has_none(meta: Any):
    raw = body({"name": "progressToken", "_meta": meta})
    assert read_legacy_progress_token(raw, parse(raw).params) is None
