"""A file of the user's own: what it gives, and what it is refused for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.conftest import Load, Refused
from toolyard.config import (
    Composio,
    ConfigError,
    GatewayConfig,
    Http,
    InProcess,
    ResultLimits,
    ServerConfig,
    ServerResults,
    Stdio,
    TelemetryConfig,
    check,
    load,
)

WHOLE = """
[gateway]
view = "bare"
server = "git"
name = "yard"
instructions = "Be kind."
state_dir = "state"
list_wait = 0
page_size = 50
park_ttl = 30
park_limit = 10

[telemetry]
metrics = false
traces = "otlp"
endpoint = "http://localhost:4318"
service_name = "yard"
logs = "json"
log_level = "debug"

[servers.git]
command = "uvx"
args = ["mcp-server-git"]
env = { TOKEN = "secret", PORT = 3000 }
cwd = "~/src"
max_memory = "512MiB"
description = " The repository of\\n  the yard"
allow = ["git_*"]
deny = ["git_push"]
rename = { git_log = "history" }
pinned = ["git_log"]
timeout = 5
connect_timeout = 2.5
concurrency = 4
retries = 0
max_result = "100MB"
start = "eager"

[servers.docs]
url = "https://example.com/mcp"
headers = { Authorization = "Bearer secret" }
transport = "sse"

[servers.demo]
module = "toolyard.servers.demo:server"

