"""Builds the server from its settings: finds a box that works, adds the tools, and files as resources."""

from urllib.parse import unquote

from ..._version import __version__
from ...egress import AddressRules, EgressProxy
from ...kit import BlobContents, Context, Server
from ...kit.loader import SettingsError
from ...kit.settings import text_list
from ...workbench.box import BoxKit, Interpreter, NoBoxError, find_box
from ...workbench.local import LocalWorkbenches
from ...workspace import Workspaces
from .settings import Settings
from .texts import texts_of
from .tools import FILES, WorkbenchTools

CONNECTION_BYTES = 1024**3
"""The most that one connection of a box brings in."""


def build(settings: Settings) -> Server:
    texts = texts_of(settings.locale)
    kit = BoxKit(is_ours=not settings.python)
    try:
        proxy = None
        if settings.network:
            proxy = (EgressProxy(AddressRules(settings.allowed), CONNECTION_BYTES), kit.folder / "egress")
        box = find_box(
            settings.box,
            kit,
            settings.box_limits,
            Interpreter.found(settings.python),
            proxy=None if proxy is None else proxy[1],
            preload=text_list(settings.preload),
        )
    except NoBoxError as error:
        kit.close()
        raise SettingsError(texts.no_box.format(error)) from None
    except ValueError as error:
        kit.close()
        raise SettingsError(f"allow: {error}") from None
    workspaces = Workspaces(settings.workspace, shared=settings.shared, limits=settings.workspace_limits)
    benches = LocalWorkbenches(box, kit, workspaces, settings.local_limits, proxy)
    about_box = {"bubblewrap": texts.bubblewrap, "landlock": texts.landlock, "limits": texts.limits}[box.name]
    network = texts.with_network if settings.network else texts.without_network
    server = Server(
        "workbench",
        version=__version__,
        locale=settings.locale,
        title=texts.title,
        instructions=f"{texts.instructions.format(int(settings.timeout))} {about_box} {network}",
    )
    server.on_close(benches.close)
    tools = WorkbenchTools(benches, settings, texts)
    tools.add_to(server)

    async def file(path: str, ctx: Context) -> BlobContents:
        data, info = await tools.read(ctx, unquote(path))
        return BlobContents(f"{FILES}{path}", data, info.mimetype)

    server.add_resource(file, FILES + "{+path}", title=texts.files_title, description=texts.files_description)
    return server
