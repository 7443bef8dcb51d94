"""`toolyard deploy lambda`: a zip that starts with nothing but itself, and a template to deploy it with."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import toolyard
from tests.aws.packed import ARCH, Packed, Ref, packed, python
from tests.cli.running import COMMAND, Outcome, Toolyard
from toolyard.cli.deploy.selection import select_server
from toolyard.cli.deploy.sources import gather
from toolyard.cli.deploy.template import lint
from toolyard.cli.ui.messages import CommandError

RUNS = python()
PYTHON = RUNS.version
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

# Run by an interpreter that sees no packages but those of the zip.
TALK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from function import handler

for method, path, body, headers in json.load(sys.stdin):
    event = {
        "version": "2.0",
        "rawPath": path,
        "headers": headers,
        "requestContext": {"http": {"method": method, "path": path}},
        "isBase64Encoded": False,
        "body": json.dumps(body),
    }
    reply = handler(event, None)
    print(json.dumps([reply["statusCode"], json.loads(reply["body"])]))
"""


def talk(
    folder: Path, *requests: tuple[str, str, Any], headers: dict[str, str] = HEADERS, **environment: str
) -> list[Any]:
    """What the unpacked function answers, each as [status, body]."""
    done = subprocess.run(
        [RUNS.program, "-I", "-S", "-c", TALK, str(folder)],
        input=json.dumps([(*request, headers) for request in requests]),
        capture_output=True,
        text=True,
        env={"TOOLYARD_KEY": "0123456789abcdef", **environment},
        cwd=folder.parent,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def deploy(folder: Path, *arguments: str, **environment: str) -> Outcome:
    done = subprocess.run(
        [*COMMAND, "deploy", "lambda", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def built(folder: Path, *arguments: str, **environment: str) -> bytes:
    more = ("--no-lint", "--python", PYTHON, "--arch", ARCH, "--output", "out")
    done = deploy(folder, *arguments, *more, **environment)
    assert done.status == 0, done.err
    return (folder / "out" / "function.zip").read_bytes()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """The demo as a function; cfn-lint has seen its template, or there would be none."""
    return packed(tmp_path_factory.mktemp("demo"), "demo")


def test_the_zip_answers_in_an_interpreter_that_has_nothing_else(demo: Packed):
    health, listed, called, shaped = talk(
        demo.folder,
        ("GET", "/health", None),
        ("POST", "/mcp", ask("tools/list")),
        ("POST", "/mcp", ask("tools/call", name="echo", arguments={"text": "hello"})),
        # Every quote takes four bytes in the reply, so that it is over what a function can send.
        ("POST", "/mcp", ask("tools/call", name="echo", arguments={"text": '"' * 2_000_000})),
    )
    assert health[0] == 200
    assert health[1]["status"] == "ok"
    assert "echo" in [tool["name"] for tool in listed[1]["result"]["tools"]]
    assert called[1]["result"]["content"] == [{"type": "text", "text": "hello"}]
    assert '"truncated":true' in shaped[1]["result"]["content"][0]["text"]


def test_the_zip_has_what_the_server_needs_and_no_more(demo: Packed):
    names = {file.relative_to(demo.folder).as_posix() for file in demo.folder.rglob("*") if file.is_file()}
    tops = {name.partition("/")[0] for name in names}
    assert {"function.py", "bootstrap", "toolyard", "msgspec", "jsonschema_rs"} <= tops
    assert "toolyard/app/function_callers.py" not in names
    ours = {"function.py", "bootstrap", "toolyard", "__pycache__"}
    # Whatever is installed here, of which Pydantic and OpenTelemetry are a part.
    assert {top.partition("-")[0] for top in tops - ours} == {"msgspec", "jsonschema_rs"}
    assert {"toolyard/servers/demo.py", "toolyard/servers/demo.html", "toolyard/LICENSE"} <= names
    assert not [
        name for name in names if name.startswith(("toolyard/cli", "toolyard/meaning", "toolyard/search"))
    ]
    assert not [name for name in names if name.startswith("toolyard/servers/") and "demo" not in name
                and "__init__" not in name]  # fmt: skip
    assert not [name for name in names if name.endswith((".pyi", "/RECORD", "/INSTALLER"))]
    assert f"toolyard/kit/__pycache__/server.cpython-{PYTHON.replace('.', '')}.pyc" in names
    assert os.access(demo.folder / "bootstrap", os.X_OK)
    assert not os.access(demo.folder / "function.py", os.X_OK) or os.geteuid() == 0


def test_bytecode_is_taken_as_it_is_and_names_files_where_aws_has_them(demo: Packed):
    (file,) = demo.folder.glob("__pycache__/function.*.pyc")
    code = file.read_bytes()
    assert code[4:8] == b"\x01\0\0\0"  # a hash, and never checked
    assert b"/var/task/function.py" in code


def test_the_same_servers_give_the_same_bytes_whoever_builds_them(tmp_path: Path, demo: Packed):
    again = built(tmp_path, "demo", TZ="Asia/Tokyo", PYTHONHASHSEED="1", TMPDIR=str(tmp_path))
    assert (demo.folder.parent / "function.zip").read_bytes() == again
    with zipfile.ZipFile(tmp_path / "out" / "function.zip") as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_template_says_what_the_function_may_take_and_do(demo: Packed):
    resources = demo.template["Resources"]
    function = resources["Function"]["Properties"]
    assert function["Runtime"] == f"python{PYTHON}"
    assert (function["MemorySize"], function["Timeout"]) == (512, 30)
    assert function["ReservedConcurrentExecutions"] == 10
    assert function["FunctionUrlConfig"] == {"AuthType": "NONE", "InvokeMode": "BUFFERED"}
    assert function["Environment"]["Variables"]["TOOLYARD_KEY"] == Ref("ToolyardKey")
    assert demo.template["Parameters"]["ToolyardKey"]["NoEcho"] is True
    assert resources["Logs"]["Properties"]["RetentionInDays"] == 30
    (policy,) = resources["Role"]["Properties"]["Policies"]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert statement["Resource"] == "!GetAtt Logs.Arn"
    assert set(demo.template["Outputs"]) == {"Url", "Arn", "Name"}


ISSUED = """
[gateway]
public_url = "https://tools.example.com"
[auth]
keys = true
scopes = ["mcp"]
[[auth.issuers]]
issuer = "https://login.example.com"
client_id = "yard"
client_secret = "not-for-the-zip"
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The folder where a server with settings was built that asks for tokens, and what was said."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "yard.toml").write_text(ISSUED)
    done = deploy(
        folder,
        *("tiflux", "--name", "desk-mcp", "--memory", "1024", "--timeout", "60", "--concurrency", "0"),
        *("--log-days", "7", "--stream", "-o", "locale=pt", "-o", "api_key=verysecret"),
        *("--tools", "core,get_chat"),
        *("--auth", "yard.toml", "--python", PYTHON, "--arch", ARCH),
    )
    assert done.status == 0, done.err
    return folder, done


def test_options_are_in_the_template_and_secrets_only_by_name(desk: tuple[Path, Outcome]):
    folder, done = desk
    assert "checked by cfn-lint" in done.out
    text = (folder / "build" / "lambda" / "template.yaml").read_text()
    assert "verysecret" not in text + done.out + done.err
    for line in (
        'FunctionName: "desk-mcp"',
        "MemorySize: 1024",
        "Timeout: 60",
        "RetentionInDays: 7",
        "InvokeMode: RESPONSE_STREAM",
        'AWS_LAMBDA_EXEC_WRAPPER: "/var/task/bootstrap"',
        'TIFLUX_LOCALE: "pt"',
        'TIFLUX_TOOLS: "core,get_chat"',
        "TIFLUX_API_KEY: !Ref TifluxApiKey",
    ):
        assert line in text
    assert "ReservedConcurrentExecutions" not in text
    assert "TifluxApiKey=…" in done.out
    assert "sam deploy" in done.out


def test_a_function_that_asks_for_tokens_has_what_it_takes_and_no_secret(desk: tuple[Path, Outcome]):
    folder, done = desk
    assert "only 'issuers' and 'scopes' hold for the function" in done.err
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(folder / "build" / "lambda" / "function.zip") as archive:
        archive.extractall(unpacked)
    assert {"joserfc", "cryptography", "auth.json"} <= {path.name for path in unpacked.iterdir()}
    assert "not-for-the-zip" not in (unpacked / "auth.json").read_text()
    refused, described, health = talk(
        unpacked,
        ("POST", "/mcp", ask("tools/list")),
        ("GET", "/.well-known/oauth-protected-resource", None),
        ("GET", "/health", None),
    )
    assert (refused[0], health[0]) == (401, 200)
    assert described[1]["resource"] == "https://tools.example.com/mcp"
    assert described[1]["authorization_servers"] == ["https://login.example.com"]


OWN = """
from pricing import price
from toolyard.kit import CallerKeys, Context, Server

server = Server("shop", caller_keys=CallerKeys(("x-shop-key",)))

@server.tool(read_only=True)
def cost(item: str) -> str:
    "What an item costs."
    return price(item)
"""
PRICING = """
import json
from pathlib import Path
from toolyard.wire.text import clean

try:
    import there_is_no_such_package
except ImportError:
    there_is_no_such_package = None

PRICES = json.loads((Path(__file__).parent / "lists" / "prices.json").read_text())

def price(item):
    import jmespath
    return jmespath.search(clean(item), PRICES)
"""


def own_server(folder: Path, source: str = OWN) -> None:
    """A server's file, with a package beside it that has data in a folder."""
    (folder / "shop.py").write_text(source)
    (folder / "pricing" / "lists").mkdir(parents=True)
    (folder / "pricing" / "__init__.py").write_text(PRICING)
    (folder / "pricing" / "lists" / "prices.json").write_text('{"tea": "2.50"}')


def test_a_server_of_ones_own_takes_its_neighbours_and_packages_along(tmp_path: Path):
    own_server(tmp_path)
    (tmp_path / "unrelated.py").write_text("")
    (tmp_path / "secret.txt").write_text("not to be seen")
    for private in (".env", ".aws/credentials", "lists/.token", "lists/node_modules/a.js"):
        (tmp_path / "pricing" / private).parent.mkdir(exist_ok=True)
        (tmp_path / "pricing" / private).write_text("not to be seen")
    (tmp_path / "pricing" / "lists" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "pricing" / "server.pem").write_text("perhaps a secret, perhaps not")
    for link, target in (
        ("notes.txt", ".env"),
        ("shown", ".aws"),
        ("lists/deep.txt", "../.aws/credentials"),
        ("lists/chain.txt", "deep.txt"),
        ("lists/module.txt", "node_modules/a.js"),
        ("lists/again.txt", "../server.pem"),
    ):
        (tmp_path / "pricing" / link).symlink_to(target)
    done = deploy(tmp_path, "shop.py", "--no-lint", "--python", PYTHON, "--arch", ARCH, "--output", "out")
    assert done.status == 0, done.err
    assert "may be secrets: pricing/lists/again.txt, pricing/server.pem" in done.err
    snippet = json.loads(done.out[done.out.index("\n{") :])
    assert snippet["mcpServers"]["shop"]["args"][-2:] == ["--header", "x-shop-key:${SHOP_API_KEY}"]
    assert "-H 'x-shop-key: …'" in done.out
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "out" / "function.zip") as archive:
        archive.extractall(folder)
    assert not (folder / "unrelated.py").exists()
    assert sorted(
        file.name for file in (folder / "pricing").rglob("*") if file.is_file() and file.suffix[:3] != ".py"
    ) == ["again.txt", "prices.json", "server.pem"]
    call = ("POST", "/mcp", ask("tools/call", name="cost", arguments={"item": "tea"}))
    ((status, refusal),) = talk(folder, call)
    assert status == 401
    assert "x-shop-key" in refusal["error"]["message"]
    ((status, reply),) = talk(folder, call, headers={**HEADERS, "x-shop-key": "k1"})
    assert reply["result"]["content"] == [{"type": "text", "text": "2.50"}]


def test_an_installed_toolyard_finds_the_same_files_as_one_in_its_source_tree(tmp_path: Path):
    tree = Path(toolyard.__file__).parent
    shutil.copytree(tree, tmp_path / "toolyard", ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("msgspec", "jsonschema_rs", "httptools"):  # its neighbours, once it is installed
        (tmp_path / package).symlink_to(Path(importlib.import_module(package).__file__ or "").parent)
    script = """
import sys
from toolyard.cli.deploy import selection, sources
found = sources.gather([selection.select_server("tiflux")])
print(selection.PACKAGE.parent, sorted(found.packages), sorted(found.files))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    here = gather([select_server("tiflux")])
    assert done.stdout == f"{tmp_path} {sorted(here.packages)} {sorted(here.files)}\n"
    assert here.packages == {"msgspec", "jsonschema_rs", "httptools"}


def test_packages_that_only_some_servers_need_come_with_those_that_import_them(tmp_path: Path):
    source = """
from pydantic import BaseModel
from toolyard.kit import Server

server = Server("orders")


class Order(BaseModel):
    item: str
    count: int = 1


@server.tool
def price(order: Order) -> int:
    \"\"\"What it costs.\"\"\"
    return 2 * order.count
"""
    (tmp_path / "orders.py").write_text(source)
    built(tmp_path, "orders.py")
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "out" / "function.zip") as archive:
        archive.extractall(folder)
    assert (folder / "pydantic").is_dir()
    assert not (folder / "opentelemetry").exists()
    call = ask("tools/call", name="price", arguments={"order": {"item": "tea", "count": 3}})
    ((status, reply),) = talk(folder, ("POST", "/mcp", call))
    assert (status, reply["result"]["structuredContent"]) == (200, {"result": 6})


TABLE = """
name = "crm"
base_url = "https://crm.example.com/api"
auth = { kind = "bearer", caller = ["x-crm-key"] }

[tools.get_person]
description = "A person of the address book"
path = "/people/{id}"
parameters.id = { description = "The person's id", required = true }
"""


def test_a_table_is_served_beside_another_server_in_the_language_that_is_set(tmp_path: Path):
    (tmp_path / "crm.toml").write_text(TABLE)
    (tmp_path / "crm.pt.toml").write_text('[tools.get_person]\ndescription = "Uma pessoa da agenda"\n')
    built(tmp_path, "crm.toml", "demo", "-o", "crm.locale=pt")
    assert 'TOOLYARD_REST_LOCALE: "pt"' in (tmp_path / "out" / "template.yaml").read_text()
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "out" / "function.zip") as archive:
        archive.extractall(folder)
    assert not list(folder.rglob("*.toml"))
    crm, other = talk(
        folder,
        ("POST", "/mcp/crm", ask("tools/list")),
        ("POST", "/mcp/toolyard", ask("tools/list")),
        headers={**HEADERS, "x-crm-key": "k1"},
        TOOLYARD_REST_LOCALE="pt",
    )
    (tool,) = crm[1]["result"]["tools"]
    assert tool["description"] == "Uma pessoa da agenda"
    assert other[0] == 200


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ("[auth]\nkeys = true", "yard.toml has no [[auth.issuers]]"),
        (ISSUED, "callers send their key for 'shop' in Authorization"),
        (
            f'{ISSUED}introspection_url = "https://login.example.com/i"',
            "the issuer 'https://login.example.com' has an 'introspection_url'",
        ),
    ],
)
def test_a_function_takes_jwts_only(tmp_path: Path, auth: str, said: str):
    (tmp_path / "yard.toml").write_text(auth)
    own_server(tmp_path, OWN.replace("x-shop-key", "authorization"))
    done = deploy(tmp_path, "shop.py", "--auth", "yard.toml", "--no-lint")
    assert done.status == 2
    assert said in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="functions are for Linux, and start nowhere else")
def test_a_function_that_does_not_start_is_not_handed_over(tmp_path: Path):
    hidden = OWN.replace("from pricing", "__import__('pric' + 'ing')\nfrom json").replace(
        "price\n", "dumps as price\n"
    )
    own_server(tmp_path, hidden)
    done = deploy(tmp_path, "shop.py", "--no-lint", "--python", PYTHON, "--arch", ARCH, "--output", "out")
    assert done.status == 2
    assert "error: the function does not start: " in done.err
    assert "No module named 'pricing'" in done.err
    assert not (tmp_path / "out" / "function.zip").exists()


MADE = """
from msgspec import Struct
from toolyard.kit import Server

ENVIRONMENT = "SHOP_"

class Settings(Struct):
    greeting: str = "hello"

def build(settings: Settings) -> Server:
    server = Server("shop")
    server.add_tool(lambda: settings.greeting, name="greet", output_schema=None)
    return server
"""


def test_a_server_of_ones_own_gets_its_settings_as_variables(tmp_path: Path):
    (tmp_path / "shop.py").write_text(MADE)
    built(tmp_path, "shop.py", "-o", "greeting=good day")
    assert 'SHOP_GREETING: "good day"' in (tmp_path / "out" / "template.yaml").read_text()


def test_a_mistake_in_any_language_of_a_table_is_told_with_its_line(tmp_path: Path):
    (tmp_path / "crm.toml").write_text(TABLE)
    (tmp_path / "crm.pt.toml").write_text('\n[tools.get_persons]\ndescription = "Uma pessoa"\n')
    done = deploy(tmp_path, "crm.toml", "--no-lint", "--python", PYTHON, "--arch", ARCH)
    assert done.status == 2
    assert "crm.pt.toml:2: tools.get_persons" in done.err


def test_two_servers_of_one_name_are_refused(tmp_path: Path):
    (tmp_path / "other.py").write_text("from toolyard.kit import Server\nserver = Server('toolyard')\n")
    done = deploy(tmp_path, "demo", "other.py")
    assert done.status == 2
    assert "two servers are called 'toolyard'" in done.err


def test_a_package_without_a_wheel_is_named_and_its_step_is_not_ticked_off(tmp_path: Path):
    installed = tmp_path / "installed"  # and to be had nowhere
    about = installed / "toolyard_tests_own-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toolyard-tests-own\nVersion: 1.0\n")
    (about / "top_level.txt").write_text("tests_own\n")
    (installed / "tests_own.py").write_text("")
    own_server(tmp_path, "import tests_own\n" + OWN)
    arguments = ("deploy", "lambda", "shop.py", "--no-lint", "--python", "3.13", "--arch", "arm64")
    with Toolyard(tmp_path).terminal(*arguments, PYTHONPATH=str(installed)) as terminal:
        assert terminal.end() == 2
    assert "✓ finding the files" in terminal.seen
    assert "✓ packages" not in terminal.seen
    assert "error: no wheel of 'toolyard-tests-own==1.0' for Python 3.13 on arm64" in terminal.seen


def test_without_a_network_no_package_is_said_to_be_missing(tmp_path: Path):
    own_server(tmp_path, OWN)
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:1/", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    done = deploy(tmp_path, "shop.py", PIP_RETRIES="1", PIP_NO_CACHE_DIR="1", **nowhere)
    assert done.status == 2
    assert "pip cannot reach its package index" in done.err
    assert "no wheel" not in done.err


def test_a_server_whose_name_has_an_underscore_has_a_default_name_and_its_packages(tmp_path: Path):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:1/", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    done = deploy(tmp_path, "zai_vision", "--no-lint", PIP_RETRIES="0", PIP_NO_CACHE_DIR="1", **nowhere)
    assert "pillow==" in done.err


@pytest.mark.parametrize(
    ("server", "program"),
    [
        ("zai_vision", "toolyard/pictures/worker.py"),
        ("video_audio", "toolyard/ffmpeg/launch.py"),
        ("youtube", "toolyard/servers/youtube/process.py"),
        ("sql", "toolyard/databases/embedded/worker.py"),
    ],
)
def test_the_program_of_a_process_that_a_server_starts_is_taken_along(server: str, program: str):
    assert program in gather([select_server(server)]).files


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demos"], "no server 'demos'"),
        (["browser"], "'browser' cannot run in a function"),
        (["missing.py"], "no file 'missing.py'"),
        (["missing.toml"], "no file 'missing.toml'"),
        (["rest", "-o", "table=crm.toml"], "name the table: toolyard deploy lambda crm.toml"),
        (["demo", "--name", "a b"], "'a b' is not a valid function name"),
        (["demo", "-o", "locale=pt"], "takes no options"),
        (["render", "-o", "locale"], "--option 'locale' is not NAME=VALUE"),
        (["render", "-o", "colour=red"], "unknown setting 'colour'"),
        (["render", "demo", "-o", "locale=pt"], "as in render.locale=pt"),
        (["render", "demo", "-o", "sql.locale=pt"], "no server 'sql'"),
        (["tiflux", "--tools", "tiket"], "'tiflux' has no tool or group 'tiket'"),
        (["tiflux", "demo", "--tools", "core"], "name it: -o tiflux.tools=core"),
        (["demo", "--memory", "64"], "--memory"),
    ],
)
def test_what_cannot_be_built_is_said_before_anything_is(tmp_path: Path, arguments: list[str], said: str):
    done = deploy(tmp_path, *arguments)
    assert done.status == 2
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_template_that_aws_would_refuse_fails_with_the_line(tmp_path: Path, demo: Packed):
    text = (demo.folder.parent / "template.yaml").read_text()
    file = tmp_path / "template.yaml"
    file.write_text(text.replace("MemorySize: 512", "MemorySize: 12"))
    with pytest.raises(CommandError, match="has 1 errors") as failure:
        lint(file)
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "MemorySize" in line)
    assert failure.value.hints[0].startswith(f"line {number}: ")
