"""`toolyard add` with a preset: the catalogue, the list, and what is asked for."""

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.running import Outcome, Toolyard
from tests.cli.test_completion import completed
from toolyard.cli.presets.catalogue import CHROMIUM, catalogue
from toolyard.cli.presets.recipe import (
    CommandStart,
    ModuleStart,
    PackageStart,
    RemoteStart,
    Value,
    fields_of,
    placeholders,
)
from toolyard.config import Http, InProcess, Stdio, load
from toolyard.config.servers import ServerEntry, server_config

NAMES = list(catalogue())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without a configuration, and none of the variables that presets look for."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    for one in catalogue().values():
        for item in one.recipe.inputs:
            monkeypatch.delenv(item.name, raising=False)


def entry(toolyard: Toolyard, name: str) -> Stdio | Http | InProcess:
    (found,) = [one.where for one in load(toolyard.folder / "toolyard.toml").servers if one.name == name]
    assert isinstance(found, Stdio | Http | InProcess)
    return found


# The catalogue


def test_the_catalogue_has_the_servers_that_people_use():
    daily = ["playwright", "filesystem", "git", "github", "fetch", "time", "memory", "sequential-thinking"]
    others = ["everything", "postgres", "sqlite", "slack", "notion", "linear", "sentry", "stripe", "context7"]
    assert {*daily, *others, "edgartools"} <= set(NAMES)
    assert len(NAMES) >= 21
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_says_everything_in_two_languages_and_makes_an_entry_that_loads(name: str):
    one = catalogue()[name]
    recipe = one.recipe
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert recipe.title
    for text in (recipe.about, *(item.about for item in recipe.inputs)):
        assert text.en
        assert text.pt
        assert not text.en.endswith(".")
    assert recipe.about.en != recipe.about.pt
    assert len(recipe.about.en) <= 60
    assert len(recipe.about.pt) <= 70
    assert bool(recipe.note.en) == bool(recipe.note.pt)
    for item in recipe.inputs:
        assert bool(item.switch) == (item.choices == ("true", "false"))
        assert item.get == "" or item.get.startswith("https://")
    values = {item.name: (Value(item.default or "x"),) for item in recipe.inputs}
    fields = fields_of(recipe, values)
    assert server_config(ServerEntry(name, fields, Path("/x/toolyard.toml"), "servers", False), {})
    required = {item.name: (Value(item.default or "x"),) for item in recipe.inputs if item.required}
    assert server_config(ServerEntry(name, fields_of(recipe, required), Path("/x"), "servers", False), {})


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_used_and_secrets_are_on_no_command_line(name: str):
    recipe = catalogue()[name].recipe
    start = recipe.start
    args: list[str] = []
    texts: list[str] = []
    if isinstance(start, PackageStart | CommandStart):
        args = [word for group in start.args for word in group]
        texts = [*args, *start.env.values()]
    elif isinstance(start, RemoteStart):
        texts = [start.url, *start.headers.values()]
    elif isinstance(start, ModuleStart):
        texts = [*start.options.values()]
    used = {found for text in texts for found in placeholders(text)}
    assert used == {item.name for item in recipe.inputs}
    secret = {item.name for item in recipe.inputs if item.secret}
    assert not secret & {found for word in args for found in placeholders(word)}
    for item in recipe.inputs:
        looks_secret = re.search(r"TOKEN|KEY|SECRET|PWD|PASSWORD", item.name)
        assert item.secret or not looks_secret, item.name


# The list


def test_the_list_has_name_purpose_and_needs(toolyard: Toolyard):
    outcome = toolyard("add", "--list")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["name", "purpose", "from", "needs"]
    assert [line.split()[0] for line in lines[1:]] == NAMES
    (github,) = [line for line in lines if line.startswith("github ")]
    assert re.search(r"Repositories, issues, pull requests, actions\s+url\s+GITHUB_TOKEN$", github)


@pytest.mark.parametrize("words", [["browser"], ["navegador"], ["PLAY", "pAge"]])
def test_the_list_is_searched_by_words_of_both_languages(toolyard: Toolyard, words: list[str]):
    outcome = toolyard("add", "--list", *words)
    assert [line.split()[0] for line in outcome.out.splitlines()[1:]] == ["playwright"]


