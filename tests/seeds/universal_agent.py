"""003: the MCP servers of universal_agent."""

from tests.seeds.statements import Heading, Seed, Stage, Statement

CONFIG = """\
[gateway]
view = "all"

[servers.composio]
type = "composio"

[servers.local_toolkit]
module = "local_toolkit"
options = { workspace = "work", allow = "127.0.0.1", host_delay = 0 }

[servers.video_audio]
module = "video_audio"
options = { workspace = "work" }

[servers.youtube]
module = "youtube"
options = { workspace = "work", allow = "127.0.0.1" }

[servers.zai_vision]
module = "zai_vision"
options = { workspace = "work" }
"""

AGENT = Stage(
    "agent",
    "Composio, articles on the web, and Z.AI are emulated. `DEFAULT_USER_ID` is `u42`, `Z_AI_VISION_MODEL` is"
    " `glm-4.6v`.",
    files={"toolyard.toml": CONFIG},
    environment={"DEFAULT_USER_ID": "u42", "Z_AI_MODE": "ZAI", "Z_AI_VISION_MODEL": "glm-4.6v"},
    emulators=("news", "composio", "zai", "logfire"),
    imports="from toolyard import Client\nfrom toolyard.workbench.bridge import WorkbenchBridge",
)

STORY = Stage(
    "story",
    "The agents that come with Toolyard, with a scripted model and the same servers. Logfire is emulated; there"
    " is a `LOGFIRE_TOKEN`.",
    hidden={"toolyard.toml": CONFIG.replace('view = "all"', "")},
    environment={"DEFAULT_USER_ID": "u42"},
    emulators=("news", "composio", "logfire"),
)

DOTENV = Stage(
    "dotenv",
    "A folder with an `.env`:",
    files={
        "toolyard.toml": """\
env_file = ".env"

[servers.composio]
type = "composio"
"""
    },
    hidden={".env": "COMPOSIO_API_KEY=ak_of_nobody\n"},
)

