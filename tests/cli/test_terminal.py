"""What a person at a terminal sees and can answer."""

import signal

import pytest

from tests.cli.running import Served, Toolyard

HOSTILE = r"""
from toolyard.kit import Context, Server

server = Server("hostile", title="\x1b]0;owned\x07title")

MARKS = "\u200e\u200f\u061c\u2028\u2029\U000e0041\u202e"

@server.tool
def marked() -> str:
    return "marked " + MARKS

@server.tool
def structured() -> dict[str, str]:
    return {"a": "b\x9b" + MARKS}

@server.tool
async def form(ctx: Context) -> str:
    evil = "\x1b]0;owned\x07\x1b[2J"
    fields = {
        "one": {"type": "string", "format": f"date{evil}"},
        "two": {"type": "string", "title": f"two\nerror: fake{evil}"},
        "three": {"type": "string", "enum": [f"red\nerror: fake{evil}", "blue"]},
        "four": {"type": "string", "default": f"four\nerror: fake{evil}"},
    }
    await ctx.elicit("Please fill", {"type": "object", "properties": fields, "required": ["one"]})
    return "filled"

@server.tool(description="nice \x1b[2Jtool‮gnp.exe")
def tool() -> str:
    return "result \x1b[31m\x9b1m"
"""
FORM = """
from toolyard.kit import Context, Server

server = Server("form")
FIELDS = {
    "age": {"type": "integer", "minimum": 18},
    "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "green", "blue"]}},
    "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
    "agree": {"type": "boolean", "default": True},
    "note": {"type": "string"},
}

@server.tool
async def fill(ctx: Context) -> str:
    form = {"type": "object", "properties": FIELDS, "required": ["age", "colours"]}
    answer = await ctx.elicit("Please fill", form)
    return f"{answer.action} {answer.content}"

@server.tool
async def visit(ctx: Context) -> str:
    return (await ctx.elicit_url("Please pay", "https://pay.example/1")).action
"""


def test_the_list_is_a_coloured_table_that_fits_the_width(toolyard: Toolyard):
    with toolyard.terminal("list") as terminal:
        assert terminal.end() == 0
    assert "\x1b[36m" in terminal.raw
    assert "Count a text's characters" in terminal.seen
    assert max(len(line) for line in terminal.seen.splitlines()) <= 100


def test_no_color_is_respected(toolyard: Toolyard):
    for arguments in (["list"], ["call", "nothing"]):
        with toolyard.terminal(*arguments, NO_COLOR="1") as terminal:
            terminal.end()
        assert "\x1b[3" not in terminal.raw


def test_structured_results_are_indented(toolyard: Toolyard):
    with toolyard.terminal("call", "add", "a=1", "b=2") as terminal:
        assert terminal.end() == 0
    assert terminal.seen == '{\n  "sum": 3.0\n}\n'


def test_parts_of_a_structured_result_that_fit_on_a_line_stand_on_one(toolyard: Toolyard):
    text = " ".join(["{" * 30, "b b b", "a a"])
    with toolyard.terminal("call", "text_statistics", f"text={text}", "top=2") as terminal:
        assert terminal.end() == 0
    assert '  "most_common": [{"word": "b", "count": 3}, {"word": "a", "count": 2}]\n}' in terminal.seen
    with toolyard.terminal("call", "text_statistics", f"text={text}", "top=2", COLUMNS="40") as terminal:
        assert terminal.end() == 0
    assert '  "most_common": [\n    {"word": "b", "count": 3},\n    {"word"' in terminal.seen
    assert max(len(line) for line in terminal.seen.splitlines()) <= 40


def test_progress_is_a_bar_that_goes_away(toolyard: Toolyard):
    # The bar is drawn ten times a second: a step has to last for some of them to be seen for sure.
    with toolyard.terminal("call", "countdown", "steps=2", "pause=0.5") as terminal:
        terminal.expect("1 to go")
        assert terminal.end() == 0
    assert "━" in terminal.seen
    assert terminal.raw.endswith("\x1b[2KCounted down from 2.\r\n")


@pytest.mark.parametrize("remote", [False, True])
def test_a_form_is_filled_field_by_field(toolyard: Toolyard, demo: Served, remote: bool):
    place = ["--url", demo.url] if remote else []
    with toolyard.terminal("call", "ask_name", *place) as terminal:
        terminal.expect("What should I call you?  (Ctrl-D declines)")
        terminal.expect("Your name: ")
        terminal.type("\n")
        terminal.expect("this field is required")
        terminal.type("Ada\n")
        terminal.expect("Manner (formal, warm) [warm]: ")
        terminal.type("rude\n")
        terminal.expect("it must be one of formal, warm")
        terminal.type("FORMAL\n")
        terminal.expect("Good day, Ada.")
        assert terminal.end() == 0


def test_every_kind_of_field_is_checked_before_it_is_sent(toolyard: Toolyard):
    toolyard.write("form.py", FORM)
    with toolyard.terminal("call", "fill", "--target", "form.py") as terminal:
        terminal.expect("age: ")
        terminal.type("old\n")
        terminal.expect("it must be an integer")
        terminal.type("17\n")
        terminal.expect("17 is less than the minimum of 18")
        terminal.type("18\n")
        terminal.expect("colours (several of red, green, blue): ")
        terminal.type("red, blue\n")
        terminal.expect("size (Small, Large) [optional]: ")
        terminal.type("large\n")
        terminal.expect("agree (yes, no) [yes]: ")
        terminal.type("no\n")
        terminal.expect("note [optional]: ")
        terminal.type("\n")
        expected = {"age": 18, "colours": ["red", "blue"], "size": "l", "agree": False}
        terminal.expect(f"accept {expected}")
        assert terminal.end() == 0


