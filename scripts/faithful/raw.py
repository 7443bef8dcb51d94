"""Programs of others spoken to in raw JSON-RPC, directly and through the gateway, in both eras.

What is asked is made from what a program lists: its tools with arguments from their schemas, its prompts and
resources, and what does not exist. Compared are the answers, the questions that a program asked meanwhile,
and what it told of its progress. Where something differs, the program is spoken to directly once more: what
differs then too is its own whim and is not compared; what looks like a time or an id never is.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .programs import Program

ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
START_S, ANSWER_S, STOP_S = 45.0, 20.0, 5.0
LINE_BYTES = 64 * 1024 * 1024
MOST_BEFORE = 100
TRIES = 2
"""What differs once may be a busy machine's."""
NAME = "theirs"
CLIENT = {"name": "faithful", "version": "1"}
META = "io.modelcontextprotocol/"
CAPABILITIES = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d?\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<id>"),
)
WHIM = "<differs each time>"

JSON = Any


class SilentError(Exception):
    """The program does not answer, or has ended."""


@dataclass
class Said:
    """What followed a request: its answer, and the messages before it."""

    answer: JSON
    before: list[JSON] = field(default_factory=list)


class Peer:
    """A program at the other end of two pipes, in one era. It may do anything in its only root."""

    def __init__(self, process: asyncio.subprocess.Process, era: str, folder: Path) -> None:
        self._process = process
        self._era = era
        self._folder = folder
        self.asked_for_roots = False
        """Whenever it is: a program asks as soon as it can, and that is another moment behind a gateway."""
        self._id = 0

    async def ask(self, method: str, params: JSON, patience: float = ANSWER_S) -> Said:
        if self._era == "modern":
            meta = {f"{META}protocolVersion": ERAS["modern"], f"{META}clientInfo": CLIENT}
            params = {
                **params,
                "_meta": {**meta, f"{META}clientCapabilities": CAPABILITIES, "progressToken": 1},
            }
        elif method in ("tools/call", "prompts/get", "resources/read"):
            params = {**params, "_meta": {"progressToken": 1}}
        before: list[JSON] = []
        while True:
            self._id += 1
            self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
            try:
                answer = await asyncio.wait_for(self._answer(before), patience)
            except TimeoutError:
                raise SilentError(method) from None
            result = answer.get("result")
            waits = isinstance(result, dict) and result.get("resultType") == "input_required"
            if not waits or len(before) > MOST_BEFORE:
                break
            before.append(result.get("inputRequests"))
            asked = result.get("inputRequests") or {}
            replies = {key: self._reply(one["method"], one.get("params", {})) for key, one in asked.items()}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            params = {**params, "inputResponses": replies, **state}
        answer.pop("id", None)
        return Said(answer, before)

    def tell(self, method: str) -> None:
        self._send({"jsonrpc": "2.0", "method": method})

    def _send(self, message: JSON) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _answer(self, before: list[JSON]) -> JSON:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            with suppress(ValueError):
                message = json.loads(line)
                if "method" not in message:
                    if message.get("id") == self._id:
                        return message
                elif "id" in message:
                    params = message.get("params", {})
                    if message["method"] == "roots/list":
                        self.asked_for_roots = True
                    else:
                        before.append({"method": message["method"], "params": params})
                    reply = self._reply(message["method"], params)
                    self._send({"jsonrpc": "2.0", "id": message["id"], "result": reply})
                elif message["method"] in ("notifications/progress", "notifications/message"):
                    before.append({"method": message["method"], "params": message.get("params")})
        raise SilentError("it has ended")

    def _reply(self, method: str, params: Mapping[str, Any]) -> JSON:
        """What a person and a model would say."""
        match method:
            case "elicitation/create":
                content = (
                    {"content": example(params["requestedSchema"])} if "requestedSchema" in params else {}
                )
                return {"action": "accept", **content}
            case "sampling/createMessage":
                said = {"type": "text", "text": "Said by a model"}
                return {"role": "assistant", "content": said, "model": "none", "stopReason": "endTurn"}
            case "roots/list":
                return {"roots": [{"uri": self._folder.as_uri(), "name": "work"}]}
            case _:
                return {}