UNIVERSAL_AGENT = Seed(
    "003",
    "The MCP servers of universal_agent",
    (AGENT, STORY, DOTENV),
    (
        Heading("Six servers"),
        Statement(
            "`local_toolkit`, `composio`, `edgartools`, `video_audio`, `youtube`, `zai_vision`.",
            """
            $ toolyard list --url $GATEWAY/mcp | grep -o '^  mcp__[a-z_]*__' | uniq -c
            … mcp__composio__ 11 mcp__local_toolkit__ 27 mcp__video_audio__ 6 mcp__youtube__ 8 mcp__zai_vision__
            $ toolyard add --list edgartools
            …edgartools Companies, filings and figures of the SEC pypi EDGAR_IDENTITY…
            """,
            at="agent",
            note="`toolyard add edgartools` installs it in an environment of its own.",
        ),
        Statement(
            "`local_toolkit` is a program over stdio.",
            """
            >>> async with Client(["toolyard", "run", "local_toolkit"]) as client:
            ...     print(client.server.name, len(await client.list_tools()))
            local_toolkit 11
            """,
            at="agent",
        ),
        Heading("`local_toolkit`"),
        Statement(
            "`save_corpus` counts what it saved.",
            """
            $ call mcp__local_toolkit__save_corpus workspace_path=. articles='[{"url": "https://a.example", "title": "A", "content": "abc", "status": "success"}, {"url": "https://b.example", "status": "failed"}]'
            {"success":true,"corpus_path":"…/expanded_corpus.json","articles_saved":2,"successful":1,"failed":1,"total_content_bytes":3}
            """,
            at="agent",
        ),
        Statement(
            "Its `workspace_path` is an absolute path.",
            """
            $ call mcp__local_toolkit__save_corpus workspace_path=$FOLDER/work/session articles='[]'
            {"success":true,"corpus_path":"…/work/session/expanded_corpus.json",…
            """,
            at="agent",
            note="Below `workspace`, which is the folder above the sessions.",
        ),
        Statement(
            "Pages are read by `webReader`, five at a time.",
            """
            $ call mcp__local_toolkit__crawl_parallel urls='["$NEWS_URL/5"]' session_dir=. batch_size=5
            {"total":1,"successful":1,…"title":"Tea, part 5",…
            """,
            at="agent",
            otherwise="`webReader` is a tool of Z.AI's remote server, none of these six. `crawl_parallel` reads pages, in batches of five if you like, and keeps them.",
        ),
        Statement(
            "`write_local_file` says how much it wrote, and where.",
            """
            $ call mcp__local_toolkit__write_local_file path=work_products/report.html content='<h1>Tea</h1>'
            Successfully wrote 12 chars to work_products/report.html…
            """,
            at="agent",
        ),
        Statement(
            "Its path is relative or absolute.",
            """
            $ call mcp__local_toolkit__write_local_file path=$FOLDER/work/a.md content=tea
            Successfully wrote 3 chars to …/work/a.md…
            $ call mcp__local_toolkit__write_local_file path=/tmp/a.md content=tea
            Error: '/tmp/a.md' is outside the workspace…
            """,
            at="agent",
            note="A model's text must not decide which file of the machine is replaced, so outside of the workspace nothing is written.",
        ),
        Statement(
            "`workbench_download` says what went where.",
            """
            $ call mcp__local_toolkit__workbench_upload local_path=work_products/report.html remote_path=/home/user/report.html
            Successfully uploaded …/report.html to /home/user/report.html.…
            $ call mcp__local_toolkit__workbench_download remote_path=/home/user/report.html local_path=b.html
            Successfully downloaded /home/user/report.html to …/b.html. Local path: …/b.html…
            """,
            at="agent",
        ),
        Statement(
            "It takes two forms of reply: the content, or a file that the SDK has fetched.",
            """
            $ composio gives content
            $ call mcp__local_toolkit__workbench_download remote_path=/home/user/report.html local_path=c.html
            Successfully downloaded…
            $ composio gives local
            $ call mcp__local_toolkit__workbench_download remote_path=/home/user/report.html local_path=d.html
            Successfully downloaded…
            """,
            at="agent",
            note="No SDK is involved, so a path on its machine is not opened; the file is read from the workbench.",
        ),
        Statement("`workbench_upload` says what went where.", as_in=8),
        Statement(
            "It uploads by code in `COMPOSIO_REMOTE_WORKBENCH` that decodes base64.",
            """
            $ composio ran PGgxPlRlYTwvaDE+
            …("…", "PGgxPlRlYTwvaDE+")
            """,
            at="agent",
        ),
        Statement(
            "`upload_to_composio` gives `s3_key`, `s3_url`, `local_path`.",
            """
            $ call mcp__local_toolkit__upload_to_composio path=work_products/report.html
            {"s3key":…"local_path":"…/report.html",…"s3_key":"…/report.html","s3_url":"http…
            """,
            at="agent",
        ),
        Statement(
            "`GMAIL_SEND_EMAIL` takes the key as an attachment.",
            """
            $ composio connects u42 gmail
            >>> async with Client("$GATEWAY/mcp") as client:
            ...     file = {"s3key": "$S3_KEY", "mimetype": "text/html", "name": "report.html"}
            ...     mail = {"recipient_email": "bo@example.com", "body": "Tea", "attachment": file}
            ...     print((await client.call_tool("mcp__composio__GMAIL_SEND_EMAIL", mail)).text)
            …"recipient_email": "bo@example.com"…
            $ composio mails
            …"attachment": "<h1>Tea</h1>"…
            """,
            at="agent",
            note="Composio wants an object `{s3key, mimetype, name}`.",
        ),
        Statement(
            "`crawl_parallel` fetches in parallel, cleans, and saves Markdown in `search_results/`.",
            """
            $ call mcp__local_toolkit__crawl_parallel urls='["$NEWS_URL/3", "$NEWS_URL/4", "$NEWS_URL/0"]' session_dir=.
            {"total":3,"successful":2,"failed":1,…"path":"…/search_results/crawl_….md",…"errors":[{…HTTP status 404…
            """,
            at="agent",
        ),
        Statement(
            "`WorkbenchBridge(client, user_id)` has `upload` and `download`.",
            """
            >>> bridge = WorkbenchBridge(user_id="u42")
            >>> print(bridge.upload("work/a.md", "/home/user/a.md"))
            >>> print(bridge.download("/home/user/a.md", "b.md"))
            {'success': True, 'local_path': …'remote_path': '/home/user/a.md',…} {'success': True,…
            """,
            at="agent",
        ),
        Heading("`composio`"),
        Statement(
            "It is HTTP, at the address that the session gives, with the key in `x-api-key`.",
            """
            $ call mcp__composio__COMPOSIO_SEARCH_TOOLS queries='[{"use_case": "send an email"}]'
            {"success":true,…
            $ composio asked
            …POST /api/v3.1/tool_router/session {…"user_id": "u42"…} POST /tool_router/trs_…/mcp…
            """,
            at="agent",
        ),
        Statement(
            "Its tools, over 500, are `mcp__composio__<SLUG>`.",
            """
            $ call mcp__composio__GMAIL_SEND_EMAIL recipient_email=bo@example.com body=Tea
            …"recipient_email":"bo@example.com"…
            """,
            at="agent",
        ),
        Statement(
            "`COMPOSIO_SEARCH_NEWS` and `COMPOSIO_SEARCH_WEB` search.",
            """
            $ call mcp__composio__COMPOSIO_GET_TOOL_SCHEMAS tool_slugs='["COMPOSIO_SEARCH_NEWS_SEARCH"]'
            {"tool_schemas":{"COMPOSIO_SEARCH_NEWS_SEARCH":…
            $ call mcp__composio__COMPOSIO_SEARCH_NEWS_SEARCH query=tea
            …"news_results"…
            """,
            at="agent",
            otherwise="Composio has no such tools; it names them `COMPOSIO_SEARCH_NEWS_SEARCH` and `COMPOSIO_SEARCH_SEARCH`. An agent that searches first, as it must, learns that.",
        ),
        Statement(
            "`COMPOSIO_MULTI_EXECUTE_TOOL` takes `{slug, params}`.",
            """
            $ call mcp__composio__COMPOSIO_MULTI_EXECUTE_TOOL tools='[{"slug": "COMPOSIO_SEARCH_NEWS_SEARCH", "params": {"query": "tea"}}]'
            …"news_results"…
            """,
            at="agent",
        ),
        Statement(
            "`RUBE_SEARCH_TOOLS(intent=…)` finds tools.",
            """
            $ toolyard call --url $GATEWAY/mcp/composio COMPOSIO_SEARCH_TOOLS --args '{"intent": "send an email"}'
            {…"primary_tool_slugs":["GMAIL_SEND_EMAIL",…
            """,
            at="agent",
            note="As `RUBE_…` in the [dialect](guides/dialects.md#composio-and-rube) `rube`.",
        ),
        Statement(
            "The schemas come with what is found; the agent builds its arguments from them.",
            """
            $ call mcp__composio__COMPOSIO_SEARCH_TOOLS queries='[{"use_case": "send an email"}]'
            …"tool_schemas":{"GMAIL_SEND_EMAIL":{…"input_schema":{"type":"object","properties":{"recipient_email":{…
            $ call mcp__composio__COMPOSIO_GET_TOOL_SCHEMAS tool_slugs='["SLACK_SEND_MESSAGE"]'
            {"tool_schemas":{"SLACK_SEND_MESSAGE":{…"input_schema":{"type":"object","properties":{…
            """,
            at="agent",
        ),
        Statement(
            "`COMPOSIO_REMOTE_WORKBENCH(code_to_execute, session_id)` runs Python.",
            """
            $ call mcp__composio__COMPOSIO_REMOTE_WORKBENCH code_to_execute='print(1 + 1)'
            {"stdout":"2\\n",…"session":{"id":"trs_…
            """,
            at="agent",
        ),
        Statement(
            "`CODEINTERPRETER_GET_FILE_CMD` and `…_WRITE_FILE_CMD` move files.",
            """
            $ composio executed CODEINTERPRETER
            CODEINTERPRETER_GET_FILE_CMD…
            """,
            at="agent",
            otherwise="Composio has no `…_WRITE_FILE_CMD`. `workbench_upload` writes there, and the [`workbench`](servers/workbench.md) server has a tool of that name.",
        ),
        Statement(
            "Mail and Slack take `to`, `subject`, `body`, `attachments`, `channel`, `text`.",
            """
            $ call mcp__composio__COMPOSIO_GET_TOOL_SCHEMAS tool_slugs='["GMAIL_SEND_EMAIL", "SLACK_SEND_MESSAGE"]'
            …"recipient_email":…"body":…"subject":…"attachment":…"channel":…
            """,
            at="agent",
            otherwise="Composio's tools take `recipient_email` and one `attachment`, and refuse other names. Arguments pass unchanged, and their schema comes with the search.",
        ),
        Statement(
            "A report is written, uploaded and mailed, all as one user.",
            """
            $ composio connects u42 gmail
            $ toolyard agent "Write a comprehensive report on tea news and mail it to bo@example.com."
            The report on tea is on its way to bo@example.com.…
            $ composio mails
            {"to": "bo@example.com", "attachment": "<h1>Tea</h1>…
            $ composio users
            u42
            """,
            at="story",
        ),
        Heading("Names and configuration"),
        Statement("Tools are `mcp__<server>__<tool>`.", as_in=1),
        Statement(
            "`ClaudeAgentOptions` names servers over HTTP and stdio.",
            """
            $ head -11 serve.out
            …"url": "http…/mcp"…"command": …"args": ["stdio", "--config", …
            """,
            at="agent",
        ),
        Statement(
            "`report-creation-expert` has four tools: crawl, save, write, upload.",
            """
            $ toolyard agent --list --json
            …"report-creation-expert"…"local_toolkit/crawl_parallel"…"local_toolkit/save_corpus"…"local_toolkit/write_local_file"…"local_toolkit/upload_to_composio"…
            """,
            at="agent",
        ),
        Heading("Traces"),
        Statement(
            "Calls are traced by Logfire.",
            """
            $ logfire spans "execute_tool mcp__local_toolkit__crawl_parallel"
            execute_tool mcp__local_toolkit__crawl_parallel, by pylf_v1_eu_0123456789abcdef
            """,
            at="story",
        ),
        Statement(
            "The tree is iteration, tool call, MCP request, HTTP request, tool result.",
            """
            $ toolyard trace last --json
            …"conversation_iteration_1"…"tool_call"…"tool_result"…"mcp.request"…"httpx.request"…
            """,
            at="story",
            note="As [tags](guides/traces.md#names-of-spans-made-by-hand); the spans have the names of OpenTelemetry.",
        ),
        Statement(
            "A result has `content_size` and `is_error`.",
            """
            $ toolyard trace last --json
            …"content_size":…"is_error":…
            """,
            at="story",
        ),
        Heading("Who may use what"),
        Statement(
            "Main may not save a corpus; the expert may neither mail nor run code, and only reads at Composio.",
            """
            $ toolyard access --tools --config $CHECKOUT/examples/access.toml
            …local_toolkit/save_corpus · ● ·…composio/GMAIL_SEND_EMAIL ● · · composio/COMPOSIO_REMOTE_WORKBENCH ● · ·…
            """,
            at="agent",
        ),
        Statement(
            "The agents that come along hold to it.",
            """
            $ toolyard trace last | grep -A1 'GMAIL_SEND_EMAIL' | grep '!'
            ! tool_error: Tool function 'mcp__composio__GMAIL_SEND_EMAIL' not found.…
            """,
            at="story",
        ),
        Statement(
            "Composio's errors are `{error, successful: false}`.",
            """
            $ call --json mcp__composio__OUTLOOK_OUTLOOK_SEND_EMAIL to_email=bo@example.com subject=Tea body=Tea
            …"structuredContent":{"error":"No connected account…","successful":false},"isError":true}
            """,
            at="agent",
        ),
        Heading("Keys and paths"),
        Statement(
            "`COMPOSIO_API_KEY` is the key.",
            """
            $ COMPOSIO_API_KEY= toolyard check
            …[servers.composio] has no 'api_key' and COMPOSIO_API_KEY is not set…
            """,
            at="agent",
        ),
        Statement(
            "It is in `.env`.",
            """
            $ toolyard check
            …COMPOSIO_API_KEY…
            """,
            at="dotenv",
            note="Only if the configuration says so: a served gateway reads no file that nobody named.",
        ),
        Statement(
            "Local and remote paths are not interchangeable.",
            """
            $ call mcp__local_toolkit__write_local_file path=/home/user/report.html content=tea
            Error: '/home/user/report.html' is outside the workspace…
            """,
            at="agent",
        ),
        Heading("Performance"),
        Statement(
            "Pages are crawled in batches of ten, until ten are had.",
            """
            $ toolyard trace last | grep -A1 'tool mcp__local_toolkit__crawl' | tail -1
            = total 25, successful 10, failed 3, skipped 12
            $ news read
            13 articles
            """,
            at="story",
        ),
        Statement(
            "Results come to the agent, not to the workbench: `sync_response_to_workbench` is false.",
            """
            $ call mcp__composio__COMPOSIO_MULTI_EXECUTE_TOOL sync_response_to_workbench=true tools='[{"tool_slug": "COMPOSIO_SEARCH_NEWS_SEARCH", "arguments": {"query": "tea"}}]'
            …"news_results":[…
            """,
            at="agent",
        ),
        Statement(
            "Those over 5 MB go to the workbench.",
            """
            $ composio session
            …"workbench": {"auto_offload_threshold": 5000000}…
            """,
            at="agent",
            note="Composio does it by itself: the session says from which size on.",
        ),
        Heading("Variables"),
        Statement("`DEFAULT_USER_ID` is the user at Composio.", as_in=16),
        Statement(
            "`LOGFIRE_TOKEN` turns traces on.",
            """
            $ logfire spans "tools/call mcp__local_toolkit__save_corpus"
            tools/call mcp__local_toolkit__save_corpus, by pylf_v1_eu_0123456789abcdef
            """,
            at="agent",
            note="For agents and for the gateway, unless the file says something about `traces`.",
        ),
        Statement(
            "`Z_AI_API_KEY` and `Z_AI_MODE` are for vision.",
            """
            $ python -c "from PIL import Image; Image.new('RGB', (60, 40)).save('work/a.png')"
            $ call mcp__zai_vision__analyze_image image_source=a.png prompt=What?
            I see PNG 60x40.…
            """,
            at="agent",
        ),
        Statement(
            "The model is GLM-4.6V.",
            """
            $ zai asked
            glm-4.6v
            """,
            at="agent",
            note="By `Z_AI_VISION_MODEL`; without it glm-5.3-flash, as in Z.AI's own server.",
        ),
        Heading("Media"),
        Statement(
            "`video_audio` edits with ffmpeg.",
            """
            $ ffmpeg -v error -f lavfi -i testsrc=size=64x48:rate=5:duration=2 work/clip.mp4
            $ call mcp__video_audio__trim_video video_path=clip.mp4 output_video_path=part.mp4 start_time=0 end_time=1
            Video trimmed successfully to part.mp4 (mp4, h264 64x48 5 fps, 1 s,…
            """,
            at="agent",
            needs="ffmpeg",
        ),
        Statement(
            "`youtube` downloads with yt-dlp.",
            """
            $ news serves work/clip.mp4
            $ call mcp__youtube__download_video url=$NEWS_URL/clip.mp4
            Title: clip Saved: downloads/videos/clip [clip].mp4…
            """,
            at="agent",
            needs="ffmpeg",
        ),
    ),
)
