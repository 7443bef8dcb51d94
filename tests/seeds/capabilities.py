"""001: what MCP servers inside an application and by themselves can do, as frete-sistema has them."""

import json

from tests.seeds.shell import ROOT
from tests.seeds.statements import Heading, Seed, Stage, Statement

SUMS = """\
from toolyard.kit.enhanced import enhanced_server, enhanced_tool

SUM = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


@enhanced_tool("add", "Add two numbers", {"a": float, "b": float}, HINTS, SUM)
async def add(args):
    return {"content": [], "structuredContent": {"sum": args["a"] + args["b"]}}


@enhanced_tool("fail", "Fail", {}, None, SUM)
async def fail(args):
    return {"is_error": True, "content": [{"type": "text", "text": "no"}], "structuredContent": {"sum": 1}}


@enhanced_tool("misfit", "Answer with something else", {}, None, SUM)
async def misfit(args):
    return {"content": [], "structuredContent": {"soma": 1}}


server = enhanced_server("sums", "2.0.0", [add, fail, misfit])
lenient = enhanced_server("sums", "2.0.0", [misfit], lenient_output=True)
"""

DESK = '''\
from toolyard.kit import Context, Icon, ResourceLink, Server, user

server = Server("desk", icons=[Icon("https://example.com/desk.png")])


@server.tool(long=True)
async def greet(ctx: Context) -> str:
    """Ask for a name, and report."""
    await ctx.report_progress(1, 2, "asking")
    answer = await ctx.elicit("Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"Hello {answer.content['name']}"


@server.tool
async def pay(ctx: Context) -> str:
    """Have the user pay at a page."""
    return (await ctx.elicit_url("Pay here", "https://example.com/pay")).action


@server.tool
async def think(ctx: Context) -> str:
    """Have the client's model use a tool while it thinks."""
    tool = {"name": "add", "inputSchema": {"type": "object"}}
    return (await ctx.sample("What is 1 + 1?", tools=[tool])).text


@server.tool(long=True, ui="ui://desk/report")
async def report() -> ResourceLink:
    """Write a report."""
    return ResourceLink("desk://report", "report")


@server.resource("desk://report")
async def kept() -> str:
    return "All is well."


@server.resource("ui://desk/report")
async def page() -> str:
    return "<p>All is well.</p>"


@server.prompt
async def review(topic: str) -> str:
    return f"Review {topic}."
'''

PAST = {
    "format": "toolyard.sessions",
    "session_id": "web-2026-0042",
    "title": "Faturas em atraso",
    "messages": [{"role": "user", "text": "Que faturas estão em atraso?", "time": "2026-03-14T09:00:00Z"}],
}

PYTHON = Stage(
    "python",
    "`sums.py` has a server of [records as `@tool` makes them](guides/claude-agent-sdk.md#coming-from-tool),"
    " `desk.py` one of functions that ask, report and link.",
    hidden={"sums.py": SUMS, "desk.py": DESK},
    imports="import desk, sums\n"
    "from toolyard import Client\n"
    "from toolyard.client import SampleResult\n"
    "from toolyard.kit.agent_sdk import create_sdk_server",
)

SIX = Stage(
    "six",
    "The six servers, with Render emulated and a scripted model behind `sql`:",
    files={
        "toolyard.toml": """\
[gateway]
view = "all"

[results]
shape = false

[servers.sql]
module = "sql"
options = { locale = "pt", model_url = "${CLAUDE_URL}", model_key = "any" }

[servers.memory]
module = "memory"
options = { locale = "pt" }

[servers.schema]
module = "schema"
options = { locale = "pt" }

[servers.sessions]
module = "sessions"
options = { locale = "pt", import_from = "past" }

[servers.render]
module = "render"
options = { locale = "pt", url = "${RENDER_URL}" }

[servers.browser]
module = "browser"
options = { locale = "pt", recipes = "recipes.toml" }
"""
    },
    hidden={
        "recipes.toml": (ROOT / "examples/browser-recipes.toml").read_text(),
        "past/one.json": json.dumps(PAST),
    },
    emulators=("render", "claude"),
)

