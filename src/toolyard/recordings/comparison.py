"""Says how two runs differ: two recordings, two folders of agents' runs, or one of each.

Calls are put side by side in order. Of what is left, equal calls were made in another order, and calls of the
same tool were made with other arguments. Times are shown and make no difference.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct

from ..agents.messages import ToolResultPart, ToolUsePart
from ..agents.runs import RECORD, TRANSCRIPT, RunRecord, TranscriptLine
from .format import RecordingError, ResponseLine
from .matching import comparable, differences, key_of, likeness, shown, steady
from .recording import Recording, model_replies, pairs

DifferenceKind = Literal["only_a", "only_b", "arguments", "result", "order", "definition", "answer"]
MAX_SENTENCES = 3
MAX_ALIGNED = 4000
"""Beyond it, very frequent calls are not used to find what belongs together: that would take minutes."""


class ComparedCall(Struct, frozen=True, eq=False):
    """A call of a run. The result itself is read when it is needed."""

    number: int
    """Its place in the run, from 1."""
    title: str
    arguments: Any
    key: bytes
    digest: bytes
    """Of the result in its comparable form."""
    size: int
    is_error: bool
    seconds: float | None
    result: Callable[[], Any]


class ComparedRun(Struct, frozen=True):
    """What of a run is compared."""

    name: str
    calls: tuple[ComparedCall, ...]
    definitions: dict[str, bytes]
    """Digests of what the servers offer, by server, kind and name."""
    turns: int | None = None
    """Replies of the model; None if it is not known."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    answer: str | None = None


class Difference(Struct, frozen=True, omit_defaults=True):
    kind: DifferenceKind
    title: str
    a: int | None = None
    """The number of the call in A."""
    b: int | None = None
    details: tuple[str, ...] = ()


class RunComparison(Struct, frozen=True):
    a: ComparedRun
    b: ComparedRun
    same_calls: int
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        return not self.differences and all(
            one == other for name, one, other in self.totals() if name not in UNSTEADY
        )

    def totals(self) -> Iterator[tuple[str, Any, Any]]:
        """The figures that both runs have, by name."""
        a, b = self.a, self.b
        yield "calls", len(a.calls), len(b.calls)
        yield "errors", sum(call.is_error for call in a.calls), sum(call.is_error for call in b.calls)
        yield "result bytes", sum(call.size for call in a.calls), sum(call.size for call in b.calls)
        for name, one, other in (
            ("turns", a.turns, b.turns),
            ("input tokens", a.input_tokens, b.input_tokens),
            ("output tokens", a.output_tokens, b.output_tokens),
            ("cost", a.cost, b.cost),
            ("seconds", a.seconds, b.seconds),
        ):
            if one is not None or other is not None:
                yield name, one, other


UNSTEADY = ("seconds",)


def compare(a: ComparedRun, b: ComparedRun) -> RunComparison:
    found: list[Difference] = [*_definitions(a, b)]
    same = 0
    left_a: list[ComparedCall] = []
    left_b: list[ComparedCall] = []
    matcher = SequenceMatcher(
        None,
        [call.key for call in a.calls],
        [call.key for call in b.calls],
        autojunk=max(len(a.calls), len(b.calls)) > MAX_ALIGNED,
    )
    for tag, a_start, a_end, b_start, b_end in matcher.get_opcodes():
        if tag != "equal":
            left_a += a.calls[a_start:a_end]
            left_b += b.calls[b_start:b_end]
            continue
        for one, other in zip(a.calls[a_start:a_end], b.calls[b_start:b_end], strict=True):
            if one.digest == other.digest:
                same += 1
            else:
                found.append(_other_result("result", one, other))
    found += _rest(left_a, left_b)
    if a.answer is not None and b.answer is not None and a.answer != b.answer:
        found.append(Difference("answer", "answer", details=tuple(_sentences(a.answer, b.answer))))
    found.sort(key=lambda item: (item.kind == "answer", item.a or item.b or 0))
    return RunComparison(a, b, same, tuple(found))