[servers.off]
command = "nothing"
enabled = false
"""


def test_a_description_has_no_characters_that_only_a_model_would_see(loaded: Load):
    (server,) = loaded(
        '[servers.one]\ncommand = "x"\ndescription = "Sales\\u001b[0m of\\u202e\\u200b 2026 \U000e0041"'
    ).servers
    assert server.description == "Sales[0m of 2026"


def test_a_description_is_short(loaded: Load):
    with pytest.raises(ConfigError, match="'description' must have at most 500 characters, not 501"):
        loaded(f'[servers.one]\ncommand = "x"\ndescription = "{"d" * 501}"')


def test_every_key_reaches_its_field(loaded: Load, folder: Path):
    config = loaded(WHOLE)
    assert config.servers == (
        ServerConfig(
            name="git",
            where=Stdio(
                command="uvx",
                args=("mcp-server-git",),
                env={"TOKEN": "secret", "PORT": "3000"},
                cwd=str(folder / "home" / "src"),
                max_memory=512 * 2**20,
            ),
            description="The repository of the yard",
            allow=("git_*",),
            deny=("git_push",),
            rename={"git_log": "history"},
            pinned=("git_log",),
            timeout=5.0,
            connect_timeout=2.5,
            concurrency=4,
            retries=0,
            max_result=100_000_000,
            start="eager",
        ),
        ServerConfig(
            name="docs",
            where=Http(
                url="https://example.com/mcp", headers={"Authorization": "Bearer secret"}, transport="sse"
            ),
        ),
        ServerConfig(name="demo", where=InProcess(module="toolyard.servers.demo:server")),
    )
    assert config.broken == ()
    assert config.gateway == GatewayConfig(
        view="bare",
        server="git",
        name="yard",
        instructions="Be kind.",
        state_dir=str(folder / "state"),
        list_wait=0.0,
        page_size=50,
        park_ttl=30.0,
        park_limit=10,
    )
    assert config.telemetry == TelemetryConfig(
        metrics=False,
        traces=("otlp",),
        endpoint="http://localhost:4318",
        service_name="yard",
        logs="json",
        log_level="debug",
    )
    assert config.files == (folder / "toolyard.toml",)


def test_an_empty_file_gives_the_defaults_and_no_servers(loaded: Load):
    config = loaded("")
    assert (config.servers, config.broken) == ((), ())
    assert config.gateway == GatewayConfig()
    assert config.telemetry == TelemetryConfig()


def test_json_has_the_same_structure(loaded: Load):
    servers = {"git": {"command": "uvx", "args": ["a"], "timeout": 5}}
    config = loaded(json.dumps({"gateway": {"page_size": 7}, "servers": servers}), "toolyard.json")
    expected = ServerConfig(name="git", where=Stdio(command="uvx", args=("a",)), timeout=5.0)
    assert config.servers == (expected,)
    assert config.gateway.page_size == 7


def test_the_same_file_read_twice_gives_equal_servers_and_a_changed_one_gives_others(loaded: Load):
    first, second = loaded(WHOLE), loaded(WHOLE)
    assert first == second
    changed = loaded(WHOLE.replace("timeout = 5\n", "timeout = 6\n"))
    assert changed.servers[0] != first.servers[0]
    assert changed.servers[1:] == first.servers[1:]


def test_a_module_in_a_file_is_looked_for_beside_the_configuration(loaded: Load, folder: Path):
    config = loaded('[servers.own]\nmodule = "servers/own.py:app"\n[servers.other]\nmodule = "own.py"')
    assert config.servers[0].where == InProcess(module=f"{folder}/servers/own.py:app")
    assert config.servers[1].where == InProcess(module=f"{folder}/own.py")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"2GiB"', 2 * 2**30),
        ('"512MiB"', 512 * 2**20),
        ('"100MB"', 100_000_000),
        ('"1.5 kib"', 1536),
        ('"7B"', 7),
        ("4096", 4096),
    ],
)
def test_sizes_have_units_or_are_bytes(loaded: Load, text: str, count: int):
    config = loaded(f'[servers.a]\ncommand = "x"\nmax_memory = {text}')
    assert config.servers[0].where == Stdio(command="x", max_memory=count)


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ('timout = 5', "unknown key 'timout'", "did you mean 'timeout'?"),
        ('zzz = 5', "unknown key 'zzz'", "known: command, url, module, args"),
        ('timeout = 0', "'timeout' must be more than 0 seconds, not 0", None),
        ('timeout = -1.5', "'timeout' must be more than 0 seconds", None),
        ('timeout = nan', "'timeout' must be more than 0 seconds", None),
        ('timeout = inf', "'timeout' must be at most 1000000000 seconds", None),
        ('timeout = "5"', "'timeout' must be a number of seconds, not text", None),
        ('timeout = true', "'timeout' must be a number of seconds, not true or false", None),
        ('timeout = 2020-01-01', "'timeout' must be a number of seconds, not a date", None),
        ('connect_timeout = 0', "'connect_timeout' must be more than 0 seconds", None),
        ('concurrency = 0', "'concurrency' must be 1 or more, not 0", None),
        ('concurrency = 1.5', "'concurrency' must be a whole number, not a number", None),
        ('retries = -1', "'retries' must be 0 or more", None),
        ('max_result = "2G"', "'max_result' is not a size", "512MiB"),
        ('max_memory = "0B"', "'max_memory' must be more than 0 bytes", None),
        ('args = "a b"', "'args' must be a list of texts, not text", 'as in ["one", "two"]'),
        ('args = [1]', "'args' must be a list of texts, but contains a number", None),
        ('allow = [""]', "'allow' contains an empty text", None),
        ('env = { "A=B" = "x" }', "'env' has 'A=B', which is not a valid variable name", None),
        ('env = { A = true }', "'env' must contain only texts, but 'A' is true or false", None),
        ('start = "lasy"', """'start' must be "lazy" or "eager\"""", "did you mean 'lazy'?"),
        ('start = 1', "'start' must be", None),
        ('rename = { a = "x", b = "x" }', "'rename' gives two items the name 'x'", None),
        ('rename = { a = "x y" }', "'rename' gives 'a' an invalid name", "1 to 64 letters"),
        ('rename = { a = 5 }', "'rename' gives 'a' an invalid name", "1 to 64 letters"),
        ('enabled = "no"', "'enabled' must be true or false, not text", None),
        ('type = "http"', "has type 'http' but also 'command'", "leave out 'type'"),
        ('headers = {}', "has 'headers', which belongs to 'url', not to 'command'", None),
        ('url = "http://x"', "has 'command' and 'url' together", "keep only one"),
        ('cwd = ""', "'cwd' is empty", None),
    ],
)  # fmt: skip
def test_a_mistake_in_a_server_is_told_with_file_server_and_key(
    refused: Refused, line: str, said: str, hint: str | None
):
    error = refused(f'[servers.git]\ncommand = "x"\n{line}')
    assert error.message.startswith("toolyard.toml: [servers.git] ")
    assert said in error.message
    assert (error.hint is None) if hint is None else (hint in (error.hint or ""))


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('[server.git]\ncommand = "x"', "unknown key 'server'", "did you mean 'servers'?"),
        ("[gateway]\npagesize = 1", "[gateway] has an unknown key 'pagesize'", "did you mean 'page_size'?"),
        ("[telemetry]\nlog = 1", "[telemetry] has an unknown key 'log'", "did you mean 'logs'?"),
        ("gateway = 5", "'gateway' must be a table, not a number", None),
        ("servers = []", "'servers' must be a table, not a list", None),
        ("[servers]\ngit = 5", "[servers.git] must be a table, not a number", None),
        ("[servers.git]\nargs = []", "[servers.git] has no 'command', 'url' or 'module'", "add one"),
        ('[servers.git]\ncomand = "x"', "[servers.git] has an unknown key 'comand'", "'command'"),
        ('[servers.""]\ncommand = "x"', "[servers.] has no name", None),
        ('[servers.git]\ncommand = " "', "'command' is empty", None),
        ('include = "a.toml"', "'include' must be a list of texts, not text", "include = ["),
        ('[gateway]\ndialects = ["suna", "suna"]', "must list at least one value, and each only once", None),
        ('[gateway]\ndialects = ["tuna"]', "'dialects' of [gateway] must be", "did you mean 'suna'?"),
        ('[search]\nlimit = 0', "'limit' of [search] must be 1 or more", None),
        ('[state]\nurl = "mongodb://x"', "'url' of [state] is not an address of a store", "redis://host"),
        ('[state]\nurl = "${NOT_SET_ANYWHERE}"', "NOT_SET_ANYWHERE", None),
        ('[results]\nmax_byte = 1', "[results] has an unknown key", "did you mean 'max_bytes'?"),
        ('[store]\nurl = "ftp://x"', "'url' of [store] is not an address of a store for results", "s3://"),
        ('[servers.c]\ncommand = "x"\nresults = { max_byte = 1 }', "has an unknown key 'max_byte'", "max_"),
        ('[servers.c]\ncommand = "x"\n[servers.c.results.tools.t]\nmax_items = 0',
         "invalid 'max_items'", None),
        ('[servers.c]\ntype = "composio"\nurl = "http://x"', "has 'url'", None),
        ('[servers.c]\ntype = "composio"\nuser_id = "{person}"', "{person}", "{tenant}"),
        ('[servers.c]\ntype = "composio"\nuser_id = "{thread}"', "without {user} or {tenant}", "add {user}"),
        ('[gateway]\nview = "bear"', "'view' of [gateway] must be", "did you mean 'bare'?"),
        ('[gateway]\nview = "bare"', "no 'server'", 'server = "NAME"'),
        ('[gateway]\nserver = "gti"\n[servers.git]\ncommand = "x"', "unknown server 'gti'", "'git'"),
        ("[gateway]\nport = 70000", "'port' of [gateway] must be a number from 0 to 65535, not 70000", None),
        ('[gateway]\nport = "x"', "'port' of [gateway] must be a number from 0 to 65535, not 'x'", None),
        ('[gateway]\nallowed_hosts = ["https://a.example"]', "is not a host name", "as in tools.example.com"),
        ('[gateway]\nallowed_origins = ["a.example"]', "is not an origin", "as in https://app.example.com"),
        ('[gateway]\nproxies = ["nginx"]', "has 'nginx', which is no IP address or network", None),
        ('[gateway]\npublic_url = "a.example"', "is not an http or https address", "as in https"),
        ('[gateway]\nhost = "${NO_SUCH_HOST}"', "needs the variable 'NO_SUCH_HOST'", "set it"),
        ('[gateway]\npage_size = 0', "'page_size' of [gateway] must be 1 or more", None),
        ('[gateway]\npark_ttl = 0', "'park_ttl' of [gateway] must be more than 0", None),
        ('[telemetry]\nendpoint = "nowhere"', "'endpoint' of [telemetry] is not an http", None),
    ],
)  # fmt: skip
def test_a_mistake_elsewhere_is_told_with_file_table_and_key(
    refused: Refused, text: str, said: str, hint: str | None
):
    error = refused(text)
    assert error.message.startswith("toolyard.toml: ")
    assert said in error.message
    assert hint is None or hint in (error.hint or "")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "example.com/mcp",
        "http://",
        "http:///x",
        "https://host:x/",
        "http://[::1",
        "http://a b",
    ],
)
def test_a_url_needs_http_and_a_host_and_is_not_repeated_in_the_error(refused: Refused, url: str):
    error = refused(f'[servers.docs]\nurl = "{url}"')
    assert error.message == "toolyard.toml: [servers.docs] 'url' is not an http or https address"


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("toolyard.toml", "[gateway]\nname = \n", "toolyard.toml, line 2: "),
        ("toolyard.toml", "a = 1\na = 2\n", "toolyard.toml, line 2: "),
        ("toolyard.toml", "[gateway]\nname = '''\nopen\n", "toolyard.toml, line 4: "),
        ("toolyard.json", '{\n "servers": {\n  "a": 1 "b"\n }\n}', "toolyard.json, line 3: "),
        ("toolyard.json", '{\n // says é\n "a": }', "toolyard.json, line 3: "),
        ("toolyard.json", '{\n "a": 1\n', "toolyard.json, line 2: "),
    ],
)
def test_a_mistake_of_form_is_told_with_its_line(refused: Refused, name: str, text: str, place: str):
    assert refused(text, name).message.startswith(place)