CAPABILITIES = Seed(
    "001",
    "Capabilities of MCP servers (frete-sistema)",
    (PYTHON, SIX),
    (
        Heading("The SDK's wrapper"),
        Statement(
            "A tool is a record: name, description, input schema, annotations.",
            """
            $ toolyard show add --target sums.py:server
            add Add two numbers read-only, not destructive, idempotent, closed world
            Arguments name type required a number yes b number yes…
            """,
            at="python",
        ),
        Statement(
            "There are four annotations.",
            """
            >>> print(sums.add.annotations)
            {'readOnlyHint': True, 'destructiveHint': False, 'idempotentHint': True, 'openWorldHint': False}
            """,
            at="python",
        ),
        Statement(
            "A server runs in the application's own process.",
            """
            >>> print(create_sdk_server(sums.server))
            {'type': 'sdk', 'name': 'sums', 'instance': <…>}
            """,
            at="python",
        ),
        Statement(
            "The wrapper lacks output schemas and structured content; here are both.",
            """
            $ toolyard call --json --target sums.py:server add a=1 b=2.5
            …"structuredContent":{"sum":3.5}…
            $ toolyard list --json sums.py:server
            …"outputSchema":{"type":"object","properties":{"sum":…
            """,
            at="python",
        ),
        Statement(
            "It cannot ask or report progress; here a tool can.",
            """
            >>> async with Client(desk.server, on_elicit=lambda form: form.accept(name="Ana"), on_progress=print) as client:
            ...     print((await client.call_tool("greet")).text)
            Progress(progress=1.0, total=2.0, message='asking')…Hello Ana
            """,
            at="python",
        ),
        Statement(
            "It has no resources or prompts; here are both.",
            """
            $ toolyard read --target desk.py:server desk://report
            All is well.
            $ toolyard prompt --target desk.py:server review topic=tea
            Review tea.
            """,
            at="python",
        ),
        Heading("Newer parts of the protocol"),
        Statement(
            "Elicitation, tasks, resource links, icons.",
            """
            >>> async with Client(desk.server) as client:
            ...     task = await client.start_task("report")
            ...     print((await task.result()).content[0].uri, client.server_raw["icons"])
            desk://report [{'src': 'https://example.com/desk.png'}]
            """,
            at="python",
        ),
        Heading("The enhanced wrapper"),
        Statement(
            "Beside structured content there is always a text.",
            r"""
            $ toolyard call --json --target sums.py:server add a=1 b=2.5
            …"content":[{"type":"text","text":"{\"sum\":3.5}"}],"structuredContent":{"sum":3.5}}
            """,
            at="python",
        ),
        Statement(
            "A failure has `isError` and no structured content.",
            """
            $ toolyard call --json --target sums.py:server fail
            …"content":[{"type":"text","text":"no"}],"isError":true}
            """,
            at="python",
        ),
        Statement(
            "A result is passed on without a check against the schema.",
            """
            $ toolyard call --target sums.py:lenient misfit
            {"soma":1}…
            $ toolyard call --target sums.py:server misfit
            …does not fit its output schema: "sum" is a required property
            """,
            at="python",
            note="With `lenient_output`, for production; otherwise the author gets an error.",
        ),
        Heading("Six servers"),
        Statement(
            "`sql`: one tool, read-only, idempotent, closed world.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -c '^  mcp__sql__consultar_sql '
            1
            $ toolyard show mcp__sql__consultar_sql --url $GATEWAY/mcp | grep world
            read-only, not destructive, idempotent, closed world
            """,
            at="six",
        ),
        Statement(
            "`memory`: six tools, read-only or destructive.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -o 'memory__[a-z]*_memor[yies]* '
            memory__view_memories memory__save_memory memory__update_memory memory__delete_memory
            memory__list_memories memory__clear_memories memory__search_memories
            $ toolyard show mcp__memory__clear_memories --url $GATEWAY/mcp | grep world
            writes, destructive, idempotent, closed world
            """,
            at="six",
            note="And three more, for searching and for earlier versions.",
        ),
        Statement(
            "`schema`: two tools.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -o 'schema__consultar[a-z_]*'
            schema__consultar_schema schema__consultar_valores_campo
            """,
            at="six",
        ),
        Statement(
            "`sessions`: three tools.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -o 'sessions__[a-z_]*_sessions'
            sessions__search_sessions sessions__list_recent_sessions sessions__semantic_search_sessions
            """,
            at="six",
        ),
        Statement(
            "`render`: three tools, open world.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -o 'render__[cs][a-z_]*'
            render__consultar_logs render__consultar_erros render__status_servicos
            $ toolyard show mcp__render__consultar_logs --url $GATEWAY/mcp | grep world
            read-only, not destructive, idempotent, open world
            """,
            at="six",
        ),
        Statement(
            "`browser`: eleven tools, those for SSW among them.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -o 'browser__browser_[a-z_]*'
            browser__browser_navigate…browser__browser_ssw_login browser__browser_ssw_navigate_option
            """,
            at="six",
            note="The two for SSW are [recipes](servers/browser.md#recipes) in `examples/browser-recipes.toml`.",
        ),
        Statement(
            "All of them, 26, say whether their world is open.",
            """
            >>> async with Client("$GATEWAY/mcp") as client:
            ...     tools = await client.list_all("tools/list")
            ...     print(len(tools), all("openWorldHint" in tool["annotations"] for tool in tools))
            31 True
            """,
            at="six",
            note="Five more than in the document.",
        ),
        Heading("Structured answers"),
        Statement(
            "`sql` answers with nine fields.",
            """
            $ call mcp__sql__consultar_sql sql="SELECT status, count(*) AS n FROM orders GROUP BY status"
            …{"success":true,"error":null,"query_executed":"SELECT…","columns":["status","n"],"rows":[["cancelled",50],…],"row_count":4,…"tables_used":["orders"],"execution_time_ms":…"warning":null…
            """,
            at="six",
        ),
        Statement(
            "A success is Markdown and structured content.",
            """
            $ call mcp__sql__consultar_sql sql="SELECT sum(total) AS total FROM order_totals"
            **1 linha** em … | total | |---| | …,… | Tabelas: order_totals {"success":true,…
            """,
            at="six",
        ),
        Statement(
            "An error is a text, `isError` and no structured content.",
            """
            $ call --json mcp__sql__consultar_sql sql="DELETE FROM orders"
            …"content":[{"type":"text","text":"Não executado: só SELECT e WITH…"}],"isError":true}
            """,
            at="six",
        ),
        Statement(
            "A question in words becomes SQL, which is judged before it runs.",
            """
            $ call mcp__sql__consultar_sql pergunta="Quantos pedidos há?"
            **1 linha** em … SELECT COUNT(*) AS pedidos FROM orders…Avaliando o SQL…
            $ call mcp__sql__consultar_sql pergunta="Apaga os pedidos"
            …Não executado: só SELECT e WITH…O modelo escreveu: DELETE FROM orders
            """,
            at="six",
        ),
        Statement(
            "`consultar_schema`: table, columns with name, type, `nullable`, key; relationships.",
            """
            $ call mcp__schema__consultar_schema tabela=orders
            …"table":"orders",…{"name":"id","type":"INTEGER","nullable":false,"primary_key":true},…"relationships":[…
            """,
            at="six",
            note="The document proposes `columns`; the application's own code, and this, have `fields`.",
        ),
        Statement(
            "`consultar_valores_campo`: table, field, values, their number.",
            """
            $ call mcp__schema__consultar_valores_campo tabela=orders campo=status
            …{"table":"orders","field":"status",…"value_count":4,"values":["cancelled","open","paid","shipped"],…
            """,
            at="six",
            note="Their number is `value_count`, as in the application's own code.",
        ),
        Statement(
            "`consultar_logs`: logs with time, level and message; their number; filters.",
            """
            $ call mcp__render__consultar_logs servico=shop-web nivel=error
            …"level_filter":"error","text_filter":"","total_logs":1,…"logs":[{"timestamp":"…","level":"error",…"message":"Payment…
            """,
            at="six",
            note="`total_logs`, `level_filter` and `text_filter`, as in the application's own code.",
        ),
        Statement(
            "`status_servicos`: services with name, status, last deploy.",
            """
            $ call mcp__render__status_servicos
            …"services":[{"name":"shop-web","ok":true,"status":"live","last_deploy":"…
            """,
            at="six",
        ),
        Statement(
            "`search_sessions`: sessions with id, title, excerpt; their number.",
            """
            $ call mcp__sessions__search_sessions query=atraso
            …{"count":1,"sessions":[{"session_id":"web-2026-0042","title":"Faturas em atraso",…"excerpt":"…
            """,
            at="six",
            note="`session_id`, as in the application's own code.",
        ),
        Heading("What it could not have, and what may come"),
        Statement(
            "For elicitation, progress, resources, prompts and tasks it has makeshifts.",
            as_in=5,
            note="Here are the features themselves, here and in 6 and 7.",
        ),
        Statement(
            "Apps, elicitation by URL, extensions, Streamable HTTP.",
            """
            $ toolyard read --target desk.py:server ui://desk/report
            <p>All is well.</p>
            >>> async with Client(desk.server, on_elicit=lambda page: page.accept() if page.url else None) as client:
            ...     print((await client.call_tool("pay")).text)
            accept
            """,
            at="python",
        ),
        Statement(
            "While it samples, a server can have the model use tools.",
            """
            >>> def think(request):
            ...     print(request.raw["tools"])
            ...     return SampleResult("2", "a model")
            >>> async with Client(desk.server, on_sample=think, capabilities={"sampling": {"tools": {}}}) as client:
            ...     print((await client.call_tool("think")).text)
            [{'name': 'add', …}] 2
            """,
            at="python",
        ),
        Statement(
            "`mcp` is pinned to `>=1.25,<2`.",
            """
            $ python -c "from importlib.metadata import requires; print([r for r in requires('toolyard') if r.startswith('mcp')])"
            ["mcp==…; extra == 'dev'"]
            """,
            at="python",
            otherwise="Toolyard has its own implementation of the protocol and needs no `mcp`; an application may have 1 or 2 beside it.",
        ),
        Statement(
            "Everything speaks Portuguese.",
            """
            $ call mcp__render__consultar_logs horas=99
            Argumentos inválidos para a ferramenta 'consultar_logs': campo 'horas': esperado `int` <= 24
            $ call mcp__schema__consultar_schema tabela=order_items
            # order_items O que há em um pedido.…| campo | tipo |…
            $ toolyard show mcp__browser__browser_ssw_navigate_option --url $GATEWAY/mcp | grep SSW
            mcp__browser__browser_ssw_navigate_option: Ir a uma opção do SSW Abre uma opção do menu do SSW pelo número. Antes, é preciso browser_ssw_login.
            """,
            at="six",
        ),
    ),
)
