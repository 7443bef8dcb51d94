"""Models behind one small protocol: `open_model` finds the API that a model's name begins with."""

import difflib
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from .base import Model, ModelError, ModelTransport
from .host import ModelAddress, ModelHost
from .prices import Prices
from .retries import Retries
from .transport import PooledModelTransport

__all__ = ["Prices", "Retries", "open_model"]

APIS = ("anthropic", "openai")
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
OPENAI_CONTEXT = 128_000
ANTHROPIC_CONTEXT = 200_000


def open_model(
    spec: str,
    *,
    environ: Mapping[str, str] | None = None,
    transport: ModelTransport | None = None,
    prices: Prices | None = None,
    context_tokens: int | None = None,
    retries: Retries | None = None,
) -> Model:
    """Opens `openai:MODEL` or `anthropic:MODEL`; nothing is sent before the first request.

    Addresses and keys come from the variables that the vendors' own clients read. `prices` come before those
    of TOOLYARD_PRICES. A given transport is closed with the model. Raises ModelError.
    """
    environ = os.environ if environ is None else environ
    api, colon, name = spec.partition(":")
    if not (colon and name.strip() and api in APIS):
        raise ModelError("invalid", f"{spec!r} does not name a model", _meant(spec, api))
    prices = (prices or Prices()) + Prices.parse([environ.get("TOOLYARD_PRICES", "")])
    address = (_openai_address if api == "openai" else _anthropic_address)(name.strip(), environ)
    host = ModelHost(address, transport or PooledModelTransport(environ), retries or Retries())
    if api == "openai":
        from .openai import ChatDialect, OpenAiModel

        # OpenAI's newer models refuse the older name; most other servers know only that one.
        is_vendor = address.url.startswith(OPENAI_URL)
        dialect = ChatDialect(limit="max_completion_tokens" if is_vendor else "max_tokens")
        return OpenAiModel(address.model, host, prices, context_tokens or OPENAI_CONTEXT, dialect)
    from .anthropic import AnthropicModel

    return AnthropicModel(address.model, host, prices, context_tokens or ANTHROPIC_CONTEXT)


def _meant(spec: str, api: str) -> str:
    if api in APIS:
        return f"write {api}:MODEL with the name of a model"
    close = difflib.get_close_matches(api.lower(), APIS, n=1, cutoff=0.6)
    if ":" in spec and close:
        return f"did you mean {close[0]}:{spec.partition(':')[2]}?"
    guess = "anthropic" if "claude" in spec.lower() else "openai"
    return (
        f"write anthropic:MODEL or openai:MODEL, as in {guess}:{spec}"
        if spec and ":" not in spec
        else ("write anthropic:MODEL, or openai:MODEL for any API like OpenAI's with OPENAI_BASE_URL")
    )


def _openai_address(model: str, environ: Mapping[str, str]) -> ModelAddress:
    base = _base_url("OPENAI_BASE_URL", OPENAI_URL, environ)
    key = _key("OPENAI_API_KEY", environ)
    if not key and base == OPENAI_URL:
        raise ModelError(
            "unauthorized",
            "OPENAI_API_KEY is not set",
            "set it, or OPENAI_BASE_URL for a server of your own that needs no key",
        )
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if base == OPENAI_URL:
        for variable, header in (
            ("OPENAI_ORG_ID", "OpenAI-Organization"),
            ("OPENAI_PROJECT_ID", "OpenAI-Project"),
        ):
            if value := _key(variable, environ):
                headers[header] = value
    return ModelAddress(f"{base}/chat/completions", headers, model, key, "OPENAI_API_KEY", "OPENAI_BASE_URL")


def _anthropic_address(model: str, environ: Mapping[str, str]) -> ModelAddress:
    base = _base_url("ANTHROPIC_BASE_URL", ANTHROPIC_URL, environ).removesuffix("/v1")
    key, token = _key("ANTHROPIC_API_KEY", environ), _key("ANTHROPIC_AUTH_TOKEN", environ)
    if not key and not token and base == ANTHROPIC_URL:
        raise ModelError("unauthorized", "ANTHROPIC_API_KEY is not set", "set it, or ANTHROPIC_AUTH_TOKEN")
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if key:
        headers["x-api-key"] = key
    elif token:
        headers["Authorization"] = f"Bearer {token}"
    variable = "ANTHROPIC_AUTH_TOKEN" if token and not key else "ANTHROPIC_API_KEY"
    return ModelAddress(f"{base}/v1/messages", headers, model, key or token, variable, "ANTHROPIC_BASE_URL")


def _base_url(variable: str, default: str, environ: Mapping[str, str]) -> str:
    url = environ.get(variable, "").strip().rstrip("/") or default
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_fit = False
        parts = urlsplit("")
    if not is_fit:
        raise ModelError("invalid", f"{variable} is not an http:// or https:// address", f"as in {default}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ModelError(
            "invalid", f"{variable} has a password, a query or a fragment in it", f"as in {default}"
        )
    return url


def _key(variable: str, environ: Mapping[str, str]) -> str:
    key = environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ModelError("unauthorized", f"{variable} holds characters that no key has", "copy it again")
    return key
