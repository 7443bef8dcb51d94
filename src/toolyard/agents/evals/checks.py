"""Whether a run did what its case expects: its calls, its answer, the files it left."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..messages import ToolUsePart
from ..runs import TRANSCRIPT, TranscriptLine
from .cases import PATTERN, EvalCase, ExpectedCall, FileCheck

JsonObject = dict[str, Any]

MAX_READ = 4 * 1024 * 1024
MAX_SHOWN = 8


class SeenCall(Struct, frozen=True):
    """A call of a tool. One that went through a meta tool is shown as the tool it reached."""

    tool: str
    arguments: JsonObject
    is_error: bool


class FinishedRun(Struct, frozen=True):
    """A run after its end."""

    is_done: bool
    reason: str
    answer: str
    folder: Path
    calls: tuple[SeenCall, ...]


def problems(case: EvalCase, run: FinishedRun) -> tuple[str, ...]:
    """What is wrong with the run, in sentences; nothing if it passed."""
    found = [] if run.is_done else [f"it did not finish: {run.reason}"]
    found += _call_problems(case, run.calls)
    called = {call.tool for call in run.calls}
    for pattern in case.forbidden:
        found += [f"it called {tool}, which is forbidden" for tool in sorted(called) if names(pattern, tool)]
    for text in case.answer_contains:
        if text.casefold() not in run.answer.casefold():
            found.append(f"the answer does not contain {text!r}: {_cut(run.answer)}")
    if case.answer_matches and re.search(case.answer_matches, run.answer) is None:
        found.append(f"the answer does not match {case.answer_matches!r}: {_cut(run.answer)}")
    for check in case.files:
        found += _file_problems(check, run.folder)
    return tuple(found)


def _call_problems(case: EvalCase, calls: Sequence[SeenCall]) -> Iterator[str]:
    left = [call for call in calls if not call.is_error]
    for expected in case.calls:
        at = next((at for at, call in enumerate(left) if _fits(expected, call)), None)
        if at is None:
            place = " in this order" if case.in_order and any(_fits(expected, one) for one in calls) else ""
            yield f"it did not call {_told(expected)}{place}; it called {_listed(calls)}"
        else:
            left = left[at + 1 :] if case.in_order else [*left[:at], *left[at + 1 :]]


def _fits(expected: ExpectedCall, call: SeenCall) -> bool:
    return names(expected.tool, call.tool) and fits(expected.arguments, call.arguments)


def names(pattern: str, tool: str) -> bool:
    """Whether a pattern names a tool: `server/tool`, the full name, or the tool's own."""
    server, slash, own = pattern.partition("/")
    if slash:
        return fnmatchcase(tool, f"mcp__{server}__{own}")
    own_name = tool.split("__", 2)[-1] if tool.startswith("mcp__") else tool
    return fnmatchcase(tool, pattern) or fnmatchcase(own_name, pattern)


def fits(expected: object, value: object) -> bool:
    """Whether a value is as expected; objects may have more members, `*` is anything."""
    if expected == "*":
        return True
    if isinstance(expected, str) and expected.startswith(PATTERN):
        return isinstance(value, str) and re.search(expected.removeprefix(PATTERN), value) is not None
    if isinstance(expected, dict) and isinstance(value, dict):
        wanted, found = cast(JsonObject, expected), cast(JsonObject, value)
        return all(name in found and fits(one, found[name]) for name, one in wanted.items())
    if isinstance(expected, list) and isinstance(value, list):
        many, others = cast("list[object]", expected), cast("list[object]", value)
        return len(many) == len(others) and all(map(fits, many, others))
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    return expected == value


def _file_problems(check: FileCheck, folder: Path) -> Iterator[str]:
    path = folder / check.path
    is_inside = os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
    if check.absent:
        if path.exists():
            yield f"the file {check.path!r} is there"
        return
    if not is_inside or not path.is_file():
        yield f"there is no file {check.path!r}"
        return
    with path.open("rb") as file:
        text = file.read(MAX_READ).decode("utf-8", "replace")
    if check.contains not in text:
        yield f"the file {check.path!r} does not contain {check.contains!r}"
    if check.matches and re.search(check.matches, text) is None:
        yield f"the file {check.path!r} does not match {check.matches!r}"


def calls_of(folder: Path) -> tuple[SeenCall, ...]:
    """The calls in the transcript of a run, those of its sub-agents included."""
    uses: list[ToolUsePart] = []
    failed: set[str] = set()
    try:
        lines = (folder / TRANSCRIPT).read_bytes().splitlines()
    except OSError:
        return ()
    for line in lines:
        try:
            found = msgspec.json.decode(line, type=TranscriptLine)
        except (msgspec.DecodeError, UnicodeDecodeError):  # the last line of a run that was stopped
            continue
        if found.message is not None:
            uses += [part for part in found.message.parts if isinstance(part, ToolUsePart)]
        if found.result is not None and found.result.is_error:
            failed.add(found.result.id)
    return tuple(call for use in uses for call in _reached(use, use.id in failed))


def _reached(use: ToolUsePart, is_error: bool) -> Iterator[SeenCall]:
    if use.name == "call_tool" and isinstance(tool := use.arguments.get("tool"), str):
        yield SeenCall(tool, _object(use.arguments.get("arguments")), is_error)
    elif use.name == "call_tools" and isinstance(calls := use.arguments.get("calls"), list):
        for one in map(_object, cast("list[object]", calls)):
            yield SeenCall(str(one.get("tool", "")), _object(one.get("arguments")), is_error)
    else:
        yield SeenCall(use.name, use.arguments, is_error)


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def _told(expected: ExpectedCall) -> str:
    with_arguments = f" with {msgspec.json.encode(expected.arguments).decode()}" if expected.arguments else ""
    return f"{expected.tool}{with_arguments}"


def _listed(calls: Sequence[SeenCall]) -> str:
    if not calls:
        return "nothing"
    shown = [_shown(call) for call in calls[:MAX_SHOWN]]
    more = f" and {len(calls) - MAX_SHOWN} more" if len(calls) > MAX_SHOWN else ""
    return ", ".join(shown) + more


def _shown(call: SeenCall) -> str:
    failed = " (failed)" if call.is_error else ""
    return f"{call.tool} {_cut(msgspec.json.encode(call.arguments).decode())}{failed}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:159]}…"