def _rest(left_a: list[ComparedCall], left_b: list[ComparedCall]) -> Iterator[Difference]:
    """What is at no common place: moved, called with other arguments, or in one run only."""
    waiting: dict[bytes, list[ComparedCall]] = {}
    for call in left_b:
        waiting.setdefault(call.key, []).append(call)
    unpaired: list[ComparedCall] = []
    for one in left_a:
        if others := waiting.get(one.key):
            yield _other_result("order", one, others.pop(0))
        else:
            unpaired.append(one)
    by_title: dict[str, list[ComparedCall]] = {}
    for calls in waiting.values():
        for call in calls:
            by_title.setdefault(call.title, []).append(call)
    for one in unpaired:
        others = by_title.get(one.title)
        if not others:
            yield Difference("only_a", one.title, a=one.number, details=_given(one))
            continue
        other = max(others, key=lambda call: (likeness(one.arguments, call.arguments), -call.number))
        others.remove(other)
        yield Difference(
            "arguments",
            one.title,
            one.number,
            other.number,
            tuple(_sentences(one.arguments, other.arguments)),
        )
    for call in sorted((call for calls in by_title.values() for call in calls), key=lambda call: call.number):
        yield Difference("only_b", call.title, b=call.number, details=_given(call))


def _given(call: ComparedCall) -> tuple[str, ...]:
    return (f"with {shown(call.arguments)}",) if call.arguments else ()


def _other_result(kind: DifferenceKind, one: ComparedCall, other: ComparedCall) -> Difference:
    if one.digest == other.digest:
        return Difference(kind, one.title, one.number, other.number)
    details = [f"{one.size} bytes in A, {other.size} in B"] if one.size != other.size else []
    if one.is_error != other.is_error:
        details.append("an error in A only" if one.is_error else "an error in B only")
    details += _sentences(one.result(), other.result())
    return Difference(kind, one.title, one.number, other.number, tuple(details[: MAX_SENTENCES + 1]))


def _sentences(one: Any, other: Any) -> list[str]:
    found = differences(one, other, words=("in B:", "in A:"))
    return [sentence for _, sentence in zip(range(MAX_SENTENCES), found, strict=False)]


def _definitions(a: ComparedRun, b: ComparedRun) -> Iterator[Difference]:
    if not a.definitions or not b.definitions:  # a transcript has none
        return
    for name in sorted(a.definitions.keys() | b.definitions.keys()):
        if name not in b.definitions:
            yield Difference("definition", name, details=("only in A",))
        elif name not in a.definitions:
            yield Difference("definition", name, details=("only in B",))
        elif a.definitions[name] != b.definitions[name]:
            yield Difference("definition", name, details=("is defined differently",))


# Reading runs


def read_run(path: Path) -> ComparedRun:
    """A recording, or the folder or transcript of an agent's run. Raises RecordingError."""
    if path.is_dir():
        return _read_transcript(path / TRANSCRIPT)
    return _read_transcript(path) if path.name == TRANSCRIPT else _read_recording(path)


def _read_recording(path: Path) -> ComparedRun:
    recording = Recording(path)
    calls: list[ComparedCall] = []
    begun: float | None = None
    end = 0.0
    for number, (call, response) in enumerate(pairs(recording), 1):
        params = recording.params(call)
        value = _result_of(response)
        body = msgspec.json.encode(value)
        took = None if call.last.response is None else call.last.response.t - call.place.t
        begun = call.place.t if begun is None else begun
        end = max(end, call.place.t + (took or 0.0))
        arguments = params.get("arguments", {key: item for key, item in params.items() if key != "name"})
        calls.append(
            ComparedCall(
                number,
                call.title,
                arguments,
                call.key,
                _digest(value),
                len(body),
                _is_error(response, value),
                took,
                lambda call=call: _result_of(recording.response(call.last)),
            )
        )
    replies = model_replies(recording)
    return ComparedRun(
        str(path),
        tuple(calls),
        dict(_offered(recording)),
        turns=replies if recording.model_calls else None,
        seconds=round(end - (begun or 0.0), 3),
    )


def _result_of(response: ResponseLine | None) -> Any:
    if response is None or response.cancelled:
        return "(not answered)"
    if response.error is not UNSET:
        return {"error": comparable(msgspec.to_builtins(response.error))}
    return {} if response.result is UNSET else comparable(msgspec.json.decode(response.result))


