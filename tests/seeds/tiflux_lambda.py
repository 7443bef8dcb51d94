"""002: the TiFlux server as a function of AWS Lambda."""

import sys
from pathlib import Path

from tests.seeds.shell import ROOT
from tests.seeds.statements import Heading, Seed, Stage, Statement

GET_TICKET = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_ticket","arguments":{"ticket_number":"1"}}}'
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},'
    '"clientInfo":{"name":"curl","version":"8"}}}'
)
NPX = f"""\
#!/bin/sh
# The checkout's own mcp-remote, since nothing is fetched here; loopback has no TLS.
shift 2
exec "{Path(sys.executable).with_name("node")}" "{ROOT}/build/npm/node_modules/mcp-remote/dist/proxy.js" "$@" --allow-http
"""

CLAUDE_DESKTOP = """\
{
  "mcpServers": {
    "tiflux": {
      "command": "npx",
      "args": ["-y", "mcp-remote", "${LAMBDA_URL}/mcp", "--header", "x-tiflux-api-key:${TIFLUX_API_KEY}"],
      "env": {"TIFLUX_API_KEY": "${TIFLUX_API_KEY}"}
    }
  }
}
"""

LAMBDA = Stage(
    "lambda",
    "TiFlux is emulated, with a tenant for each of the keys `abc123` and `xyz789`. `lambda starts` runs the zip in"
    " AWS's emulator, behind a stand-in for a Function URL, `$LAMBDA_URL`.",
    files={"claude_desktop_config.json": CLAUDE_DESKTOP},
    hidden={
        "bin/npx": NPX,
        "ticket.json": GET_TICKET,
        "initialize.json": INITIALIZE,
        "list.json": '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    },
    emulators=("tiflux", "lambda"),
)

POST = "curl -s $LAMBDA_URL/mcp -H 'Content-Type: application/json'"

TIFLUX_LAMBDA = Seed(
    "002",
    "TiFlux as a function of AWS Lambda",
    (LAMBDA,),
    (
        Heading("One endpoint for many clients"),
        Statement(
            "The local server becomes one endpoint, as a function.",
            """
            $ toolyard deploy lambda tiflux
            build/lambda/function.zip 8.… MB…build/lambda/template.yaml checked by cfn-lint…sam deploy --template-file build/lambda/template.yaml…
            $ lambda starts
            $ curl -s $LAMBDA_URL/health
            …"status":"ok"…
            """,
            at="lambda",
        ),
        Statement(
            "One `/mcp` for all; each client brings a key in `x-tiflux-api-key`.",
            f"""
            $ {POST} -H 'x-tiflux-api-key: abc123' -d @ticket.json
            …"title":"… t0002"…
            $ {POST} -H 'x-tiflux-api-key: xyz789' -d @ticket.json
            …"title":"… t0003"…
            """,
            at="lambda",
        ),
        Statement(
            "The key is taken from the header and passed to TiFlux.",
            """
            $ tiflux asked
            GET /tickets/1 Authorization: Bearer xyz789
            """,
            at="lambda",
            note="As `Bearer`, to api.tiflux.com: so TiFlux wants it now.",
        ),
        Statement(
            "Without it: 401.",
            f"""
            $ {POST} -i -d @ticket.json
            HTTP/1.1 401 …"message":"Missing key: send it in the header 'x-tiflux-api-key'…
            """,
            at="lambda",
        ),
        Statement(
            "No state: each request stands alone.",
            f"""
            $ {POST} -H 'x-tiflux-api-key: abc123' -H 'mcp-session-id: of-yesterday' -d @ticket.json
            …"title":"… t0002"…
            """,
            at="lambda",
            note="An id that nobody knows counts as none.",
        ),
        Heading("Security"),
        Statement(
            "The key is never stored.",
            """
            $ curl -s $LAMBDA_URL/health
            …"status":"ok"…
            $ lambda remembers abc123 xyz789
            nothing
            $ grep -c 'abc123\\|xyz789' function.log build/lambda/template.yaml
            function.log:0 build/lambda/template.yaml:0
            """,
            at="lambda",
        ),
        Statement(
            "Nothing is shared between two clients.",
            as_in=2,
        ),
        Statement(
            "The log has a hash of the key, not the key.",
            """
            $ grep -o '"key":"[0-9a-f]*"' function.log
            "key":"…"
            """,
            at="lambda",
        ),
        Statement(
            "The log has time, request and tool.",
            """
            $ grep get_ticket function.log
            {"ts":"…",…"request_id":"…",…"tool":"get_ticket",…
            """,
            at="lambda",
        ),
        Statement(
            "The log has errors with their stack traces.",
            """
            $ lambda breaks fails
            200 …"isError":true…
            $ grep -o '"exception":"Traceback.*not foreseen' broken.log
            "exception":"Traceback…RuntimeError: not foreseen
            """,
            at="lambda",
            note="Of a tool that its author got wrong.",
        ),
        Heading("The handler"),
        Statement(
            "Events are read, checked and normalised.",
            """
            $ lambda gets '{"no": "request"}'
            {"statusCode": 400, "body": …The event has no 'requestContext.http.method'…
            """,
            at="lambda",
        ),
        Statement(
            "Responses have CORS headers.",
            """
            $ curl -si -X OPTIONS $LAMBDA_URL/mcp -H 'Origin: https://claude.ai' -H 'Access-Control-Request-Headers: x-tiflux-api-key'
            HTTP/1.1 204 No Content access-control-allow-origin: https://claude.ai…access-control-allow-headers: x-tiflux-api-key…
            """,
            at="lambda",
        ),
        Statement(
            "400 for what is no JSON, 401 without a key.",
            f"""
            $ {POST} -i -H 'x-tiflux-api-key: abc123' -d '{{oops'
            HTTP/1.1 400 …"code":-32700,"message":"Not JSON:…
            """,
            at="lambda",
            note="For 401 see 002.4.",
        ),
        Statement(
            "500 for what goes wrong inside.",
            """
            $ lambda breaks gives_up
            500 …"code":-32603,"message":"Internal error; the server's log has the details"…
            """,
            at="lambda",
        ),
        Statement(
            "Responses have `mcp-session-id`.",
            f"""
            $ {POST} -i -H 'x-tiflux-api-key: abc123' -d @initialize.json
            HTTP/1.1 200 OK…mcp-session-id: …
            """,
            at="lambda",
            note="Those of a session; a request that stands alone has none, because clients take an id for a session.",
        ),
        Statement(
            "The server over stdio stays as it is.",
            """
            >>> async with Client(["toolyard", "run", "tiflux"], env={"TIFLUX_API_KEY": "abc123", "TIFLUX_API_BASE_URL": "$TIFLUX_API_BASE_URL"}) as client:
            ...     print((await client.call_tool("get_ticket", {"ticket_number": "1"})).text)
            {"data":{…"title":"… t0002"…
            """,
            at="lambda",
        ),
        Heading("Endpoints"),
        Statement(
            "`POST /mcp` takes messages of JSON-RPC.",
            f"""
            $ {POST} -H 'x-tiflux-api-key: abc123' -d '{{"jsonrpc": "2.0", "id": 7, "method": "ping"}}'
            {{"id":7,"result":{{}},"jsonrpc":"2.0"}}
            """,
            at="lambda",
        ),
        Statement(
            "`GET /health` tells whether it lives.",
            """
            $ curl -s $LAMBDA_URL/health
            …"status":"ok"…
            """,
            at="lambda",
        ),
        Heading("Deployment"),
        Statement(
            "Three npm scripts build, package and deploy.",
            as_in=1,
            otherwise="The server is Python: one command builds and packages, and prints the one that deploys.",
        ),
        Statement(
            "A SAM template: 512 MB, 30 s, a Function URL, a role that may log.",
            """
            $ grep -e MemorySize -e Timeout -e FunctionUrlConfig -e 'Action: .logs' build/lambda/template.yaml
            MemorySize: 512 Timeout: 30 FunctionUrlConfig: Action: [logs:CreateLogStream, logs:PutLogEvents]
            """,
            at="lambda",
            note="Python 3.12 in place of Node 18, which AWS no longer offers.",
        ),
        Statement(
            "The bundle is without tests, documents and `.git`.",
            """
            $ python -m zipfile -l build/lambda/function.zip | grep -c -e tests/ -e docs/ -e '\\.git'
            0
            """,
            at="lambda",
        ),
        Statement(
            "A page of its own about Lambda.",
            """
            $ grep '^# ' $CHECKOUT/docs/guides/lambda.md | cut -c3-
            On AWS Lambda
            """,
            at="lambda",
        ),
        Statement(
            "`sam deploy` deploys it, `--guided` the first time.",
            as_in=1,
            note="There is nothing for `sam build` to do; `--guided` asks for the template's one parameter, a key that you make.",
        ),
        Statement(
            "`aws lambda get-function-url-config --function-name tiflux-mcp`",
            """
            $ grep FunctionName build/lambda/template.yaml
            FunctionName: "tiflux-mcp"
            """,
            at="lambda",
        ),
        Heading("Trying it"),
        Statement(
            "curl, without Accept and without `initialize`: health, the list of tools, a ticket.",
            f"""
            $ {POST} -H 'x-tiflux-api-key: abc123' -d @list.json
            …"name":"get_ticket"…
            """,
            at="lambda",
        ),
        Statement(
            "There are sixteen tools.",
            """
            $ toolyard list tiflux | grep -c '^  [a-z_]*  '
            114
            $ TIFLUX_TOOLS=core toolyard list tiflux | grep -c '^  [a-z_]*  '
            16
            """,
            at="lambda",
            note="TiFlux's own server has 114 by now; `--tools core` is the sixteen.",
        ),
        Statement(
            "Claude Desktop connects by `mcp-remote`, with the key in a variable.",
            """
            $ toolyard import claude_desktop_config.json
            …imported 1 server into toolyard.toml…
            $ TIFLUX_API_KEY=abc123 toolyard call mcp__tiflux__get_ticket ticket_number=1
            {"data":{…"title":"… t0002"…
            """,
            at="lambda",
        ),
        Heading("Notes"),
        Statement(
            "Responses can be streamed.",
            """
            $ lambda streams
            progress 1, then it went on: progress 2, result 'go on'
            """,
            at="lambda",
        ),
        Statement(
            "A cold start takes 200 to 500 ms, a warm call 50 to 100.",
            """
            $ grep -o '"duration_ms.*cold_start.*' function.log
            "duration_ms":…,"cold_start":1,"init_ms":…}
            """,
            at="lambda",
            note="[Less](guides/lambda.md#what-it-costs), by measurement; the log of every function says how long.",
        ),
        Statement(
            "A million requests cost $0.20, a GB sent $0.09, a GB of logs $0.50.",
            """
            $ grep -e '^| a million req' -e '^| a GB of l' -e '^| a GB s' $CHECKOUT/docs/guides/lambda.md
            | a million requests | $0.20 |…| a GB of logs | $0.50 |…| a GB sent to the internet | $0.09 |…
            """,
            at="lambda",
            note="If each takes a second, [the seconds](guides/lambda.md#what-aws-charges) cost more than the requests.",
        ),
        Statement(
            "It speaks Portuguese.",
            """
            $ TIFLUX_LOCALE=pt TIFLUX_API_KEY=abc123 toolyard call --target tiflux get_ticket ticket_number=999
            O TiFlux não tem nada com esse número…
            $ TIFLUX_LOCALE=pt TIFLUX_API_KEY=abc123 toolyard call --target tiflux get_ticket
            Argumentos inválidos para a ferramenta 'get_ticket':…
            """,
            at="lambda",
        ),
    ),
)
