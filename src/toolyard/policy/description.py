"""A call as a person reads it: who asks, for which tool, with which arguments.

Owns what of the arguments is shown: secrets are masked, long values are cut, and characters that nobody
would see are spelled out. Owns the answer to a call that is described and not made (`preview`). Decides
nothing.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.json import format as indented

from ..catalogue.items import UpstreamItem
from ..languages import said
from ..telemetry.redaction import redact_field
from ..upstream.base import Forward, Outcome
from ..wire.call import SERVER_KEY, Caller, Principal
from ..wire.errors import InvalidParams
from ..wire.messages import encode
from ..wire.types import (
    CallToolResult,
    GetPromptResult,
    Implementation,
    Message,
    ReadResourceResult,
    Result,
    Text,
    TextContents,
)

MAX_TEXT = 200
MAX_ITEMS = 20
MAX_MESSAGE = 4_000
MASK = "***"


class CallDescription(Struct, frozen=True, kw_only=True):
    """What a person, and who decides later, is shown of a call."""

    who: str
    tenant: str
    user: str
    agent: str
    client: str
    """The name that the client gives itself; nobody has checked it."""
    server: str
    tool: str
    rule: str
    arguments: Any
    """Secrets are masked and long values cut."""


def describe(forward: Forward, server: str, tool: str, rule: str) -> CallDescription:
    caller = forward.call.caller
    principal = caller.principal
    return CallDescription(
        who=who(principal),
        tenant=principal.tenant,
        user=principal.user,
        agent=principal.agent,
        client=shorten_text(caller.client.name),
        server=server,
        tool=tool,
        rule=rule,
        arguments=shown(read_arguments(forward)),
    )


def who(principal: Principal) -> str:
    """`agent 'writer' of 'alice' (tenant 'acme')`, or `the local user`."""
    name, tenant_name = shorten_text(principal.agent), shorten_text(principal.tenant)
    agent = said(f"agent {name!r}", f"o agente {name!r}") if principal.agent else ""
    user = repr(shorten_text(principal.subject)) if principal.subject else ""
    named = said(" of ", " de ").join(part for part in (agent, user) if part)
    if principal.tenant == "local":
        return named or said("the local user", "o usuário local")
    tenant = said(f"tenant {tenant_name!r}", f"inquilino {tenant_name!r}")
    return f"{named} ({tenant})" if named else tenant


def read_arguments(forward: Forward) -> Any:
    """The arguments as plain data.

    A name that occurs twice is refused: people would be shown one of the values, and the server might take
    the other.
    """
    raw = forward.params.get("arguments")
    if raw is None:
        return {}
    try:
        return json.loads(bytes(raw), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise InvalidParams(
            said("'arguments' must be a JSON object", "'arguments' deve ser um objeto JSON")
        ) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        shown = twice[:80]
        raise InvalidParams(
            said(f"the arguments have {shown!r} twice", f"os argumentos têm {shown!r} duas vezes")
        )
    return found


def redacted(value: Any, name: str = "") -> Any:
    """The value without secrets: by the names of members, and by what texts look like."""
    if name and redact_field(name, "x") != "x":
        return MASK
    if isinstance(value, Mapping):
        members = cast(Mapping[str, Any], value)
        return {key: redacted(item, key) for key, item in members.items()}
    if isinstance(value, list):
        return [redacted(item, name) for item in cast(list[Any], value)]
    return redact_field(name, value) if isinstance(value, str) else value


def shown(arguments: Any) -> Any:
    """The arguments without secrets, every value cut to what fits, so that none can hide the others."""
    return _shortened(redacted(arguments))


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        kept: dict[str, Any] = {}
        for number, key in enumerate(list(members)[:MAX_ITEMS]):
            name = shorten_text(key)
            # Two long names that begin alike must not become one.
            kept[name if name not in kept else f"{name} [{number}]"] = _shortened(members[key])
        return kept | ({"…": and_more(len(members) - MAX_ITEMS)} if len(members) > MAX_ITEMS else {})
    if isinstance(value, list):
        items = cast(list[Any], value)
        more = [f"… {and_more(len(items) - MAX_ITEMS)}"] if len(items) > MAX_ITEMS else []
        return [_shortened(item) for item in items[:MAX_ITEMS]] + more
    # Longer integers than JSON's encoder takes.
    return shorten_text(str(value)) if isinstance(value, int) and value.bit_length() > 63 else value


def shorten_text(text: str, room: int = MAX_TEXT) -> str:
    """The beginning of a long text, with its length; invisible characters are spelled out."""
    kept = text if len(text) <= room else _cut(text, room)
    return kept if kept.isprintable() else "".join(map(_visible, kept))


def _cut(text: str, room: int) -> str:
    kept, count = text[:room], len(text)
    return said(f"{kept}… ({count:,} characters)", f"{kept}… ({count:,} caracteres)")


def and_more(count: int) -> str:
    return said(f"{count} more", f"mais {count}")


def _visible(character: str) -> str:
    # Line feeds and tabs are escaped by JSON.
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


def as_text(arguments: Any) -> str:
    """Arguments as indented JSON, for a message to people."""
    text = indented(encode(arguments), indent=2).decode()
    return text if len(text) <= MAX_MESSAGE else _cut(text, MAX_MESSAGE)


def preview(
    forward: Forward,
    server: str,
    name: str,
    rule: str,
    item: UpstreamItem | None,
    implementation: Implementation,
) -> Outcome:
    """The answer to a call that is described and not made; also to a request for a prompt or a resource."""
    call = describe(forward, server, name, rule)
    annotations = {} if item is None else _annotations(item)
    arguments = as_text(call.arguments)
    lines = [
        said(
            f"Not called: rule {rule!r} wants calls of {name!r} of the server {server!r} to be described "
            "only.",
            f"Não chamado: a regra {rule!r} quer que as chamadas de {name!r} do servidor {server!r} sejam só "
            "descritas.",
        ),
        said(
            f"It would be called with these arguments:\n{arguments}",
            f"Seria chamado com estes argumentos:\n{arguments}",
        ),
    ]
    if annotations:
        hints = encode(annotations).decode()
        lines.append(said(f"The server says about it: {hints}", f"O servidor diz sobre isso: {hints}"))
    text = "\n\n".join(lines)
    caller = forward.call.caller
    if forward.method == "prompts/get":
        return own_outcome(caller, GetPromptResult(messages=[Message("user", Text(text))]), implementation)
    if forward.method == "resources/read":
        contents = ReadResourceResult(contents=[TextContents(name, text, "text/plain")])
        if caller.era == "modern":
            contents.ttl_ms, contents.cache_scope = 0, "private"
        return own_outcome(caller, contents, implementation)
    structured = {
        # An output schema that the gateway lists admits any object with these two.
        "tool_name": name,
        "truncated": False,
        "preview": True,
        "server": server,
        "rule": rule,
        "arguments": call.arguments,
        "annotations": annotations,
    }
    result = CallToolResult(content=[Text(text)], structured_content=Raw(encode(structured)))
    return own_outcome(caller, result, implementation)


def _annotations(item: UpstreamItem) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(b"{" + item.rest, type=_Annotated).annotations
    except msgspec.DecodeError:
        return {}
    return {} if found is None else cast(dict[str, Any], shown(found))


class _Annotated(Struct):
    annotations: dict[str, Any] | None = None


def own_outcome(caller: Caller, result: Result, implementation: Implementation) -> Outcome:
    """A result of the gateway's own, with the members that the caller's era wants."""
    if caller.era == "modern":
        result.result_type = "complete"
        meta = {} if result.meta is UNSET else result.meta
        result.meta = {SERVER_KEY: implementation, **meta}
    is_error = isinstance(result, CallToolResult) and result.is_error
    return Outcome.of(encode(result), is_error=is_error)
