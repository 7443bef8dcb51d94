"""A web browser: pages opened, seen as outlines with references, and used. Chromium, by way of Playwright.

Owns what a caller may reach and what is kept for them. What a page says is passed on as the page's words.
"""

from urllib.parse import unquote

from ... import __version__
from ...kit import BlobContents, Context, Server, ToolError
from ...kit.extras import need
from ...kit.making import WrongSettings
from .addresses import Rules
from .recipes import WrongRecipe, recipes_of
from .settings import Settings
from .texts import texts_of
from .tools import Tools
from .visits import Visits, owner_of

__all__ = ["ENVIRONMENT", "Settings", "build"]

ENVIRONMENT = "TOOLYARD_BROWSER_"


def build(settings: Settings) -> Server:
    need("browser", "browser", "playwright", "cryptography")
    try:
        recipes = recipes_of(settings.recipes)
        rules = Rules(settings.allowed)
    except WrongRecipe as error:
        raise WrongSettings(str(error)) from None
    except ValueError as error:
        raise WrongSettings(f"allow: {error}") from None
    said = texts_of(settings.locale)
    server = Server("browser", version=__version__, title=said.title, instructions=said.instructions)
    visits = Visits(settings, rules, said)
    server.on_close(visits.close)
    tools = Tools(visits, settings, said)
    tools.add_to(server)
    for name, recipe in recipes.items():
        try:
            tools.add_recipe(server, name, recipe)
        except ValueError as error:
            raise WrongSettings(f"recipe {name!r}: {error}") from None

    async def download(name: str, ctx: Context) -> BlobContents:
        data = visits.shelf.read(owner_of(ctx), unquote(name))
        if data is None:
            raise ToolError(said.no_download.format(name))
        return BlobContents(f"browser://downloads/{name}", data)

    server.add_resource(
        download,
        "browser://downloads/{name}",
        title=said.downloads_title,
        description=said.downloads_description,
    )
    return server
