"""000: Composio's flow of queries and sessions, as the Suna fork has it."""

from tests.seeds.statements import Heading, Seed, Stage, Statement

THINGS = '''"""A server whose answers have the size that is asked for."""

from toolyard.kit import Server

server = Server("things")


@server.tool(read_only=True)
async def numbers(count: int) -> list[int]:
    """Count."""
    return list(range(count))


@server.tool(read_only=True)
async def words(bytes: int) -> str:
    """Say something long."""
    return "x" * bytes


@server.tool(read_only=True)
async def find_contact(name: str) -> str:
    """Find a contact by name."""
    return name


@server.tool(read_only=True)
async def dump_contacts() -> str:
    """Dump all contacts."""
    return ""


@server.tool(read_only=True)
async def list_all_contacts() -> str:
    """List all contacts."""
    return ""
'''

SUNA_STAGE = Stage(
    "suna",
    "Composio, a store at Supabase, a server `things` whose tools answer with as much as they are told to,"
    " and Suna's own tools in front of them:",
    files={
        "toolyard.toml": """\
[gateway]
dialects = ["suna", "native"]

[servers.composio]
type = "composio"

[servers.things]
module = "things.py:server"

[store]
url = "supabase:"
links = "public"
"""
    },
    hidden={"things.py": THINGS},
    environment={"THREAD": "page"},
    emulators=("composio", "supabase"),
)

LABS = Stage(
    "labs",
    "The endpoints that the fork calls, which Composio does not document:",
    files={
        "toolyard.toml": """\
[gateway]
dialects = ["suna", "native"]
search_first = false

[servers.composio]
type = "composio"
api = "labs"
"""
    },
    environment={"THREAD": "page"},
    emulators=("composio",),
)


FORK = Stage(
    "fork",
    "A server over HTTP as the fork has them, with an address that begins sessions:",
    files={
        "toolyard.toml": """\
[gateway]
view = "all"

[servers.things]
module = "things.py:server"

[servers.fork]
url = "${FORK_URL}/mcp"
session_url = "${FORK_URL}/session"
"""
    },
    environment={"THREAD": "page"},
    hidden={"things.py": THINGS},
    emulators=("fork",),
)

BUCKET = Stage(
    "bucket",
    "As the first, with another bucket:",
    hidden={
        **SUNA_STAGE.hidden,
        "toolyard.toml": SUNA_STAGE.config.replace("[gateway]", "[gateway]\nsearch_first = false"),
    },
    environment={"SUPABASE_TOOL_OUTPUT_BUCKET": "mine"},
    emulators=SUNA_STAGE.emulators,
)