def test_the_list_is_in_portuguese_for_who_reads_it(toolyard: Toolyard):
    lines = toolyard("add", "--list", LC_ALL="pt_BR.UTF-8").out.splitlines()
    assert lines[0].startswith("nome ")
    assert any("Lê páginas da web como Markdown" in line for line in lines)


def test_the_list_as_json_has_everything(toolyard: Toolyard):
    (found,) = json.loads(toolyard("add", "--list", "--json", "sec", "filings").out)
    assert found["name"] == "edgartools"
    assert found["package"].startswith("pypi:edgartools[ai]==")
    assert found["inputs"][0]["name"] == "EDGAR_IDENTITY"
    assert found["inputs"][0]["required"] is True
    assert json.loads(toolyard("add", "--list", "--json", "no such thing").out) == []
    nothing = toolyard("add", "--list", "no such thing")
    assert nothing.err == "error: no preset has 'no such thing'\nhint: toolyard add --list\n"


def test_names_of_presets_are_completed(toolyard: Toolyard):
    assert completed(toolyard, "add", "sq") == ["sqlite"]
    assert set(completed(toolyard, "add", "''")) == set(NAMES)


# Adding one


def test_a_preset_is_started_from_its_environment(toolyard: Toolyard):
    outcome = toolyard("add", "time", "--no-check")
    assert (outcome.status, outcome.out) == (0, "added 'time' to toolyard.toml\n"), outcome.err
    start = catalogue()["time"].recipe.start
    assert isinstance(start, PackageStart)
    assert entry(toolyard, "time") == Stdio(command="toolyard", args=("envs", "run", str(start.package)))


def test_a_command_after_a_presets_name_is_that_command(toolyard: Toolyard):
    assert toolyard("add", "git", "--no-check", "--", sys.executable, "-m", "x").status == 0
    assert entry(toolyard, "git") == Stdio(command=sys.executable, args=("-m", "x"))
    assert toolyard("add", "time", "--no-check", "https://example.com/mcp").status == 0
    assert entry(toolyard, "time") == Http(url="https://example.com/mcp")
    assert toolyard("add", "memory", "--no-check", "--module", "memory").status == 0
    assert entry(toolyard, "memory") == InProcess(module="toolyard.servers.memory")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "edgartool",
            "hint: did you mean 'edgartools'? It is a preset; `toolyard add --list` shows them all",
        ),
        ("sql", "hint: for the bundled server: toolyard add sql --module sql"),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_one_that_was_meant(
    toolyard: Toolyard, name: str, said: str
):
    outcome = toolyard("add", name)
    first, second, third = outcome.err.splitlines()
    assert (outcome.status, first, second) == (2, "error: no command and no URL", said)
    assert third.startswith("hint: toolyard add NAME COMMAND")


def test_a_name_that_nothing_is_like_is_answered_with_the_list(toolyard: Toolyard):
    outcome = toolyard("add", "zzzzqqqq")
    first, second, _ = outcome.err.splitlines()
    assert (outcome.status, first) == (2, "error: no command and no URL, and no preset 'zzzzqqqq'")
    assert second == "hint: `toolyard add --list` shows the presets"