def example(schema: JSON, whole: JSON = None) -> JSON:
    """The simplest value that fits a schema: what is required, and no more."""
    whole = schema if whole is None else whole
    if not isinstance(schema, dict):
        return "text"
    if "$ref" in schema:
        found = whole
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found.get(part, {})
        return example(found, whole)
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if schema.get("enum"):
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word):
            return example(schema[word][0], whole)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            required = schema.get("required", [])
            return {name: example(schema.get("properties", {}).get(name, {}), whole) for name in required}
        case "array":
            return [example(schema.get("items", {}), whole) for _ in range(schema.get("minItems", 1))]
        case "integer" | "number":
            return schema.get("minimum", schema.get("maximum", 1))
        case "boolean":
            return True
        case "null":
            return None
        case _:
            texts = {"uri": "https://example.com/", "email": "ada@example.com", "date": "2026-01-02"}
            return texts.get(schema.get("format", ""), "text").ljust(schema.get("minLength", 0), "x")


@dataclass(frozen=True)
class Request:
    label: str
    method: str
    params: JSON


def opening(era: str) -> Request:
    if era == "modern":
        return Request("server/discover", "server/discover", {})
    params = {"protocolVersion": ERAS[era], "capabilities": CAPABILITIES, "clientInfo": CLIENT}
    return Request("initialize", "initialize", params)


LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}


def requests(
    listed: Mapping[str, list[JSON]], calls: bool, without: Collection[str] = ()
) -> Iterator[Request]:
    """What to ask of a program that lists this."""
    for tool in [one for one in listed["tools"] if one["name"] not in without] if calls else []:
        name, schema = tool["name"], tool["inputSchema"]
        yield Request(f"tools/call {name}", "tools/call", {"name": name, "arguments": example(schema)})
        if schema.get("required"):
            yield Request(f"tools/call {name} without", "tools/call", {"name": name, "arguments": {}})
    for prompt in listed["prompts"]:
        values = {one["name"]: "1" for one in prompt.get("arguments", []) or []}
        params = {"name": prompt["name"], "arguments": values}
        yield Request(f"prompts/get {prompt['name']}", "prompts/get", params)
    for resource in listed["resources"] if calls else []:
        yield Request(f"resources/read {resource['uri']}", "resources/read", {"uri": resource["uri"]})
    for template in listed["resourceTemplates"] if calls else []:
        uri = re.sub(r"\{[^}]*\}", "1", template["uriTemplate"])
        yield Request(f"resources/read {uri}", "resources/read", {"uri": uri})
    yield Request("tools/call of none", "tools/call", {"name": "no-such-tool", "arguments": {}})
    yield Request("prompts/get of none", "prompts/get", {"name": "no-such-prompt"})
    yield Request("resources/read of none", "resources/read", {"uri": "none://such"})
    yield Request("an unknown method", "no/such", {})


async def converse(peer: Peer, era: str, program: Program) -> dict[str, JSON]:
    """Ask everything that follows from the program's lists."""
    start = opening(era)
    first = await peer.ask(start.method, start.params, START_S)
    found = {start.label: first}
    if "error" in first.answer:
        return plain(found)
    if era == "legacy":
        peer.tell("notifications/initialized")
    listed: dict[str, list[JSON]] = {}
    for member, method in LISTS.items():
        found[method] = await peer.ask(method, {})
        result = found[method].answer.get("result", {})
        listed[member] = result.get(member, [])
    for request in requests(listed, program.calls, program.without):
        try:
            found[request.label] = await peer.ask(request.method, request.params)
        except SilentError:
            found[request.label] = Said("no answer")
            break
    found["its question for roots"] = Said(peer.asked_for_roots)
    return plain(found)


def plain(found: Mapping[str, Said]) -> dict[str, JSON]:
    return {label: {"answer": said.answer, "before": said.before} for label, said in found.items()}


