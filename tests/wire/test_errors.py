"""Errors: their codes, and the HTTP status each travels under."""

import pytest

from toolyard.wire.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotFound,
    MissingCapability,
    ParseError,
    UnsupportedVersion,
)
from toolyard.wire.messages import encode_error

CASES = [
    (ParseError("x"), -32700, 400),
    (InvalidRequest("x"), -32600, 400),
    (MethodNotFound("x"), -32601, 404),
    (InvalidParams("x"), -32602, 400),
    (HeaderMismatch("x"), -32020, 400),
    (MissingCapability({"sampling": {}}), -32021, 400),
    (UnsupportedVersion("x"), -32022, 400),
    (McpError(12345, "an application's own"), 12345, 200),
]


@pytest.mark.parametrize(("error", "code", "status"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_each_error_has_its_code_and_its_status(error: McpError, code: int, status: int):
    assert (error.code, error.http_status) == (code, status)


def test_every_error_of_the_protocol_is_an_mcp_error():
    assert all(isinstance(error, McpError) for error, *_ in CASES)


def test_an_internal_error_says_nothing_of_the_inside():
    assert InternalError().code == -32603
    assert "log" in InternalError().message


def test_an_unsupported_version_names_what_is_supported_and_what_was_asked_for():
    error = UnsupportedVersion("1900-01-01")
    assert error.data == {"supported": ["2026-07-28"], "requested": "1900-01-01"}


def test_a_missing_capability_names_it_in_words_and_in_data():
    required = {"sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    error = MissingCapability(required)
    assert error.data == {"requiredCapabilities": required}
    assert "sampling" in error.message
    assert "io.modelcontextprotocol/tasks" in error.message


def test_an_error_reply_carries_the_id_and_leaves_out_data_that_is_not_there():
    assert encode_error(7, McpError(1, "no")) == b'{"id":7,"error":{"code":1,"message":"no"},"jsonrpc":"2.0"}'


def test_an_error_reply_to_nobody_has_no_id():
    assert encode_error(None, McpError(1, "no")) == b'{"error":{"code":1,"message":"no"},"jsonrpc":"2.0"}'
