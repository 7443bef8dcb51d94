"""The native dialect: `search_tools` and `call_tool`, and `make_grant` where callers may lend their rights.

`describe_tools`, `call_tools`, `manage_connections` and `read_result`, which every view with stored results
has, are called by `call_tool` or by name and not listed: answers name them where they are needed. A model
reads the definitions before anything else, so they are short: a test counts their tokens.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import Meta, Raw, Struct

from ...callers.grant_token import MAX_PATTERNS, GrantError
from ...callers.grants import IssuedGrant
from ...config.patterns import PatternError, parse
from ...kit.calls.content import ToolError
from ...kit.schema.validation import explain
from ...languages import said
from ...results.query.reader import MOST_ITEMS, answers_sql
from ...search.documents import ToolQuery
from ...state.store import StateError
from ...wire.call import Call, Principal
from ...wire.types import CallToolResult, Text
from ..meta.service import MAX_ITEMS, MAX_QUERIES, MAX_USE_CASE, MetaToolService
from ..meta.tools import BatchItem, BatchResult
from ..stored_results import READ_RESULT, StoredResults
from .definitions import MetaTool
from .search_answer import search_result

CALL_TOOL = "call_tool"
MAKE_GRANT = "make_grant"
MAX_MINUTES = 60 * 24 * 366

_READS = {"readOnlyHint": True, "openWorldHint": False}
_LOADED = {"anthropic/alwaysLoad": True}
"""Claude Code defers what a server lists, and would have to search for the tools that search."""


def native_definitions(queries: int, items: int) -> dict[str, dict[str, Any]]:
    """Return description, schemas and hints by name, with these upper limits."""
    tool = {"type": "string", "description": said("Full name", "Nome completo")}
    # Without `additionalProperties` some hosts show an object that takes nothing.
    given: dict[str, Any] = {"type": "object", "additionalProperties": True}
    return {
        "search_tools": {
            "description": said(
                "Find tools for what you want to do, several needs at once: one query for each step. Answers "
                "with signatures, NAME(argument, optional?: type, other=default); without a type it is a "
                "string. Then call_tool.",
                "Encontra ferramentas para o que você quer fazer, várias necessidades de uma vez: uma "
                "consulta por passo. Responde com assinaturas, NOME(argumento, opcional?: tipo, "
                "outro=padrão); sem tipo, é texto. Depois, call_tool.",
            ),
            "input_schema": _object(
                {
                    "queries": {
                        "type": "array",
                        "items": {"type": "string"},
                        "maxItems": queries,
                        "description": said("In plain words", "Em palavras simples"),
                    }
                },
                "queries",
            ),
            "annotations": {"readOnlyHint": True},
            "meta": _LOADED,
            "refuses_in_words": True,
        },
        CALL_TOOL: {
            "description": said(
                "Call a tool by its full name, as search_tools gave it.",
                "Chama uma ferramenta pelo nome completo, como search_tools o deu.",
            ),
            "input_schema": _object({"tool": {"type": "string"}, "arguments": given}, "tool"),
            "meta": _LOADED,
        },
        "describe_tools": {
            "description": said(
                "Full descriptions and argument schemas of tools.",
                "Descrições completas e esquemas de argumentos de ferramentas.",
            ),
            "input_schema": _object(
                {"tools": {"type": "array", "minItems": 1, "maxItems": items, "items": tool}}, "tools"
            ),
            "annotations": _READS,
            "is_listed": False,
        },
        "call_tools": {
            "description": said(
                "Call several tools at once, when none needs another's result. Results come in the same "
                "order; a failure does not affect the others. Call a tool that asks the user alone.",
                "Chama várias ferramentas de uma vez, quando nenhuma precisa do resultado de outra. Os "
                "resultados vêm na mesma ordem; uma falha não afeta as outras. Chame sozinha a que pergunta "
                "ao usuário.",
            ),
            "input_schema": _object(
                {
                    "calls": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": items,
                        "items": _object({"tool": tool, "arguments": given}, "tool"),
                    },
                    "parallel": {
                        "type": "integer",
                        "minimum": 1,
                        "description": said("Most calls at a time", "Máximo de chamadas ao mesmo tempo"),
                    },
                    "seconds": {
                        "type": "number",
                        "description": said(
                            "Cancel unfinished calls after this",
                            "Depois disto, cancela as chamadas não terminadas",
                        ),
                    },
                },
                "calls",
            ),
            "is_listed": False,
        },
        "manage_connections": {
            "description": said(
                "Whether servers and apps are connected. For one that is not: link gives an address for "
                "the user to authorise it at, wait returns when they have. disconnect ends a connection.",
                "Se servidores e aplicativos estão conectados. Para um que não está: link dá o endereço em "
                "que o usuário o autoriza, wait volta quando isso foi feito. disconnect encerra uma conexão.",
            ),
            "input_schema": _object(
                {
                    "action": {"enum": ["status", "link", "wait", "disconnect"], "default": "status"},
                    "names": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": said(
                            "Servers or apps; all without it", "Servidores ou aplicativos; sem isto, todos"
                        ),
                    },
                    "seconds": {
                        "type": "number",
                        "default": 60,
                        "description": said("How long to wait, up to 600", "Quanto esperar, até 600"),
                    },
                }
            ),
            "is_listed": False,
        },
    }


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return found


T = TypeVar("T")
MAX_FILTER = 200
ToolName = Annotated[str, Meta(min_length=1, max_length=512)]


_UseCase = Annotated[str, Meta(pattern=r"\S", max_length=MAX_USE_CASE)]


class _Query(Struct):
    """What a query may say beside its words; not in the definition, because few do."""

    use_case: _UseCase
    # Limited because the answer repeats them.
    known_fields: Annotated[str, Meta(max_length=MAX_USE_CASE)] = ""
    category: Annotated[str, Meta(max_length=MAX_FILTER)] = ""
    server: Annotated[str, Meta(max_length=MAX_FILTER)] = ""
    limit: Annotated[int, Meta(ge=1)] | None = None


class _Search(Struct):
    queries: Annotated[list[_UseCase | _Query], Meta(min_length=1, max_length=MAX_QUERIES)]
    session: str | None = None


class _Describe(Struct):
    tools: Annotated[list[ToolName], Meta(min_length=1, max_length=MAX_ITEMS)]
    session: str | None = None


class _Call(Struct):
    tool: ToolName
    arguments: dict[str, Any] = {}
    session: str | None = None


class _Calls(Struct):
    calls: Annotated[list[BatchItem], Meta(min_length=1, max_length=MAX_ITEMS)]
    parallel: Annotated[int, Meta(ge=1)] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    session: str | None = None


class _Connections(Struct):
    action: Literal["status", "link", "wait", "disconnect"] = "status"
    names: Annotated[list[ToolName], Meta(max_length=MAX_ITEMS)] = []
    seconds: Annotated[float, Meta(ge=0)] = 60.0
    session: str | None = None


async def _search(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    given = _read(_as_list(arguments), _Search, {"queries": ["send an email to a customer"]})
    queries = [
        ToolQuery(one)
        if isinstance(one, str)
        else ToolQuery(one.use_case, one.known_fields, one.category, one.server, one.limit)
        for one in given.queries
    ]
    return search_result(await service.search(call, queries, given.session))


def _as_list(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take one query where a list was asked for."""
    queries = arguments.get("queries")
    return {**arguments, "queries": [queries]} if isinstance(queries, str | dict) else arguments