def test_secrets_are_in_no_error(refused: Refused):
    for line in (
        'headers = { Authorization = "hush\\nhush" }',
        'headers = { "a b" = "hush" }',
        'headers = { Authorization = ["hush"] }',
        'headers = { Authorization = "hush ${hush hush}" }',
        'headers = "hush"',
        'headers = { Authorization = "hush", authorization = "hush" }',
        'transport = "hush"',
    ):
        error = refused(f'[servers.docs]\nurl = "https://hush:hush@example.com/?key=hush"\n{line}')
        assert "[servers.docs]" in error.message
        assert "hush" not in f"{error.message} {error.hint}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "is not UTF-8"),
        (b"a = " + b"[" * 100_000, "toolyard.toml"),
        (b"a = " + b"9" * 10_000, "too long"),
    ],
)
def test_a_file_that_makes_no_sense_is_an_error_and_not_a_crash(folder: Path, content: bytes, said: str):
    (folder / "toolyard.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load(folder / "toolyard.toml")


def test_a_file_that_is_not_there_and_a_folder_are_named(folder: Path):
    with pytest.raises(ConfigError, match=r"no file 'nothing\.toml'"):
        load(Path(folder / "nothing.toml"))
    (folder / "folder.toml").mkdir()
    with pytest.raises(ConfigError, match=r"cannot read 'folder\.toml'"):
        load(folder / "folder.toml")


def test_a_draft_is_judged_in_the_place_of_its_file_without_being_written(folder: Path):
    (folder / "other.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    config = check(folder / "toolyard.toml", 'include = ["other.json"]')
    assert [server.name for server in config.servers] == ["a"]
    assert not (folder / "toolyard.toml").exists()


def test_importing_the_configuration_loads_neither_the_framework_nor_the_network():
    code = "import sys, toolyard.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {
        "asyncio",
        "logging",
        "json",
        "difflib",
        "tomlkit",
        "click",
        "socket",
        "toolyard.kit",
    }


def test_composio_takes_what_it_does_not_say_from_the_variables_of_its_own_clients(tmp_path: Path):
    (tmp_path / "toolyard.toml").write_text(
        '[servers.apps]\ntype = "composio"\nuser_id = "{tenant}-{thread}"'
    )
    env = {"COMPOSIO_API_KEY": "ak_1", "COMPOSIO_BASE_URL": "http://127.0.0.1:9900"}
    (server,) = load(tmp_path / "toolyard.toml", env).servers
    assert server.where == Composio(
        api_key="ak_1", user_id="{tenant}-{thread}", base_url="http://127.0.0.1:9900"
    )


def test_composio_without_a_key_breaks_only_itself(tmp_path: Path):
    (tmp_path / "toolyard.toml").write_text('[servers.apps]\ntype = "composio"\n[servers.git]\ncommand = "x"')
    config = load(tmp_path / "toolyard.toml", {})
    assert [server.name for server in config.servers] == ["git"]
    assert "COMPOSIO_API_KEY is not set" in config.broken[0].reason


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("", ""),
        ("memory:", "memory:"),
        ("sqlite:", "sqlite:"),
        ("sqlite:state.db", "sqlite://{folder}/state.db"),
        ("sqlite:///srv/state.db", "sqlite:///srv/state.db"),
        ("redis://${HOST}:6379/0", "redis://db:6379/0"),
    ],
)
def test_where_state_is_kept_is_relative_to_the_file_and_may_name_variables(
    tmp_path: Path, given: str, used: str
):
    (tmp_path / "toolyard.toml").write_text(f'[state]\nurl = "{given}"')
    env = {"HOST": "db", "ENCRYPTION_KEY": "secret"}
    state = load(tmp_path / "toolyard.toml", env).state
    assert state.url == used.format(folder=tmp_path)
    assert state.key == "secret"


def test_limits_on_results_are_set_for_all_for_a_server_and_for_a_tool(tmp_path: Path):
    (tmp_path / "toolyard.toml").write_text(
        """
        [results]
        max_bytes = "8KB"
        [store]
        url = "local:kept"
        options = { secret = "${SECRET}" }
        [servers.git]
        command = "x"
        [servers.git.results]
        max_lines = 100
        [servers.git.results.tools.git_diff]
        shape = false
        """
    )
    config = load(tmp_path / "toolyard.toml", {"SECRET": "s"})
    assert config.results.max_bytes == 8000
    assert config.store.url == f"local://{tmp_path}/kept"
    assert config.store.options == {"secret": "s"}
    assert config.servers[0].results == ServerResults(
        max_lines=100, tools={"git_diff": ResultLimits(shape=False)}
    )
