"""What the server offers: the tool in both languages, the list of tables, and a prompt to begin with."""

from typing import Annotated

from ...databases import DatabaseError
from ...kit import Message, Server, ToolError, ToolResult, user
from ...kit.context import Context
from ...kit.languages import Locale, add_tool
from .answers import Answer, as_result
from .asking import Asking
from .catalogue import Catalogue, light
from .faces import PROMPT, QUERY_EN, QUERY_PT
from .texts import texts_of

TABLES = "sql://tables"


def offer(server: Server, locale: Locale, asking: Asking, catalogue: Catalogue) -> None:
    texts = texts_of(locale)

    async def query(ctx: Context, question: str = "", sql: str = "") -> ToolResult:
        return as_result(await asking.answer(ctx, question, sql), texts)

    add_tool(
        server,
        locale,
        query,
        en=QUERY_EN,
        pt=QUERY_PT,
        output_schema=Answer,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    _offer_tables(server, locale, catalogue)


def _offer_tables(server: Server, locale: Locale, catalogue: Catalogue) -> None:
    texts = texts_of(locale)

    async def tables() -> str:
        try:
            return light(await catalogue.tables()) or texts.no_tables
        except DatabaseError as error:
            raise ToolError(texts.unreachable.format(reason=error.reason)) from None

    async def explore(topic: Annotated[str, texts.prompt_topic] = "") -> list[Message]:
        asked = texts.explore.format(tables=await tables())
        return [user(f"{asked}\n\n{texts.explore_topic.format(topic=topic)}" if topic else asked)]

    server.add_resource(
        tables,
        TABLES,
        name="tables",
        title=texts.tables_title,
        description=texts.tables_description,
        mime_type="text/plain",
    )
    server.add_prompt(
        explore, name=PROMPT[locale], title=texts.prompt_title, description=texts.prompt_description
    )
