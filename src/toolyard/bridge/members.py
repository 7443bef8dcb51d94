"""Parameters on their way through: members whose values stay JSON, and what each era wants in `_meta`."""

from itertools import count
from typing import Any

import msgspec
from msgspec import Raw

from ..upstream.link import Params
from ..wire.call import Call, Caller
from ..wire.eras import CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY, PREFIX, TASKS_EXTENSION, VERSION_KEY
from ..wire.messages import decode_params, encode
from ..wire.versions import LATEST_MODERN

MAX_REMEMBERED = 256
_VERSION = VERSION_KEY.encode()
_tokens = count(1)


def members_of(call: Call) -> Params:
    return decode_params(call.params, dict[str, Raw])


def meta_of(params: Params) -> Params:
    found = params.get("_meta")
    return {} if found is None or bytes(found) == b"null" else decode_params(found, dict[str, Raw])


def with_meta(params: Params, meta: Params) -> Params:
    changed = dict(params)
    if meta:
        changed["_meta"] = Raw(encode(meta))
    else:
        changed.pop("_meta", None)
    return changed


def new_token() -> str:
    """A progress token that no other request has."""
    return f"toolyard-{next(_tokens)}"


def raw(value: Any) -> Raw:
    return Raw(encode(value))


def for_legacy(call: Call, params: Params) -> tuple[Params, str | None]:
    """Without what only the modern era knows, and with a progress token of our own if one is wanted."""
    if "_meta" not in params:
        return params, None
    meta = {key: value for key, value in meta_of(params).items() if not key.startswith(PREFIX)}
    token = None
    if call.progress_token is not None:
        token = new_token()
        meta["progressToken"] = raw(token)
    return with_meta(params, meta), token


def with_own_token(params: Params) -> tuple[Params, str]:
    token = new_token()
    return with_meta(params, meta_of(params) | {"progressToken": raw(token)}), token


def is_complete(params: Params) -> bool:
    """Whether they carry what the modern era wants; those of a caller in our own process do not."""
    return "_meta" in params and _VERSION in bytes(params["_meta"])


class ModernMeta:
    """What a modern upstream must be told of a caller in every request, where the request does not say it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Caller, bool], Params] = {}

    def add(self, call: Call, params: Params, tasks: bool) -> Params:
        """`tasks`: say that the caller can follow tasks, because we do it for them."""
        meta = meta_of(params) if "_meta" in params else {}
        told = {**meta, **self._of(call.caller, tasks)}
        level = call.caller.log_level
        if call.caller.era == "legacy":
            level = (call.session.log_level if call.session is not None else None) or "info"
        if level is not None:
            told[LOG_LEVEL_KEY] = raw(level)
        return with_meta(params, told)

    def _of(self, caller: Caller, tasks: bool) -> Params:
        known = self._known.get((caller, tasks))
        if known is None:
            capabilities = dict(caller.capabilities)
            if tasks:
                extensions: dict[str, Any] = dict(capabilities.get("extensions") or {})
                capabilities["extensions"] = {**extensions, TASKS_EXTENSION: {}}
            known = {
                VERSION_KEY: raw(LATEST_MODERN),
                CAPABILITIES_KEY: raw(capabilities),
                CLIENT_KEY: Raw(msgspec.json.encode(caller.client)),
            }
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[caller, tasks] = known
        return known
