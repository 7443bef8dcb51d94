"""`toolyard extras`, and the offer to install what a command misses, in an environment that has no extra."""

import json
import os
import re
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

from tests.cli.bare import bare_environment
from tests.cli.packages import from_wheels, make_wheel
from tests.cli.running import Toolyard
from toolyard.extras import PURPOSES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["pip"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Toolyard:
    """Toolyard in an environment with pip, or with uv alone."""
    return Toolyard(
        tmp_path, bare_environment(tmp_path / "bare", *(["pip"] if request.param == "pip" else []))
    )


@pytest.fixture
def wheels(tmp_path: Path) -> dict[str, str]:
    make_wheel(tmp_path / "wheels", "yt-dlp", "2030.1.1")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where uv is
    return {**from_wheels(tmp_path / "wheels"), "PATH": path}


def test_every_extra_is_listed_and_says_what_for():
    assert set(metadata("toolyard").get_all("Provides-Extra") or []) - {"dev"} == set(PURPOSES)


@pytest.mark.parametrize("bare", ["pip", "uv"], indirect=True)
def test_an_extra_is_installed_where_the_command_runs(bare: Toolyard, wheels: dict[str, str]):
    listed = {one["extra"]: one for one in json.loads(bare("extras", "--json").out)}
    assert not any(one["installed"] for one in listed.values())
    assert listed["youtube"]["missing"] == ["yt-dlp"]
    added = bare("extras", "add", "youtube", **wheels)
    assert (added.status, added.err.splitlines()[0]) == (0, "installing yt-dlp")
    listed = {one["extra"]: one for one in json.loads(bare("extras", "--json").out)}
    assert [name for name, one in listed.items() if one["installed"]] == ["youtube"]
    assert bare("run", "youtube").status == 0


def test_an_error_about_an_extra_offers_it_and_the_command_goes_on(bare: Toolyard, wheels: dict[str, str]):
    with bare.terminal("list", "youtube", **wheels) as terminal:
        terminal.expect("Install youtube now, and try again? [Y/n]")
        terminal.type("\n")
        assert terminal.end() == 0
    assert "download_video" in terminal.seen


def test_who_says_no_gets_the_error_alone(bare: Toolyard):
    with bare.terminal("list", "youtube") as terminal:
        terminal.expect("[Y/n]")
        terminal.type("n\n")
        assert terminal.end() == 2
    assert "needs yt_dlp" in terminal.seen


def test_nobody_is_asked_off_a_terminal(bare: Toolyard, wheels: dict[str, str]):
    outcome = bare("list", "youtube", stdin="y\n", **wheels)
    assert outcome.status == 2
    command = re.search(r"needs yt_dlp: (.+)", outcome.err)
    assert command is not None
    assert command[1].endswith("extras add youtube")
    assert "[Y/n]" not in outcome.err


def test_what_cannot_be_installed_is_an_error_with_the_packages(bare: Toolyard, tmp_path: Path):
    (tmp_path / "nothing").mkdir()
    outcome = bare("extras", "add", "objects", **from_wheels(tmp_path / "nothing"))
    assert outcome.status == 2
    assert "obstore>=0.12" in outcome.err.splitlines()[-1]


def test_an_unknown_extra_is_named_with_those_that_there_are(toolyard: Toolyard):
    outcome = toolyard("extras", "add", "sqll")
    assert (outcome.status, outcome.err.splitlines()[0]) == (2, "error: no extra 'sqll'")
    assert "sql, " in outcome.err.splitlines()[1]
    assert sys.executable not in outcome.err


def test_a_result_names_sql_only_where_it_works(bare: Toolyard, toolyard: Toolyard):
    bare.write("toolyard.toml", f'[servers.shop]\nmodule = "{ROOT}/examples/shop.py"\n')
    for each, works in ((bare, False), (toolyard, True)):
        with each.serving() as gateway:
            result = json.loads(each("call", "mcp__shop__list_orders", "--url", gateway.url, "--json").out)[
                "structuredContent"
            ]
            assert ("sql=" in result["hint"]) is works
            assert ("SQL" in each("show", "read_result", "--url", gateway.url).out) is works
            query = (
                "id=" + result["storage"]["resource"].rpartition("/")[2],
                "sql=SELECT 1 AS one FROM result LIMIT 1",
            )
            read = each("call", "read_result", *query, "--url", gateway.url)
            assert (read.out if works else read.err).count("extras add sql") == (0 if works else 1)