def test_another_name_and_another_version(toolyard: Toolyard):
    outcome = toolyard(
        "add", "time", "--as", "clock", "--version", "2025.1.2", "-o", "zone=UTC", "--no-check"
    )
    assert outcome.status == 0, outcome.err
    args = ("envs", "run", "pypi:mcp-server-time==2025.1.2", "--local-timezone", "UTC")
    assert entry(toolyard, "clock") == Stdio(command="toolyard", args=args)
    taken = toolyard("add", "fetch", "--as", "clock", "--no-check")
    assert taken.err.splitlines()[0] == "error: toolyard.toml already has a server 'clock'"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["time", "--version", "latest"], "error: --version 'latest' is not an exact version"),
        (["time", "--version", "1 --index-url=x"], "error: --version '1 --index-url=x' is not"),
        (["github", "--version", "1.0"], "error: 'github' is no package"),
        (["time", "-o", "zome=UTC"], "error: 'time' has no setting 'zome'"),
        (["everything", "-o", "a=b"], "error: 'everything' has no setting 'a'"),
        (["time", "-o", "zone=UTC", "-o", "zone=CET"], "error: 'zone' is given twice"),
        (["time", "-o", "hush"], "error: --option is not K=V"),
        (["deepwiki", "--env", "A=B"], "error: --env A: 'deepwiki' is at a URL"),
        (["playwright", "-o", "no_sandbox=maybe"], "error: no_sandbox cannot be 'maybe'"),
        (["sqlite"], "error: 'sqlite' needs file: the database file"),
        (["x", "--as", "y", "--", "x"], "error: --as, --version, --save-secrets and --via"),
        ([], "error: no name"),
        (["time", "--json"], "error: --json without --list"),
        (["x", "--from", "f", "--", "x"], "error: --from and a command, URL or --module at once"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(toolyard: Toolyard, arguments: list[str], said: str):
    outcome = toolyard("add", "--no-check", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(said)
    assert "hush" not in outcome.err
    assert not (toolyard.folder / "toolyard.toml").exists()


def test_folders_are_absolute_and_may_be_several(toolyard: Toolyard):
    toolyard("add", "filesystem", "--no-check", "-o", "folder=a", "-o", "folder=~/b")
    where = entry(toolyard, "filesystem")
    assert isinstance(where, Stdio)
    assert where.args[3:] == (str(toolyard.folder / "a"), str(toolyard.folder / "home" / "b"))
    toolyard("add", "filesystem", "--no-check", "--force")
    where = entry(toolyard, "filesystem")
    assert isinstance(where, Stdio)
    assert where.args[3:] == (str(toolyard.folder),)


def test_a_bundled_server_takes_the_place_of_an_archived_package(toolyard: Toolyard):
    outcome = toolyard("add", "sqlite", "--no-check", "-o", "file=shop.db")
    assert outcome.status == 0
    assert (
        "hint: this is Toolyard's own server `sql`; the package mcp-server-sqlite is archived" in outcome.err
    )
    database = f"sqlite:{toolyard.folder}/shop.db"
    assert entry(toolyard, "sqlite") == InProcess(
        module="toolyard.servers.sql", options={"database": database}
    )


def test_a_file_of_another_program_gets_a_command_that_it_finds(toolyard: Toolyard):
    file = toolyard.write("mcp.json", '{"mcpServers": {}}')
    assert toolyard("add", "time", "--no-check", "--config", "mcp.json").status == 0
    written = json.loads(file.read_text())["mcpServers"]["time"]
    assert written["command"] == sys.executable
    assert written["args"][:4] == ["-m", "toolyard", "envs", "run"]


def test_a_browser_is_found_on_this_machine_or_asked_for(toolyard: Toolyard, tmp_path: Path):
    browser = tmp_path / "bin" / "chromium"
    browser.parent.mkdir()
    browser.touch(0o755)
    assert toolyard("add", "playwright", "--no-check", PATH=str(browser.parent)).status == 0
    where = entry(toolyard, "playwright")
    assert isinstance(where, Stdio)
    assert where.args[-2:] == ("--executable-path", str(browser))
    browser.unlink()
    outcome = toolyard("add", "playwright", "--no-check", "--force", PATH=str(browser.parent))
    assert outcome.err.startswith(f"warning: no Chromium on PATH\nhint: apt-get install {CHROMIUM}")
    where = entry(toolyard, "playwright")
    assert isinstance(where, Stdio)
    assert where.args[-1] == "--isolated"


# What is asked for


def test_what_is_missing_is_an_error_that_says_what_to_do(toolyard: Toolyard):
    outcome = toolyard("add", "edgartools")
    assert outcome.status == 2
    assert outcome.err.splitlines() == [
        "error: 'edgartools' needs EDGAR_IDENTITY: your name and e-mail address, which the SEC asks for: "
        "'Ada Lovelace ada@example.com'",
        "hint: export EDGAR_IDENTITY=…, and the file will have ${EDGAR_IDENTITY}",
        "hint: or --env EDGAR_IDENTITY=… here, or run this in a terminal, which asks for it",
    ]
    secret = toolyard("add", "notion")
    assert secret.err.splitlines()[1] == "hint: get it at https://www.notion.so/profile/integrations"


def environment_of(outcome: Outcome, toolyard: Toolyard, name: str) -> object:
    assert outcome.status == 0, outcome.err
    text = (toolyard.folder / "toolyard.toml").read_text()
    (found,) = re.findall(rf"\[servers\.{name}\](?:.|\n)*?^env = (.*)$", text, re.M)
    return found


def test_a_variable_that_is_set_is_named_in_the_file(toolyard: Toolyard):
    outcome = toolyard("add", "edgartools", "--no-check", EDGAR_IDENTITY="Ada ada@example.com")
    assert environment_of(outcome, toolyard, "edgartools") == '{ EDGAR_IDENTITY = "${EDGAR_IDENTITY}" }'
    outcome = toolyard("add", "context7", "--no-check", CONTEXT7_API_KEY="hush")
    assert environment_of(outcome, toolyard, "context7") == '{ CONTEXT7_API_KEY = "${CONTEXT7_API_KEY}" }'


def test_a_value_that_is_given_is_written(toolyard: Toolyard):
    identity = "EDGAR_IDENTITY=Ada ada@example.com"
    outcome = toolyard("add", "edgartools", "--no-check", "--env", identity, "--env", "OTHER=1")
    assert environment_of(outcome, toolyard, "edgartools") == (
        '{ EDGAR_IDENTITY = "Ada ada@example.com", OTHER = "1" }'
    )


def test_a_secret_can_be_set_later_and_is_never_written_by_itself(toolyard: Toolyard):
    outcome = toolyard("add", "github", "--no-check")
    assert outcome.status == 0
    assert "warning: 'github' cannot be used yet: 'headers.Authorization' needs the variable" in outcome.err
    text = (toolyard.folder / "toolyard.toml").read_text()
    assert 'headers = { Authorization = "Bearer ${GITHUB_TOKEN}" }' in text
    given = toolyard("add", "github", "--no-check", "--force", "--env", "GITHUB_TOKEN=ghp_hush")
    assert "hint: 'headers.Authorization' is stored in the file" in given.err
    assert "ghp_hush" in (toolyard.folder / "toolyard.toml").read_text()


def test_a_terminal_asks_for_what_is_missing(toolyard: Toolyard):
    with toolyard.terminal("add", "edgartools", "--no-check") as user:
        user.expect("EDGAR_IDENTITY: your name and e-mail address")
        user.expect("  EDGAR_IDENTITY: ")
        user.type("Ada ada@example.com\n")
        assert user.end() == 0, user.seen
    where = entry(toolyard, "edgartools")
    assert isinstance(where, Stdio)
    assert where.env == {"EDGAR_IDENTITY": "Ada ada@example.com"}


@pytest.mark.parametrize("saved", [False, True])
def test_a_secret_that_is_typed_is_not_shown_and_written_only_if_asked(toolyard: Toolyard, saved: bool):
    with toolyard.terminal("add", "notion", "--no-check", *(["--save-secrets"] if saved else [])) as user:
        user.expect("NOTION_TOKEN: the secret of an internal integration  (https://www.notion.so/")
        user.expect("you will set NOTION_TOKEN): ")
        user.type("ntn_hush\n")
        assert user.end() == 0, user.seen
    assert "ntn_hush" not in user.raw
    text = (toolyard.folder / "toolyard.toml").read_text()
    assert ("ntn_hush" in text) is saved
    assert ("${NOTION_TOKEN}" in text) is not saved
    told = "NOTION_TOKEN is in no file: set it where the gateway runs"
    assert (told in user.seen) is not saved


def test_ctrl_c_at_a_question_writes_nothing(toolyard: Toolyard):
    with toolyard.terminal("add", "notion", "--no-check") as user:
        user.expect("you will set NOTION_TOKEN): ")
        user.interrupt(signal.SIGINT)
        assert user.end() == 130
    assert not (toolyard.folder / "toolyard.toml").exists()