def _is_error(response: ResponseLine | None, value: Any) -> bool:
    if response is None or response.cancelled or response.error is not UNSET:
        return True
    return isinstance(value, dict) and value.get("isError") is True  # pyright: ignore[reportUnknownMemberType]


def _offered(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Each tool, prompt and resource, as it was last listed."""
    for call in recording.calls.values():
        kind = call.method.removesuffix("/list")
        if call.by != "gateway" or kind == call.method or call.response is None:
            continue
        result: Any = _result_of(recording.response(call))
        for items in result.values() if isinstance(result, dict) else ():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            for item in items if isinstance(items, list) else ():  # pyright: ignore[reportUnknownVariableType]
                if isinstance(item, dict):
                    name = item.get("name") or item.get("uri")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                    yield f"{call.server} {kind} {name!r}", _digest(item)


def _digest(value: Any) -> bytes:
    return blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).digest()


def _read_transcript(path: Path) -> ComparedRun:
    """Of an agent's run: its calls of tools with what came back, and the figures of `run.json`."""
    uses: list[tuple[str, ToolUsePart, float]] = []
    results: dict[str, tuple[ToolResultPart, float]] = {}
    for line in _transcript_lines(path):
        if line.result is not None:
            results[line.result.id] = line.result, line.time
        elif line.message is not None:
            uses += [
                (line.name, part, line.time) for part in line.message.parts if isinstance(part, ToolUsePart)
            ]
    calls = tuple(_transcript_call(number, *use, results) for number, use in enumerate(uses, 1))
    try:
        record = msgspec.json.decode((path.parent / RECORD).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ComparedRun(str(path.parent), calls, {})
    return ComparedRun(
        str(path.parent),
        calls,
        {},
        record.turns,
        record.usage.input,
        record.usage.output,
        record.cost,
        record.seconds,
        record.answer,
    )


def _transcript_call(
    number: int, agent: str, use: ToolUsePart, at: float, results: dict[str, tuple[ToolResultPart, float]]
) -> ComparedCall:
    result, ended = results.get(use.id, (None, None))
    value: Any = "(not answered)"
    if result is not None:
        # When a stored result expires is another moment in every run.
        value = steady(comparable(list(msgspec.to_builtins(result.parts))))
    arguments = comparable(use.arguments)
    title = f"{agent} {use.name}"
    return ComparedCall(
        number,
        title,
        arguments,
        key_of(title, arguments),
        _digest(value),
        len(msgspec.json.encode(value)),
        result is None or result.is_error,
        None if ended is None else ended - at,
        lambda: value,
    )


def _transcript_lines(path: Path) -> Iterator[TranscriptLine]:
    decode = msgspec.json.Decoder(TranscriptLine).decode
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    if not line.endswith(b"\n"):
                        return  # its writer was killed
                    raise RecordingError(f"{str(path)!r}, line {number}: {error}") from None
    except OSError as error:
        raise RecordingError(
            f"cannot read {str(path)!r}: {error.strerror or error}",
            "compare two recordings, or two folders of `toolyard agent`",
        ) from None


def as_json(found: RunComparison) -> dict[str, Any]:
    """The comparison for programs."""
    return {
        "same": found.is_same,
        "a": found.a.name,
        "b": found.b.name,
        "sameCalls": found.same_calls,
        "totals": {name: {"a": one, "b": other} for name, one, other in found.totals()},
        "differences": msgspec.to_builtins(found.differences),
    }


def sentences(found: Sequence[Difference]) -> Iterator[tuple[str, str, str, str]]:
    """Rows for people: the numbers in A and B, the call, and what is different."""
    words = {
        "only_a": "only in A",
        "only_b": "only in B",
        "arguments": "other arguments",
        "result": "other result",
        "order": "another order",
        "definition": "",
        "answer": "",
    }
    for item in found:
        said = ": ".join(filter(None, (words[item.kind], "; ".join(item.details))))
        yield _number(item.a), _number(item.b), item.title, said


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
