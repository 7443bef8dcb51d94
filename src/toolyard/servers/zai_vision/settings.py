"""The settings of the zai_vision server, and the endpoint that they and Z.AI's own variables lead to."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from ...kit.loader import SettingsError
from ...kit.settings import text_list
from ...languages import Locale

ZAI_URL = "https://api.z.ai/api/paas/v4/"
ZHIPU_URL = "https://open.bigmodel.cn/api/paas/v4/"
ZAI_MODEL = "glm-5.3-flash"
ZAI_HOSTS = ("z.ai", "bigmodel.cn")
ZAI_TITLE = "4.5V MCP Local"
"""What Z.AI's own server calls itself in a request."""

Seconds = Annotated[float, Meta(gt=0, le=3600)]
Size = Annotated[int, Meta(ge=1024, le=1024**3)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and instructions to the model."""
    api_key: str = ""
    """The API's key; empty: Z_AI_API_KEY or ZAI_API_KEY. With neither a key nor a `url`, the client's own
    model is asked."""
    url: str = ""
    """The address of the API, before `chat/completions`; empty: Z_AI_BASE_URL, or Z.AI's own."""
    mode: str = ""
    """`ZAI`, or `ZHIPU` for open.bigmodel.cn; empty: Z_AI_MODE or PLATFORM_MODE."""
    model: str = ""
    """Empty: Z_AI_VISION_MODEL, or the default of Z.AI's own server."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Unset: Z.AI's variables and defaults for Z.AI, and nothing for other APIs."""
    timeout: Seconds | None = None
    """Seconds that one request may take; unset: Z_AI_TIMEOUT (milliseconds), or 300."""
    retries: Annotated[int, Meta(ge=0, le=10)] | None = None
    """How often a request is repeated; unset: Z_AI_RETRY_COUNT, or 1."""
    workspace: str = ""
    """The folder of the workspaces; empty: `$TOOLYARD_WORKSPACE`, else `workspaces` in the state folder."""
    shared: bool = False
    """One workspace for all conversations of an owner."""
    allow: str | tuple[str, ...] = ()
    """Private hosts and networks from which pictures may be fetched; a list, or a text with commas."""
    urls: Literal["fetch", "pass"] = "fetch"
    """`pass`: the API fetches pictures at http and https addresses itself."""
    video: Literal["auto", "whole", "frames"] = "auto"
    """`frames`: videos are always sent as pictures; `auto`: only if the model cannot take the video."""
    frames: Annotated[int, Meta(ge=1, le=32)] = 8
    """How many pictures are taken from a video."""
    ffmpeg: str = ""
    """Path of ffmpeg; empty: the one on PATH, or of the package imageio-ffmpeg."""
    image_bytes: Size = 5 * 1024 * 1024
    """Maximum size of an image that is sent; a larger one is scaled down."""
    image_side: Annotated[int, Meta(ge=64, le=20_000)] = 6000
    """Maximum width and height of an image that is sent, in pixels."""
    video_bytes: Size = 8 * 1024 * 1024
    """Maximum size of a video that is sent; of a larger one, pictures are."""
    source_bytes: Size = 100 * 1024 * 1024
    """Maximum size of an image or video that is read."""
    fetch_timeout: Seconds = 30.0
    """Seconds that fetching an image or video may take."""
    sample_bytes: Size = 1024 * 1024
    """Maximum size of an image for the client's own model."""
    sample_side: Annotated[int, Meta(ge=64, le=20_000)] = 1568
    """Maximum width and height of an image for the client's own model, in pixels."""
    sample_tokens: Annotated[int, Meta(ge=1)] = 4096
    """Maximum length of an answer of the client's own model, in tokens."""

    @property
    def allowed(self) -> tuple[str, ...]:
        return text_list(self.allow)


class VisionEndpoint(Struct, frozen=True, kw_only=True):
    """Where and how a model is asked."""

    url: str
    key: str
    model: str
    timeout: float
    retries: int
    parameters: dict[str, object]
    """Members of the request beside model and messages."""
    headers: dict[str, str]

    def __repr__(self) -> str:
        """Without the key."""
        return f"VisionEndpoint({self.url!r}, {self.model!r})"

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


def endpoint_of(settings: Settings, environment: Mapping[str, str] | None = None) -> VisionEndpoint | None:
    """None if there is neither a key nor an address: then the client's own model is asked."""
    variables = os.environ if environment is None else environment
    url = settings.url or variables.get("Z_AI_BASE_URL", "")
    key = (settings.api_key or _key(variables)).strip()
    if not url and not key:
        return None
    if not url:
        url = _default_url(settings.mode or variables.get("Z_AI_MODE") or variables.get("PLATFORM_MODE", ""))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"url: {url!r} is not an http or https address")
    if parts.username is not None:
        raise SettingsError("url: has a user name or password; the key belongs in `api_key`")
    is_zai = any(parts.hostname == host or parts.hostname.endswith("." + host) for host in ZAI_HOSTS)
    model = settings.model or variables.get("Z_AI_VISION_MODEL", "") or (ZAI_MODEL if is_zai else "")
    if not model:
        raise SettingsError("model: name the model of this API (or set Z_AI_VISION_MODEL)")
    milliseconds = _number(variables, "Z_AI_TIMEOUT", 300_000.0)
    return VisionEndpoint(
        url=url.rstrip("/") + "/chat/completions",
        key=key,
        model=model,
        timeout=settings.timeout if settings.timeout is not None else milliseconds / 1000,
        retries=settings.retries
        if settings.retries is not None
        else int(_number(variables, "Z_AI_RETRY_COUNT", 1)),
        parameters=_parameters(settings, variables, is_zai),
        headers={"X-Title": ZAI_TITLE, "Accept-Language": "en-US,en"} if is_zai else {},
    )


def _key(variables: Mapping[str, str]) -> str:
    for name in ("Z_AI_API_KEY", "ZAI_API_KEY"):
        if variables.get(name):
            return variables[name]
    # Z.AI's users have its key here; anybody else's token must not be sent to Z.AI.
    there = urlsplit(variables.get("ANTHROPIC_BASE_URL", "")).hostname or ""
    is_zai = any(there == host or there.endswith("." + host) for host in ZAI_HOSTS)
    return variables.get("ANTHROPIC_AUTH_TOKEN", "") if is_zai else ""


def _default_url(mode: str) -> str:
    name = mode.strip().upper()
    if name in ("", "Z_AI", "ZAI", "Z"):
        return ZAI_URL
    if name.startswith("ZHIPU") or name == "BIGMODEL":
        return ZHIPU_URL
    raise SettingsError(f"mode: {mode!r} is neither ZAI nor ZHIPU")


def _parameters(settings: Settings, variables: Mapping[str, str], is_zai: bool) -> dict[str, object]:
    """For other APIs only what was set: no name or value works with all of them."""
    found: dict[str, object] = {"thinking": {"type": "enabled"}} if is_zai else {}
    for name, given, variable, default in (
        ("temperature", settings.temperature, "Z_AI_VISION_MODEL_TEMPERATURE", 0.8),
        ("top_p", settings.top_p, "Z_AI_VISION_MODEL_TOP_P", 0.6),
        ("max_tokens", settings.max_tokens, "Z_AI_VISION_MODEL_MAX_TOKENS", 131072),
    ):
        if given is not None:
            found[name] = given
        elif is_zai or variables.get(variable):
            number = _number(variables, variable, default)
            found[name] = int(number) if name == "max_tokens" else number
    return found


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "")
    try:
        number = float(text) if text else default
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise SettingsError(f"{name}: {text!r} is not a number that can be used")
    return number