def test_ctrl_d_declines_a_form(toolyard: Toolyard):
    with toolyard.terminal("call", "ask_name") as terminal:
        terminal.expect("Your name: ")
        terminal.type("\x04")
        terminal.expect("Hello, whoever you are.")
        assert terminal.end() == 0


def test_a_link_is_shown_and_waits_for_enter(toolyard: Toolyard):
    toolyard.write("form.py", FORM)
    with toolyard.terminal("call", "visit", "--target", "form.py") as terminal:
        terminal.expect("https://pay.example/1")
        terminal.expect("open this URL in a browser, then press Enter: ")
        terminal.type("\n")
        terminal.expect("accept")
        assert terminal.end() == 0


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize(
    ("arguments", "shown"), [(["ask_name"], "Your name: "), (["countdown", "steps=60"], "60 to go")]
)
def test_ctrl_c_ends_a_call_with_status_130(
    toolyard: Toolyard, demo: Served, remote: bool, arguments: list[str], shown: str
):
    place = ["--url", demo.url] if remote else []
    with toolyard.terminal("call", *arguments, *place) as terminal:
        terminal.expect(shown)
        terminal.interrupt(signal.SIGINT)
        assert terminal.end() == 130
    assert "Traceback" not in terminal.seen


def test_what_a_server_says_cannot_steer_the_terminal(toolyard: Toolyard):
    toolyard.write("hostile.py", HOSTILE)
    for arguments in (["list", "hostile.py"], ["call", "tool", "--target", "hostile.py"]):
        with toolyard.terminal(*arguments, NO_COLOR="1") as terminal:
            assert terminal.end() == 0
        for sequence in ("\x1b]0;", "\x07", "\x1b[2J", "\u202e", "\x1b[31m", "\x9b"):
            assert sequence not in terminal.raw
    assert r"result \x1b[31m\x9b1m" in terminal.seen


def test_marks_that_nobody_sees_are_spelt_out(toolyard: Toolyard):
    toolyard.write("hostile.py", HOSTILE)
    spelt = r"\u200e\u200f\u061c\u2028\u2029\U000e0041\u202e"
    for tool, shown in (("marked", f"marked {spelt}"), ("structured", rf'"a": "b\x9b{spelt}"')):
        with toolyard.terminal("call", tool, "--target", "hostile.py") as terminal:
            assert terminal.end() == 0
        assert shown in terminal.seen


HIDDEN = r"""
import sys
import unicodedata

from toolyard.kit import Server

server = Server("hidden")

# Arabic, Syriac and Kaithi signs before numbers are of this category too, and can be seen.
SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
FORMATS = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]
FILLERS = [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0]
SELECTORS = [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]

@server.tool
def spelt() -> str:
    codes = [*(code for code in FORMATS if code not in SEEN), *FILLERS, *SELECTORS]
    return " ".join(f"a{chr(code)}b" for code in codes)

@server.tool
def whole() -> str:
    return "👩‍👩‍👧 ❤️ 1️⃣ می‌خواهم क्‍ष"
"""


def test_no_character_that_cannot_be_seen_reaches_the_terminal(toolyard: Toolyard):
    toolyard.write("hidden.py", HIDDEN)
    with toolyard.terminal("call", "spelt", "--target", "hidden.py") as terminal:
        assert terminal.end() == 0
    hidden = {character for character in terminal.seen if character not in "\n" and not character.isascii()}
    assert hidden == set()
    for spelt in (r"a\ufeffb", r"a\xadb", r"a\u200bb", r"a\u200db", r"a\u2060b", r"a\ufe0fb", r"a\u3164b"):
        assert spelt in terminal.seen


def test_what_emoji_and_scripts_are_joined_by_is_left_to_them(toolyard: Toolyard):
    toolyard.write("hidden.py", HIDDEN)
    with toolyard.terminal("call", "whole", "--target", "hidden.py") as terminal:
        assert terminal.end() == 0
    assert "👩‍👩‍👧 ❤️ 1️⃣ می‌خواهم क्‍ष" in terminal.seen


def test_a_form_cannot_steer_the_terminal_or_begin_a_line(toolyard: Toolyard):
    toolyard.write("hostile.py", HOSTILE)
    spelt = r"\x1b]0;owned\x07\x1b[2J"
    with toolyard.terminal("call", "form", "--target", "hostile.py", NO_COLOR="1") as terminal:
        terminal.expect(f"  one (date{spelt}): ")
        terminal.type("today\n")
        terminal.expect(f"  two error: fake{spelt} [optional]: ")
        terminal.type("\n")
        terminal.expect(f"  three (red error: fake{spelt}, blue) [optional]: ")
        terminal.type("green\n")
        terminal.expect(f"it must be one of red error: fake{spelt}, blue")
        terminal.type("blue\n")
        terminal.expect(f"  four [four error: fake{spelt}]: ")
        terminal.type("\n")
        terminal.end()
    assert "\x1b]0;" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw
    assert "\nerror: fake" not in terminal.seen


def test_stdio_in_a_terminal_says_that_it_waits_for_a_client(toolyard: Toolyard):
    with toolyard.terminal("stdio") as terminal:
        terminal.expect("hint: waiting for an MCP client on standard input")
        terminal.type("\x04")
        assert terminal.end() == 0
