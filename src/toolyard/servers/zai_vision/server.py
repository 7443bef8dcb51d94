"""Builds the server from its settings: who is asked, where pictures may come from, the tools."""

from ..._version import __version__
from ...egress import AddressRules
from ...ffmpeg import FfmpegMissingError, find_ffmpeg
from ...kit import Server
from ...kit.loader import SettingsError, require_extra
from ...pictures import PictureFitter
from ...workspace import Workspaces
from .endpoint import VisionClient
from .settings import Settings, endpoint_of
from .sources import SourceReader
from .texts import texts_of
from .tools import VisionTools


def build(settings: Settings) -> Server:
    require_extra("zai_vision", "vision", "PIL")
    try:
        rules = AddressRules(settings.allowed)
    except ValueError as error:
        raise SettingsError(f"allow: {error}") from None
    endpoint = endpoint_of(settings)
    client = VisionClient(endpoint) if endpoint is not None else None
    texts = texts_of(settings.locale)
    server = Server(
        "zai_vision",
        version=__version__,
        locale=settings.locale,
        title=texts.server_title,
        instructions=texts.instructions,
    )
    pictures = PictureFitter()
    server.on_close(pictures.close)
    if client is not None:
        server.on_close(client.close, reopens=True)
    reader = SourceReader(rules, settings.source_bytes, settings.fetch_timeout)
    workspaces = Workspaces(settings.workspace, shared=settings.shared)
    tools = VisionTools(settings, client, reader, pictures, workspaces, _ffmpeg(settings), texts)
    tools.add_to(server)
    return server


def _ffmpeg(settings: Settings) -> str:
    """Empty without ffmpeg: only analyze_video ever needs it."""
    try:
        return find_ffmpeg(settings.ffmpeg).ffmpeg
    except FfmpegMissingError as error:
        if error.named:
            raise SettingsError(f"ffmpeg: {error}") from None
        return ""
