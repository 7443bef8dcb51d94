"""Builds the server from its settings: tools, recipes, and downloads as resources."""

from urllib.parse import unquote

from ..._version import __version__
from ...egress import AddressRules
from ...kit import BlobContents, Context, Server, ToolError
from ...kit.loader import SettingsError, require_extra
from .pool import BrowserPool, owner_of
from .recipes import RecipeError, recipes_of
from .settings import Settings
from .texts import texts_of
from .tools import BrowserTools


def build(settings: Settings) -> Server:
    require_extra("browser", "browser", "playwright", "cryptography")
    try:
        recipes = recipes_of(settings.recipes)
        rules = AddressRules(settings.allowed)
    except RecipeError as error:
        raise SettingsError(str(error)) from None
    except ValueError as error:
        raise SettingsError(f"allow: {error}") from None
    texts = texts_of(settings.locale)
    server = Server(
        "browser",
        version=__version__,
        locale=settings.locale,
        title=texts.title,
        instructions=texts.instructions,
    )
    pool = BrowserPool(settings, rules, texts)
    server.on_close(pool.close)
    tools = BrowserTools(pool, settings, texts)
    tools.add_to(server)
    for name, recipe in recipes.items():
        try:
            tools.add_recipe(server, name, recipe)
        except ValueError as error:
            raise SettingsError(f"recipe {name!r}: {error}") from None

    async def download(name: str, ctx: Context) -> BlobContents:
        data = pool.downloads.read(owner_of(ctx), unquote(name))
        if data is None:
            raise ToolError(texts.no_download.format(name))
        return BlobContents(f"browser://downloads/{name}", data)

    server.add_resource(
        download,
        "browser://downloads/{name}",
        title=texts.downloads_title,
        description=texts.downloads_description,
    )
    return server
