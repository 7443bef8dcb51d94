"""`toolyard read` and `toolyard prompt`: resources and prompts from the command line."""

import json
import subprocess

import pytest

from tests.cli.running import COMMAND, Served, Toolyard
from tests.cli.stranger import Message, answer, modern, stranger

SHELF = r"""
from toolyard.kit import Server

server = Server("shelf")

@server.resource("shelf://picture", mime_type="image/png")
def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\xff"

@server.resource("shelf://note")
def note() -> str:
    return "evil \x1b[2J note"

@server.resource("shelf://books/{author}/{title}")
def book(author: str, title: str) -> str:
    return f"{title} by {author}"

@server.prompt
def greet(name: str) -> str:
    return f"Greet {name}."
"""


@pytest.fixture
def shelf(toolyard: Toolyard) -> Toolyard:
    toolyard.write("shelf.py", SHELF)
    toolyard.write("toolyard.toml", '[servers.shelf]\nmodule = "shelf.py"\n')
    return toolyard


# read


def test_a_resource_is_printed_as_it_is(shelf: Toolyard, demo: Served):
    assert shelf("read", "shelf://note").out == "evil \x1b[2J note\n"
    assert shelf("read", "shelf://note", "--target", "shelf.py").out == "evil \x1b[2J note\n"
    remote = shelf("read", "demo://about", "--url", demo.url)
    assert (remote.status, remote.err) == (0, "")
    assert remote.out.startswith("# The Toolyard demo\n")


def test_on_a_terminal_a_resource_cannot_steer_it(shelf: Toolyard):
    with shelf.terminal("read", "shelf://note") as terminal:
        assert terminal.end() == 0
    assert r"evil \x1b[2J note" in terminal.seen


def test_a_template_is_filled_with_key_and_value(shelf: Toolyard):
    template = "shelf://books/{author}/{title}"
    outcome = shelf("read", template, "author=Ana Silva", "title=a/b")
    assert (outcome.status, outcome.out) == (0, "a/b by Ana Silva\n")
    assert shelf("read", "shelf://books/ana/it").out == "it by ana\n"
    missing = shelf("read", template, "author=x")
    assert missing.status == 2
    assert missing.err.startswith(f"error: {template!r} needs 'title'\nhint: ")
    unknown = shelf("read", template, "author=x", "title=y", "colour=z")
    assert unknown.err.startswith(f"error: {template!r} has no variable 'colour'\n")
    assert shelf("read", "shelf://note", "a=b").err.startswith("error: 'shelf://note' has no variable 'a'\n")


def test_bytes_go_into_a_pipe_or_a_file_and_never_to_a_terminal(shelf: Toolyard):
    whole = b"\x89PNG\r\n\x1a\n\x00\xff"
    piped = subprocess.run(
        [*COMMAND, "read", "shelf://picture"], cwd=shelf.folder, capture_output=True, check=True
    )
    assert piped.stdout == whole
    with shelf.terminal("read", "shelf://picture") as terminal:
        assert terminal.end() == 2
    assert "error: 'shelf://picture' is binary: image/png, 10 bytes" in terminal.seen
    assert "--output FILE" in terminal.seen
    assert "PNG" not in terminal.raw
    saved = shelf("read", "shelf://picture", "--output", "picture.png")
    assert (saved.status, saved.out) == (0, "")
    assert saved.err == "wrote picture.png: image/png, 10 bytes\n"
    assert (shelf.folder / "picture.png").read_bytes() == whole
    again = shelf("read", "shelf://note", "-o", "picture.png")
    assert again.status == 2
    assert again.err == "error: 'picture.png' exists\nhint: --force overwrites it\n"
    assert shelf("read", "shelf://note", "-o", "picture.png", "--force").status == 0
    assert (shelf.folder / "picture.png").read_text() == "evil \x1b[2J note"


def test_json_is_the_whole_answer(shelf: Toolyard):
    found = json.loads(shelf("read", "shelf://picture", "--json").out)
    assert found["contents"][0]["uri"] == "shelf://picture"
    assert found["contents"][0]["blob"]


def test_an_unknown_resource_gets_the_nearest_ones(shelf: Toolyard):
    outcome = shelf("read", "shelf://nota")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: no resource 'shelf://nota'")
    assert "hint: did you mean 'shelf://note'" in outcome.err


@pytest.mark.parametrize(
    "contents",
    [None, [], "x", [5], [{"uri": "x", "blob": "not base64!"}], [{"uri": "x", "text": 5}], [{}]],
)
def test_an_answer_that_makes_no_sense_is_an_error(toolyard: Toolyard, contents: object):
    def read(message: Message) -> list[bytes]:
        return answer(message, {"contents": contents})

    with stranger(modern, resources_read=read) as url:
        outcome = toolyard("read", "x://y", "--url", url)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert "foreseen" not in outcome.err


# prompt


def test_one_message_of_the_user_is_text_alone(shelf: Toolyard):
    assert shelf("prompt", "mcp__shelf__greet", "name=Ada").out == "Greet Ada.\n"
    assert shelf("prompt", "greet", "name=Ada", "--target", "shelf.py").out == "Greet Ada.\n"


def test_several_messages_come_with_their_roles(toolyard: Toolyard, demo: Served):
    expected = (
        "user:\nExplain rain to a child. Begin with one sentence that says it all.\n\n"
        "assistant:\nIn one sentence:\n"
    )
    for place in ([], ["--url", demo.url]):
        outcome = toolyard("prompt", "explain", "topic=rain", "audience=a child", *place)
        assert (outcome.status, outcome.out, outcome.err) == (0, expected, "")
    whole = json.loads(toolyard("prompt", "explain", "topic=rain", "--json").out)
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant"]


def test_what_a_prompt_needs_and_does_not_take_is_told(toolyard: Toolyard):
    missing = toolyard("prompt", "explain")
    assert missing.status == 2
    assert missing.err == "error: prompt 'explain' needs 'topic'\nhint: explain takes topic, audience?\n"
    unknown = toolyard("prompt", "explain", "topic=x", "audiense=y")
    assert (
        unknown.err
        == "error: prompt 'explain' takes no argument 'audiense'\nhint: did you mean 'audience'?\n"
    )
    twice = toolyard("prompt", "explain", "topic=x", "topic=y")
    assert twice.err.startswith("error: argument 'topic' was given twice")
    assert toolyard("prompt", "explain", "topic").err.startswith("error: 'topic' is not KEY=VALUE")
    nearest = toolyard("prompt", "explane", "topic=x")
    assert nearest.err.startswith("error: no prompt 'explane'\nhint: did you mean 'explain'?")


def test_a_server_without_resources_and_prompts_says_so(toolyard: Toolyard):
    toolyard.write("bare.py", "from toolyard.kit import Server\nserver = Server('bare')\n")
    assert "no resource 'x://y'" in toolyard("read", "x://y", "--target", "bare.py").err
    assert "no prompt 'p'" in toolyard("prompt", "p", "--target", "bare.py").err