async def _describe(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    given = _read(arguments, _Describe, {"tools": ["mcp__mail__send_email"]})
    described = await service.describe(call, given.tools, given.session)
    result = _structured(described.shown())
    result.is_error = not described.found
    return result


async def _call(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> Any:
    try:
        given = msgspec.convert(arguments, _Call)
    except (msgspec.ValidationError, RecursionError):
        example = {"tool": "mcp__mail__send_email", "arguments": {"to": "ann@example.org"}}
        given = _read(arguments, _Call, example)
    return await service.call_tool(call, given.tool, given.arguments, given.session)


async def _call_many(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    example = {"calls": [{"tool": "mcp__mail__send_email", "arguments": {"to": "ann@example.org"}}]}
    given = _read(arguments, _Calls, example)
    done = await service.call_tools(
        call, given.calls, parallel=given.parallel, seconds=given.seconds, session=given.session
    )
    return _batch_result(done)


async def _connections(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
    given = _read(arguments, _Connections, {"action": "link", "names": ["gmail"]})
    if given.action in ("link", "disconnect") and not given.names:
        raise ToolError(
            said(
                f'"names" is missing: name what to {given.action}',
                f'Falta "names": diga a que se refere {given.action}',
            )
        )
    found = await service.connections(
        call, given.names, given.action, seconds=given.seconds, session=given.session
    )
    shown = [
        {
            "server": one.server,
            "status": one.status,
            **{
                key: value
                for key, value in (
                    ("toolkit", one.toolkit),
                    ("link", one.link),
                    ("account", one.account),
                    ("message", one.message),
                    ("required", list(one.required)),
                )
                if value
            },
        }
        for one in found
    ]
    return _structured({"connections": shown})


class NativeDialect:
    """`grants` makes tokens for sub-agents; without it there is no `make_grant`."""

    name = "native"
    search_tool = "search_tools"

    def __init__(self, grants: "GrantMaker | None" = None) -> None:
        self._grants = grants

    def tools(self) -> Sequence[MetaTool]:
        answers = {
            self.search_tool: _search,
            "describe_tools": _describe,
            CALL_TOOL: _call,
            "call_tools": _call_many,
            "manage_connections": _connections,
        }
        definitions = native_definitions(MAX_QUERIES, MAX_ITEMS)
        tools = [
            MetaTool(
                name=name, answer=answer, is_counted=answer not in (_call, _call_many), **definitions[name]
            )
            for name, answer in answers.items()
        ]
        return tools if self._grants is None else [*tools, make_grant_tool(self._grants)]


def _read(arguments: dict[str, Any], kind: type[T], example: dict[str, Any]) -> T:
    """Decode arguments, or raise a ToolError with a valid example."""
    try:
        return msgspec.convert(_decode_inner(arguments), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        valid = msgspec.json.encode(example).decode()
        fault = explain(error)
        raise ToolError(
            said(f"{fault}. Valid example: {valid}", f"{fault}. Exemplo válido: {valid}")
        ) from None


def _decode_inner(arguments: dict[str, Any]) -> dict[str, Any]:
    """Decode inner arguments that a model wrote as JSON in a string."""
    inner = arguments.get("arguments")
    if not isinstance(inner, str):
        return arguments
    try:
        return {**arguments, "arguments": msgspec.json.decode(inner, type=dict[str, Any])}
    except (msgspec.DecodeError, RecursionError):
        return arguments


def arguments_within(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that `call_tool` is given for another tool."""
    return _read(arguments, _Call, {"tool": arguments.get("tool"), "arguments": {}}).arguments


def _structured(value: dict[str, Any], media: Sequence[Any] = ()) -> CallToolResult:
    """Build a result with structured content, and the same JSON as text for clients without it."""
    raw = msgspec.json.encode(value)
    return CallToolResult(content=[Text(raw.decode()), *media], structured_content=Raw(raw))


def _batch_result(done: Sequence[BatchResult]) -> CallToolResult:
    """Join the results into one. Images and audio become separate content blocks after the text."""
    results: list[dict[str, Any]] = []
    media: list[Any] = []
    for at, one in enumerate(done):
        shown: dict[str, Any] = {"tool": one.tool, "ok": one.ok}
        if one.result is not None and one.ok:
            shown["result"] = _slim(one.result, at, media)
        if one.error is not None:
            shown["error"] = one.error
        if one.late:
            shown["late"] = True
        results.append(shown)
    succeeded = sum(one.ok for one in done)
    value = {"results": results, "succeeded": succeeded, "failed": len(done) - succeeded}
    result = _structured(value, media)
    result.is_error = succeeded == 0
    return result


def _slim(result: dict[str, Any], at: int, media: list[Any]) -> dict[str, Any]:
    """Drop the text that repeats the structured content, and move images and audio to `media`."""
    slim = dict(result)
    kept: list[dict[str, Any]] = []
    for block in cast(list[dict[str, Any]], result.get("content") or []):
        if _is_media(block):
            media += [Text(f"results[{at}]:"), Raw(msgspec.json.encode(block))]
            kept.append({"type": block["type"], "mimeType": block["mimeType"], "text": "below"})
        elif not _repeats_structured(block, result.get("structuredContent")):
            kept.append(block)
    slim["content"] = kept
    if not kept and "structuredContent" in slim:
        del slim["content"]
    return slim


def _is_media(block: dict[str, Any]) -> bool:
    """Whether it is a complete image or audio block; a client may refuse a result with an invalid one."""
    whole = isinstance(block.get("data"), str) and isinstance(block.get("mimeType"), str)
    return whole and block.get("type") in ("image", "audio")


def _repeats_structured(block: dict[str, Any], structured: Any) -> bool:
    if structured is None or block.get("type") != "text":
        return False
    try:
        return msgspec.json.decode(str(block.get("text"))) == structured
    except (msgspec.DecodeError, RecursionError):
        return False


def _read_description() -> str:
    ways = (
        said(
            "a page of items or lines, a JMESPath query, or one SQL SELECT over the table `result`, "
            "a row per item",
            "uma página de itens ou linhas, uma consulta JMESPath, ou um SELECT em SQL sobre a tabela "
            "`result`, uma linha por item",
        )
        if answers_sql()
        else said(
            "a page of items or lines, or a JMESPath query",
            "uma página de itens ou linhas, ou uma consulta JMESPath",
        )
    )
    return said(
        f"Read more of a truncated result: {ways}. All of them see what the preview shows: a list of records "
        "is a list of records, however it was sent. Prefer a query that answers the question to paging.",
        f"Lê mais de um resultado encurtado: {ways}. Todos veem o que a prévia mostra: uma lista de "
        "registros é uma lista de registros, como quer que tenha sido enviada. Prefira uma consulta que "
        "responda à pergunta a ler página por página.",
    )


def _read_input() -> dict[str, Any]:
    sql = {"type": "string", "description": "SELECT state, count(*) FROM result GROUP BY state"}
    return _object(
        {
            "id": {
                "type": "string",
                "description": said(
                    "The result's id: the end of storage.resource.",
                    "O id do resultado: o fim de storage.resource.",
                ),
            },
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS},
            "query": {
                "type": "string",
                "description": said(
                    "JMESPath from what the preview shows: [?state=='open'].title, length(@)",
                    "JMESPath a partir do que a prévia mostra: [?state=='open'].title, length(@)",
                ),
            },
            **({"sql": sql} if answers_sql() else {}),
        },
        "id",
    )


def read_result_tool(stored: StoredResults, *, is_listed: bool = True) -> MetaTool:
    async def answer(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
        return await stored.answer(call, arguments)

    return MetaTool(
        name=READ_RESULT,
        title=said("Read a stored result", "Ler um resultado guardado"),
        description=_read_description(),
        input_schema=_read_input(),
        answer=answer,
        annotations={"readOnlyHint": True, "openWorldHint": False},
        is_listed=is_listed,
    )


def _grant_input() -> dict[str, Any]:
    patterns = {"type": "array", "items": {"type": "string"}}
    return _object(
        {
            "name": {
                "type": "string",
                "description": said(
                    "The sub-agent, e.g. report-writer", "O subagente, por exemplo report-writer"
                ),
            },
            "allow": {
                **patterns,
                "description": said(
                    "SERVER, SERVER/TOOL or SERVER/*:read; everything you may use without it",
                    "SERVIDOR, SERVIDOR/FERRAMENTA ou SERVIDOR/*:read; sem isto, tudo o que você pode usar",
                ),
            },
            "deny": {**patterns, "description": said("The same, taken away", "O mesmo, tirado")},
            "minutes": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": said("Until it ends", "Até que termine"),
            },
            "calls": {
                "type": "integer",
                "minimum": 1,
                "description": said("How many calls it permits", "Quantas chamadas permite"),
            },
        },
        "name",
    )


class _MakeGrant(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    allow: Annotated[list[str], Meta(max_length=MAX_PATTERNS)] | None = None
    deny: Annotated[list[str], Meta(max_length=MAX_PATTERNS)] = []
    minutes: Annotated[float, Meta(gt=0, le=MAX_MINUTES)] | None = None
    calls: Annotated[int, Meta(ge=1)] | None = None


class GrantMaker(Protocol):
    """Lends the rights of a caller to a sub-agent, and says where it is to connect."""

    async def make_grant(
        self,
        parent: Principal,
        name: str,
        allow: Sequence[str] | None,
        deny: Sequence[str],
        ttl: float | None,
        calls: int | None,
    ) -> IssuedGrant:
        """Raises GrantError and StateError."""
        ...

    def agent_url(self, name: str) -> str: ...


def make_grant_tool(grants: GrantMaker) -> MetaTool:
    async def answer(service: MetaToolService, call: Call, arguments: dict[str, Any]) -> CallToolResult:
        given = _read(
            arguments, _MakeGrant, {"name": "report-writer", "allow": ["notes/*:read"], "calls": 20}
        )
        try:
            for pattern in (*(given.allow or ()), *given.deny):
                parse(pattern)
            ttl = None if given.minutes is None else max(1.0, given.minutes * 60)
            issued = await grants.make_grant(
                call.caller.principal, given.name, given.allow, given.deny, ttl, given.calls
            )
        except (GrantError, PatternError) as error:
            raise ToolError(f"{error.message}. {error.hint}" if error.hint else error.message) from None
        except StateError as error:
            raise ToolError(error.public_message) from None
        record = issued.record
        return _structured(
            {
                "token": issued.token,
                "url": grants.agent_url(record.name),
                "header": "Authorization: Bearer TOKEN",
                "id": record.id,
                "name": record.name,
                "expires": datetime.fromtimestamp(record.expires, UTC).isoformat(),
                "calls": record.calls,
            }
        )

    return MetaTool(
        name=MAKE_GRANT,
        title=said("Make a grant for a sub-agent", "Conceder acesso a um subagente"),
        description=said(
            "Make a token for a sub-agent, with the tools, time and calls it needs and never more than you "
            "have. The token is a secret: give it to that sub-agent only.",
            "Faz um token para um subagente, com as ferramentas, o tempo e as chamadas de que ele precisa e "
            "nunca mais do que você tem. O token é secreto: dê-o só a esse subagente.",
        ),
        input_schema=_grant_input(),
        answer=answer,
        annotations={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    )
