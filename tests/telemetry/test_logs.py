"""Log lines as they reach standard error."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from tests.telemetry.requests import call
from toolyard.telemetry import logs
from toolyard.telemetry.redaction import redact
from toolyard.telemetry.requests import Observation, new_request_id
from toolyard.wire.errors import InternalError, InvalidParams

NAMES = ("", "toolyard", "uvicorn", "uvicorn.error", "uvicorn.access")
logger = logging.getLogger("toolyard.test")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(list(each.handlers), each.level, each.propagate) for each in loggers]
    yield
    for each, (handlers, level, propagate) in zip(loggers, before, strict=True):
        each.handlers[:] = handlers
        each.setLevel(level)
        each.propagate = propagate


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_a_json_line_says_when_how_bad_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("json", "info")
    logger.warning("lost %s", "git", extra={"server": "git", "attempt": 2})
    (line,) = lines(capsys)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "toolyard.test",
        "message": "lost git",
        "server": "git",
        "attempt": 2,
    }


def test_lines_inside_a_request_carry_its_fields_and_lines_after_it_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.setup("json", "info")
    with Observation(call(), None):
        logger.info("inside")
    logger.info("after")
    inside, after = lines(capsys)
    assert (inside["request_id"], inside["server"], inside["tool"], inside["tenant"]) == (
        "r-1",
        "git",
        "search",
        "acme",
    )
    assert "request_id" not in after


def test_a_call_is_one_line_when_debugging_and_none_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    for level in ("debug", "info"):
        logs.setup("json", level)
        with Observation(call(), None):
            pass
    (line,) = lines(capsys)
    assert line["level"] == "debug"
    assert line["message"] == "tools/call"
    assert line["outcome"] == "ok"
    assert line["duration_ms"] >= 0
    assert line["request_id"] == "r-1"


def test_an_upstreams_failure_is_a_warning_and_a_callers_mistake_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.setup("json", "info")
    for error in (InternalError("it broke"), InvalidParams("no such tool")):
        with pytest.raises(type(error)), Observation(call(), None):
            raise error
    (line,) = lines(capsys)
    assert line["level"] == "warning"
    assert line["outcome"] == "error"
    assert line["error"] == "InternalError: it broke"


def test_text_has_the_same_fields_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("text", "debug")
    with Observation(call(name="has space"), None):
        pass
    text = capsys.readouterr().err
    assert " DEBUG toolyard.calls: tools/call request_id=r-1 server=git " in text
    assert ' tool="has space" tenant=acme outcome=ok duration_ms=' in text


def test_text_from_outside_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("text", "info")
    forged = "x\n2026-01-01T00:00:00Z ERROR toolyard: forged\r\x1b[2J\u2028"
    logger.info("said %s", forged, extra={"server": forged})
    try:
        raise ValueError(forged)
    except ValueError:
        logger.exception("failed")
    text = capsys.readouterr().err
    assert not [line for line in text.split("\n") if line.startswith("2026-01-01")]
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u2028" not in text


def test_an_exception_keeps_its_traceback_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("json", "text"):
        logs.setup(kind, "info")
        try:
            raise ValueError("why")
        except ValueError:
            logger.exception("failed")
    first, rest = capsys.readouterr().err.split("\n", 1)
    assert json.loads(first)["exception"].endswith("ValueError: why")
    assert "\n    Traceback" in rest
    assert "\n    ValueError: why\n" in rest


def test_uvicorns_lines_have_our_form(capsys: pytest.CaptureFixture[str]) -> None:
    uvicorn.Config(lambda: None)  # with a logging of its own
    logs.setup("json", "info")
    uvicorn.Config(lambda: None, log_config=None)
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).warning("hello", extra={"color_message": "\x1b[1mhello"})
    assert [(line["logger"], line["message"], len(line)) for line in lines(capsys)] == [
        ("uvicorn.error", "hello", 4),
        ("uvicorn.access", "hello", 4),
    ]


def test_debugging_toolyard_is_not_debugging_everything(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("json", "debug")
    logging.getLogger("asyncio").debug("using selector")
    logger.debug("ours")
    assert [line["message"] for line in lines(capsys)] == ["ours"]


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2hunter2",
        "authorization: Basic aHVudGVyMg==hunter2",
        "Authorization: hunter2",
        "[(b'authorization', b'Bearer hunter2.x')]",
        "[(b'x-api-key', b'hunter2')]",
        "{'X-Api-Key': 'hunter2 and more'}",
        '{"password": "a\\"hunter2"}',
        '{"access_token":"hunter2"}',
        "GET /a?token=hunter2&b=1",
        "client_secret=hunter2",
        "Cookie: session=hunter2",
        "GITHUB_TOKEN=hunter2",
        "cannot connect to https://user:hunter2@example.com/mcp",
        "sent Bearer hunter2hunter2 to it",
        "ty_k3j2h1g0f9e8_hunter2hunter2",
        "the key ty_k3j2h1g0f9e8_hunter2hunter2.",
        "tyg_AQCjeyJub-hunter2",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    assert "hunter2" not in redact(text)
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "progress token 7 is not known",
        "the token, please",
        "listening at http://127.0.0.1:8321/mcp",
        "mail to a@example.com",
        "tokens=5 tokenizer: fast",
        "Basic tools are listed",
    ],
)
def test_plain_words_are_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text", ['"token":"' + "\\a" * 100_000, '"token":"' * 30_000, "token" * 50_000, "'token" * 50_000]
)
def test_hostile_text_is_masked_in_reasonable_time(text: str) -> None:
    assert redact(text)  # the suite's time limit is the check


def test_a_line_has_a_bounded_length(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("json", "info")
    logger.info("x" * 1_000_000, extra={"server": "y" * 1_000_000})
    (line,) = lines(capsys)
    assert line["message"].endswith("… (991808 more)")
    assert len(line["server"]) < 10_000


@pytest.mark.parametrize("kind", ["json", "text"])
def test_secrets_are_masked_in_messages_fields_and_tracebacks(
    capsys: pytest.CaptureFixture[str], kind: logs.Kind
) -> None:
    logs.setup(kind, "info")
    try:
        raise ValueError("Bearer hunter2hunter2")
    except ValueError:
        logger.exception(
            "headers %s", {"authorization": "Bearer hunter2"}, extra={"url": "https://a:hunter2@b/"}
        )
    text = capsys.readouterr().err
    assert "hunter2" not in text


def test_a_field_named_like_a_secret_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup("json", "info")
    logger.info("x", extra={"authorization": "hunter2", "api_key": "hunter2"})
    (line,) = lines(capsys)
    assert (line["authorization"], line["api_key"]) == ("***", "***")


def test_a_line_without_a_record_is_one_line_of_the_same_form_with_secrets_masked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.write_json_line(
        "toolyard.test", "tools/call", {"tool": "a\nb \ud800", "path": "/x?token=hunter2", "status": 200}
    )
    (line,) = lines(capsys)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "toolyard.test",
        "message": "tools/call",
        "tool": "a\nb ?",
        "path": "/x?token=***",
        "status": 200,
    }


def test_request_ids_are_unique() -> None:
    assert len({new_request_id() for _ in range(1000)}) == 1000