@asynccontextmanager
async def started(command: tuple[str, ...], folder: Path, environment: Mapping[str, str], era: str):
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LINE_BYTES,
        start_new_session=True,
    )
    try:
        yield Peer(process, era, folder)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def behind_gateway(program: Program, state: Path, folder: Path, toolyard: str) -> tuple[str, ...]:
    """The command that a client has in its configuration instead of the program's.

    On a busy machine a program may need longer to start than the gateway waits for it by default.
    """
    command, *arguments = program.command
    variables = ", ".join(
        f"{name} = {json.dumps(value)}" for name, value in surroundings(program, folder).items()
    )
    text = f"""
[gateway]
state_dir = {json.dumps(str(state))}
list_wait = {START_S}

[results]
shape = false

[servers.{NAME}]
command = {json.dumps(command)}
args = {json.dumps(arguments)}
cwd = {json.dumps(str(folder))}
env = {{ {variables} }}
"""
    file = state / "toolyard.toml"
    file.write_text(text, "utf-8")
    return toolyard, "-m", "toolyard", "stdio", "--config", str(file), "--server", NAME


def surroundings(program: Program, folder: Path) -> dict[str, str]:
    """All variables of a program, directly and through."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": program.path}


async def speak(program: Program, era: str, toolyard: str | None) -> dict[str, JSON] | None:
    """A whole conversation in a fresh folder; None if the program does not start or lacks the era."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as state:
        folder = Path(name)
        command = program.command
        if toolyard is not None:
            command = behind_gateway(program, Path(state), folder, toolyard)
        try:
            async with started(command, folder, surroundings(program, folder), era) as peer:
                return masked(await converse(peer, era, program), {name: "<folder>"})
        except (SilentError, OSError):
            return None


def masked(value: JSON, texts: Mapping[str, str]) -> JSON:
    if isinstance(value, dict):
        return {
            masked(key, texts): "<state>" if key == "requestState" else masked(each, texts)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [masked(each, texts) for each in value]
    if isinstance(value, str):
        for text, instead in texts.items():
            value = value.replace(text, instead)
        for pattern, instead in MASKS:
            value = pattern.sub(instead, value)
    return value


def steady(one: JSON, other: JSON) -> JSON:
    """The first, with WHIM wherever the second says something else."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: steady(one[key], other[key]) for key in one}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [steady(first, second) for first, second in zip(one, other, strict=True)]
    return one if one == other and type(one) is type(other) else WHIM


def difference(expected: JSON, got: JSON, at: str = "") -> str | None:
    """Where two differ first, in words; None where they do not."""
    if expected == WHIM:
        return None
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted(expected.keys() | got.keys()):
            if key not in got:
                return f"{at}/{key} is missing"
            if key not in expected:
                return f"{at}/{key} is added: {short(got[key])}"
        found = (difference(expected[key], got[key], f"{at}/{key}") for key in expected)
        return next((one for one in found if one is not None), None)
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        found = (difference(first, second, f"{at}/{number}") for number, (first, second) in pairs)
        return next((one for one in found if one is not None), None)
    if expected == got and type(expected) is type(got):
        return None
    return f"{at or '/'} is {short(got)} instead of {short(expected)}"


def short(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}…"


@dataclass(frozen=True)
class Spoken:
    """What came of one program in one era; `different` is by request, in words."""

    program: str
    era: str
    requests: int
    different: Mapping[str, str]


async def compare_program(program: Program, era: str, toolyard: str) -> Spoken | None:
    first = await speak(program, era, None)
    opened = opening(era).label
    if first is None or "error" in first[opened]["answer"]:
        return None
    expected, labels = first, list(first)
    different: dict[str, str] = {}
    for _ in range(TRIES):
        got = await speak(program, era, toolyard) or {}
        different = differences(expected, got, labels)
        if not different:
            break
        again = await speak(program, era, None)
        if again is not None and again.keys() == expected.keys():
            expected = steady(expected, again)
            different = differences(expected, got, labels)
        labels = list(different)
        if not different:
            break
    return Spoken(program.name, era, len(expected), different)


def differences(
    expected: Mapping[str, JSON], got: Mapping[str, JSON], labels: Collection[str]
) -> dict[str, str]:
    found = {label: difference(expected[label], got.get(label, "nothing")) for label in labels}
    return {label: why for label, why in found.items() if why}


async def compare_programs(
    programs: list[Program], toolyard: str = sys.executable, jobs: int = 3
) -> list[Spoken]:
    slots = asyncio.Semaphore(jobs)

    async def one(program: Program, era: str) -> Spoken | None:
        async with slots:
            return await compare_program(program, era, toolyard)

    found = await asyncio.gather(*(one(program, era) for program in programs for era in ERAS))
    return [spoken for spoken in found if spoken is not None]