SUNA = Seed(
    "000",
    "Composio's flow of queries and sessions (Suna)",
    (SUNA_STAGE, LABS, FORK, BUCKET),
    (
        Heading("Search"),
        Statement(
            "A search takes `queries` with a `use_case`, perhaps a `category` and an `app_slug`; none is refused.",
            """
            $ call search_mcp_servers queries='[{"use_case": "list issues", "app_slug": "github"}]'
            …"toolkit_slug":"github"…
            $ call search_mcp_servers queries='[]'
            …'queries'… Valid example: search_mcp_servers({…
            """,
            at="suna",
        ),
        Statement(
            "The reply has the query, the results, the session and the source.",
            """
            $ call search_mcp_servers queries='[{"use_case": "list the issues of a repository"}]'
            {"source":"composio","session":{"id":"trs_…","ttl":3600.0,…"generated":true,…},"results":[{"query":{…},"results":[…
            """,
            at="suna",
            note="Grouped by query, as Composio's own replies are.",
        ),
        Statement(
            "Search and session are `/api/v3/labs/tool_router/search-tools` and `/session`.",
            """
            $ call search_mcp_servers queries='[{"use_case": "list issues"}]'
            …"source":"composio"…
            $ composio asked
            …POST /api/v3/labs/tool_router/session…POST /api/v3/labs/tool_router/search-tools…
            """,
            at="labs",
            note="Composio documents other endpoints now; they are the default.",
        ),
        Statement(
            "A result has name, description, tags and the kinds of login.",
            """
            $ call search_mcp_servers query=github
            [{"name":"GitHub",…"description":…"auth_schemes":["OAUTH2"],"tags":["Developer Tools",…
            """,
            at="suna",
        ),
        Statement(
            "If the search fails or finds nothing, a local one answers.",
            """
            $ composio finds nothing
            $ call search_mcp_servers queries='[{"use_case": "find a contact"}]'
            {"source":"fallback",…"toolkit_slug":"things"…
            $ composio fails search 500
            $ call search_mcp_servers queries='[{"use_case": "find a contact"}]'
            {"source":"fallback",…"toolkit_slug":"things"…
            """,
            at="suna",
        ),
        Statement(
            "Then the session has an id of its own, `local-<uuid>`.",
            """
            $ composio fails * 500 99
            $ THREAD=new call search_mcp_servers queries='[{"use_case": "find a contact"}]'
            …"session":{"id":"local-…-…-…-…-…",…
            $ composio recovers
            """,
            at="suna",
        ),
        Heading("Sessions"),
        Statement(
            'A session is begun with `{"generate_id": true}`; its id, TTL in seconds and `generated` are in each reply.',
            """
            $ call mcp__fork__send text=hello
            hello
            $ fork asked
            POST /session {"generate_id": true}
            tools/call x-composio-session-id: sess-1
            """,
            at="fork",
        ),
        Statement(
            "Each thread has its session, which is kept.",
            """
            $ call mcp__fork__send text=again
            again
            $ THREAD=other call mcp__fork__send text=hello
            hello
            $ fork asked
            tools/call x-composio-session-id: sess-1
            POST /session {"generate_id": true}
            tools/call x-composio-session-id: sess-2
            """,
            at="fork",
        ),
        Statement(
            "Calls over HTTP carry it in `x-composio-session-id`; a `local-` one is not sent.",
            """
            $ composio connects local gmail
            $ call mcp__composio__GMAIL_SEND_EMAIL recipient_email=a@example.com body=x
            {…"recipient_email":"a@example.com"…
            $ composio fails labs.session 500 9
            $ THREAD=new call mcp__composio__GMAIL_SEND_EMAIL recipient_email=a@example.com body=x
            {…"recipient_email":"a@example.com"…
            $ composio asked execute
            POST /api/…/tools/execute/GMAIL_SEND_EMAIL x-composio-session-id: trs_…
            POST /api/…/tools/execute/GMAIL_SEND_EMAIL
            """,
            at="labs",
        ),
        Statement(
            "401, 410 or a message of an expired session: it is renewed, and the call runs again.",
            """
            $ fork refuses 401
            $ call mcp__fork__send text=one
            one
            $ fork refuses 410
            $ call mcp__fork__send text=two
            two
            $ fork refuses "an error result"
            $ call mcp__fork__send text=three
            three
            $ fork asked
            …sess-1 POST /session {"generate_id": true} tools/call x-composio-session-id: sess-3 tools/call…
            """,
            at="fork",
        ),
        Heading("Tools"),
        Statement(
            "The interface marks which of the found tools are enabled.",
            """
            $ call create_credential_profile toolkit_slug=things profile_name=Mine
            {…"profile_id":…
            $ call configure_profile_for_agent profile_id=$PROFILE_ID enabled_tools='["numbers", "words"]'
            {…"callable_as":{…
            $ call search_mcp_servers queries='[{"use_case": "count", "app_slug": "things"}]'
            …"toolkit_slug":"things",…"enabled_tools":["numbers","words"]…
            """,
            at="suna",
            note="Toolyard has no interface of its own; replies mark them.",
        ),
        Statement(
            "Recommended tools are first; what dumps or lists everything is last.",
            """
            $ call search_tools queries='[{"use_case": "contacts"}]'
            …find_contact…list_all_contacts…
            """,
            at="suna",
        ),
        Heading("Results"),
        Statement(
            "Over 4 kB or 20 items, a summary and a preview take the place of a result.",
            """
            $ call mcp__things__numbers count=20
            {"result":[0,1,2,…,19]}
            $ call mcp__things__numbers count=21
            …"truncated":true,"summary":{"approx_size_bytes":54,"kind":"list","item_count":21,…"preview":[0,1,2,…
            $ call mcp__things__words bytes=4100
            …"truncated":true,"summary":{"approx_size_bytes":4100,…
            """,
            at="suna",
        ),
        Statement(
            "So it is with every answer, whatever it costs.",
            """
            $ call mcp__things__numbers count=21
            {"result":[0,1,2,…,20]}
            """,
            at="fork",
            otherwise="In the dialect, yes. Elsewhere a result is replaced only if that saves half of its tokens: a summary of 21 numbers is longer than they are.",
        ),
        Statement(
            "The whole goes to `tool-outputs` at Supabase, with a link to it.",
            """
            $ call mcp__things__numbers count=900
            …"storage":{"type":"supabase","bucket":"tool-outputs",…"url":"http…/tool-outputs/local/mcp/….json"…
            $ curl -si $URL
            HTTP/1.1 200 OK Content-Type: application/json…[0,1,2,…
            """,
            at="suna",
        ),
        Statement(
            "`SUPABASE_TOOL_OUTPUT_BUCKET` names another bucket.",
            """
            $ call mcp__things__numbers count=900
            …"bucket":"mine"…
            """,
            at="bucket",
        ),
        Statement(
            "The bucket is made if it is missing, and public.",
            """
            $ supabase buckets
            tool-outputs public …
            """,
            at="suna",
        ),
        Heading("How an agent uses it"),
        Statement(
            "Search comes before any execution, and only exact names of the discovery are enabled.",
            """
            $ THREAD=mail call mcp__composio__GMAIL_SEND_EMAIL recipient_email=a@example.com body=x
            …search_mcp_servers…
            $ THREAD=mail call create_credential_profile toolkit_slug=gmail profile_name=Work
            {…"profile":{"profile_id":"…"connection_link":"http…
            $ THREAD=mail call discover_user_mcp_servers profile_id=$PROFILE_ID
            …is not connected yet…
            $ composio agrees
            $ THREAD=mail call discover_user_mcp_servers profile_id=$PROFILE_ID
            {…"tools":[{"name":"GMAIL_SEND_EMAIL",…
            $ THREAD=mail call configure_profile_for_agent profile_id=$PROFILE_ID enabled_tools='["SEND"]'
            …'SEND'…discover_user_mcp_servers…
            $ THREAD=mail call configure_profile_for_agent profile_id=$PROFILE_ID enabled_tools='["GMAIL_SEND_EMAIL"]'
            {…"callable_as":{"GMAIL_SEND_EMAIL":"GMAIL_SEND_EMAIL"}}
            $ THREAD=mail call GMAIL_SEND_EMAIL recipient_email=a@example.com body=x
            {…"recipient_email":"a@example.com"…
            """,
            at="suna",
        ),
        Statement("The runtime sends the session and tries again when it has expired.", as_in=10),
        Statement(
            "Of a shortened result the summary and preview are used; the whole is fetched only when needed.",
            """
            $ call mcp__things__numbers count=21
            …"summary":{…"preview":[…"storage":{…"url":"http…
            """,
            at="suna",
        ),
        Heading("How a backend uses it"),
        Statement(
            "Calls in Python go by one search and one session of the service, and by one executor.",
            """
            >>> async with Client("toolyard.toml") as client:
            ...     found = await client.call_tool("search_mcp_servers", {"queries": [{"use_case": "list issues"}]})
            ...     print(found.structured["session"]["id"])
            trs_…
            """,
            at="suna",
        ),
        Statement(
            "The log tells of sessions begun, renewed and cached, retries, uploads and fallbacks.",
            """
            $ grep -o 'toolyard.events: .*' gateway.log
            …session begun…server=fork…session renewed…reason="HTTP 401"…
            $ curl -s $GATEWAY/metrics | grep '^toolyard_events.*session'
            …session_begun…session_attached…toolyard_events_total{event="session_renewed",server="fork",reason="HTTP 401"} 1…
            """,
            at="fork",
        ),
        Heading("Tests it recommends"),
        Statement("Search: found, fallback, nothing found.", as_in=5),
        Statement("The header is there if, and only if, the session is not local.", as_in=9),
        Statement("A big result: summary, truncation, upload.", as_in=15),
        Statement(
            "The whole flow for GitHub: search, login, discovery, execution, summary.",
            """
            $ call search_mcp_servers queries='[{"use_case": "list the issues of a repository"}]'
            …"toolkit_slug":"github"…
            $ call create_credential_profile toolkit_slug=github profile_name=Code
            {…"connection_link":"http…
            $ composio agrees
            $ call discover_user_mcp_servers profile_id=$PROFILE_ID
            …"GITHUB_LIST_ISSUES"…
            $ call configure_profile_for_agent profile_id=$PROFILE_ID enabled_tools='["GITHUB_LIST_ISSUES"]'
            {…"callable_as":{"GITHUB_LIST_ISSUES":"GITHUB_LIST_ISSUES"}}
            $ call GITHUB_LIST_ISSUES owner=acme repo=shop
            …"truncated":true,"summary":…
            """,
            at="suna",
        ),
        Statement("A 401 renews the session by itself.", as_in=10),
        Statement(
            "The log has `approx_size_bytes` of results, before and after.",
            r"""
            $ grep result_shortened gateway.log | tail -1
            …approx_size_bytes_before…approx_size_bytes_after…
            $ grep -o 'event=[a-z_]*' gateway.log | sort -u
            event=result_shortened event=search_fallback event=session_begun…event=upload
            """,
            at="suna",
        ),
        Statement("Objects in `tool-outputs` can be audited, and the bucket is public.", as_in=17),
        Heading("When something is wrong"),
        Statement(
            "“Tool function … not found” means that the search was left out, and says so.",
            """
            $ call custom_github_GITHUB_LIST_ISSUES owner=acme repo=shop
            …Tool function 'custom_github_GITHUB_LIST_ISSUES' not found…search_mcp_servers…
            """,
            at="suna",
        ),
        Statement("401 and 410 are tried again by themselves.", as_in=10),
        Statement(
            "If uploads fail, the bucket is to be looked at.",
            """
            $ supabase fails
            $ call mcp__things__numbers count=21
            …"storage":{"type":"supabase","error":"The full result was not stored: the store answers with HTTP 500"}…
            $ grep -o 'WARNING.*not stored.*' gateway.log
            WARNING…numbers…was not stored: the store answers with HTTP 500…
            $ supabase recovers
            """,
            at="suna",
        ),
    ),
)
