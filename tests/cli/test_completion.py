"""Shell completion: what a shell is told when Tab is pressed, and the lines that set it up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.running import Toolyard
from toolyard.cli import COMMANDS, main

YARD = '[servers.demo]\nmodule = "demo"\n[servers.gone]\ncommand = "no-such-program"\n'


def completed(toolyard: Toolyard, *words: str, shell: str = "zsh") -> list[str]:
    """The values for the last of the words, as click hands them to the shell."""
    line, number = " ".join(["toolyard", *words]), len(words)
    variables = {"_TOOLYARD_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(number)}
    outcome = toolyard(**variables)
    assert outcome.err == ""
    return outcome.out.splitlines()[1::3]


def test_commands_and_options_are_completed(toolyard: Toolyard):
    assert {"list", "call", "read", "show", "completion"} <= set(completed(toolyard, "''"))
    assert completed(toolyard, "pro") == ["prompt"]
    assert "--wait" in completed(toolyard, "list", "--w")


def test_every_command_is_completed_and_so_are_its_options_and_subcommands(toolyard: Toolyard):
    """From the registry of commands: a new one needs no line of its own."""
    assert set(completed(toolyard, "''")) == set(COMMANDS)
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        if isinstance(command, click.Group):
            assert set(completed(toolyard, name, "''")) == set(command.list_commands(context))
        else:
            assert "--help" in completed(toolyard, name, "--h")


def test_tools_of_the_configuration_are_completed_from_what_was_last_seen(toolyard: Toolyard):
    toolyard.write("toolyard.toml", YARD)
    assert completed(toolyard, "call", "mcp__demo__a") == []  # nothing was seen yet, and nothing is started
    assert toolyard("list").status == 3
    assert completed(toolyard, "call", "mcp__demo__a") == ["mcp__demo__add", "mcp__demo__ask_name"]
    assert completed(toolyard, "show", "mcp__demo__ec") == ["mcp__demo__echo"]
    assert completed(toolyard, "prompt", "mcp__demo__e") == ["mcp__demo__explain"]
    assert r"demo\://about" in completed(toolyard, "read", "demo:")
    assert completed(toolyard, "remove", "g") == ["gone"]
    assert completed(toolyard, "search", "--server", "d") == ["demo"]


def test_a_configuration_that_was_named_is_the_one_that_counts(toolyard: Toolyard):
    toolyard.write("other.toml", '[servers.other]\nmodule = "demo"\n')
    assert toolyard("list", "--config", "other.toml").status == 0
    assert completed(toolyard, "call", "--config", "other.toml", "mcp__other__ec") == ["mcp__other__echo"]


def test_without_a_configuration_it_is_the_demo_and_servers_that_come_along(toolyard: Toolyard):
    assert completed(toolyard, "call", "ech") == ["echo"]
    assert completed(toolyard, "run", "ti") == ["tiflux"]
    assert "tiflux" in completed(toolyard, "list", "ti")


EVIL = """
from toolyard.kit import Server

server = Server("evil")
for number, tail in enumerate(("$(touch owned)", ";touch owned", "`x`", "good", "a b", "\\x1b[2J")):
    server.add_resource(lambda: "x", f"evil://{tail}", name=f"r{number}")
"""


def test_no_address_is_offered_that_a_shell_would_run(toolyard: Toolyard):
    toolyard.write("evil.py", EVIL)
    toolyard.write("toolyard.toml", '[servers.evil]\nmodule = "evil.py"\n')
    assert "evil://;touch owned" in toolyard("list").out
    lines = toolyard(_TOOLYARD_COMPLETE="bash_complete", COMP_WORDS="toolyard read evil", COMP_CWORD="2").out
    assert lines == "plain,evil://good\n"


@pytest.mark.parametrize("text", ["[servers", "[servers.a]\nx = 1"])
def test_a_broken_configuration_completes_nothing_and_says_nothing(toolyard: Toolyard, text: str):
    toolyard.write("toolyard.toml", text)
    assert completed(toolyard, "call", "m") == []
    assert completed(toolyard, "remove", "m") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_lines_for_each_shell_are_printed(toolyard: Toolyard, shell: str):
    outcome = toolyard("completion", shell)
    assert (outcome.status, outcome.err) == (0, "")
    assert f"_TOOLYARD_COMPLETE={shell}_complete" in outcome.out
    assert toolyard("completion", SHELL=f"/usr/bin/{shell}") == outcome
    assert toolyard("completion", SHELL="/bin/odd").err.startswith("error: no completion for the shell 'odd'")


def test_bash_itself_completes_with_those_lines(toolyard: Toolyard, tmp_path: Path):
    toolyard.write("toolyard.toml", YARD)
    toolyard("list")
    bash = shutil.which("bash")
    assert bash
    program = tmp_path / "bin" / "toolyard"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolyard "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(toolyard completion bash)"
        COMP_WORDS=(toolyard call mcp__demo__ec) COMP_CWORD=2
        _toolyard_completion toolyard
        printf '%s\\n' "${COMPREPLY[@]}"
        complete -p toolyard
    """
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "XDG_STATE_HOME": str(toolyard.state)}
    done = subprocess.run(
        [bash, "-c", script],
        cwd=toolyard.folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    first, second = done.stdout.splitlines()
    assert first == "mcp__demo__echo", done.stderr
    assert second.endswith("toolyard")
