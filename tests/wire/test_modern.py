"""The order in which a modern request is checked, and what is learnt from it."""

import json
from typing import Any

import pytest

from toolyard.wire.call import Caller, Identity, ModernReader, Principal
from toolyard.wire.errors import HeaderMismatch, InvalidParams, McpError, UnsupportedVersion
from toolyard.wire.headers import RequestHeaders, check_duplicates
from toolyard.wire.messages import parse

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"
LEVEL = "io.modelcontextprotocol/logLevel"
META = {VERSION: "2026-07-28", CAPABILITIES: {}}
CALL = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}

# One for all tests: what it remembers of one request must not help, or harm, another.
READER = ModernReader()


def body(params: Any, method: str = "tools/call") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def check(raw: bytes, headers: Any = None, identity: Identity = Identity()) -> tuple[Caller, Any]:  # noqa: B008
    """Read a request; without headers, as on stdio."""
    message = parse(raw)
    assert isinstance(message.method, str)
    head = None
    if headers is not None:
        pairs = headers.items() if isinstance(headers, dict) else headers
        head = RequestHeaders.of([(name.encode(), value.encode("latin-1")) for name, value in pairs])
        check_duplicates(head)
    return READER.read(message.method, message.params, head, identity)


def refusal(raw: bytes, headers: Any = None) -> McpError:
    with pytest.raises(McpError) as caught:
        check(raw, headers)
    return caught.value


# The ladder


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


# What is learnt


def test_the_caller_is_what_the_request_says_of_its_client():
    meta = META | {CLIENT: {"name": "me", "version": "2"}, CAPABILITIES: {"sampling": {}}, LEVEL: "debug"}
    caller, token = check(
        body({"name": "echo", "_meta": meta | {"progressToken": "p"}}), CALL, Identity(Principal("ada"))
    )
    assert (caller.client.name, caller.client.version) == ("me", "2")
    assert caller.capabilities == {"sampling": {}}
    assert (caller.version, caller.era, caller.log_level) == ("2026-07-28", "modern", "debug")
    assert caller.tenant == "ada"
    assert token == "p"


@pytest.mark.parametrize("token", [0, 7, "seven", ""])
def test_a_progress_token_belongs_to_its_own_request_only(token: Any):
    assert check(body({"name": "echo", "_meta": META | {"progressToken": token}}), CALL)[1] == token
    assert check(body({"name": "echo", "_meta": META}), CALL)[1] is None


def test_two_who_say_the_same_are_not_taken_for_one():
    raw = body({"name": "echo", "_meta": META})
    for tenant in ("ada", "eve", "ada"):
        assert check(raw, CALL, Identity(Principal(tenant)))[0].tenant == tenant
    for thread in ("one", "two", "one"):
        assert check(raw, CALL, Identity(Principal("ada", "agent"), thread))[0].thread == thread


def test_a_client_that_does_not_say_who_it_is_is_unknown():
    assert check(body({"name": "echo", "_meta": META}), CALL)[0].client.name == "unknown"


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_capabilities_with_a_number_too_big_are_invalid_params_when_they_are_asked_for(number: str):
    raw = body({"name": "echo", "_meta": META | {CAPABILITIES: {"x": "NUMBER"}}})
    raw = raw.replace(b'"NUMBER"', number.encode())
    with pytest.raises(InvalidParams):
        assert check(raw, CALL)[0].capabilities
    with pytest.raises(InvalidParams):
        check(raw, CALL)[0].supports("anything")
