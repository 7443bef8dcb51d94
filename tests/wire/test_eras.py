"""Which era a request is taken for."""

import json
from typing import Any

import pytest

from toolyard.wire.call import is_modern, read_legacy_progress_token
from toolyard.wire.headers import RequestHeaders
from toolyard.wire.messages import parse
from toolyard.wire.versions import LEGACY_VERSIONS

VERSION = "io.modelcontextprotocol/protocolVersion"
META = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
CALL = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}


def body(params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def modern(raw: bytes, headers: dict[str, str] | None = None) -> bool:
    """Whether a message is taken for a modern one; without headers, as on stdio."""
    head = (
        None
        if headers is None
        else RequestHeaders.of([(name.encode(), value.encode()) for name, value in headers.items()])
    )
    return is_modern(raw, parse(raw).params, head)


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


# Legacy progress tokens


@pytest.mark.parametrize("token", [0, 7, "seven", ""])
def test_a_legacy_progress_token_is_found(token: Any):
    raw = body({"name": "echo", "_meta": {"progressToken": token}})
    assert read_legacy_progress_token(raw, parse(raw).params) == token


@pytest.mark.parametrize(
    "meta", [None, {}, [], {"progressToken": None}, {"progressToken": 1.5}, "progressToken"]
)
def test_a_legacy_request_without_a_usable_progress_token_has_none(meta: Any):
    raw = body({"name": "progressToken", "_meta": meta})
    assert read_legacy_progress_token(raw, parse(raw).params) is None
