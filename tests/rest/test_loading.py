"""Tables as files: what is read, and how every mistake is told."""

import re
from pathlib import Path

import pytest

from toolyard.rest.definition.loader import compiled, load
from toolyard.rest.definition.model import DefinitionError

HEAD = """
name = "crm"
base_url = "https://crm.example/v1"
"""
TOOL = """
[tools.get_ticket]
description = "One ticket"
path = "/tickets/{id}"
parameters.id = { type = "integer", required = true }
"""

PAGES = '[paging.pages]\nkind = "page"\nposition = "page"\nsize = "size"\n'


def written(folder: Path, text: str, name: str = "crm.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def refused(file: Path, locale: str = "en") -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        load(file, locale)  # pyright: ignore[reportArgumentType]
    return caught.value


# Each says what is wrong on the line that ends with `# !`.
MISTAKES = {
    "syntax": (HEAD + "[tools.x  # !\n", r"Expected ']'"),
    "a key twice": (HEAD + 'name = "b"  # !\n', r"overwrite"),
    "unknown key": (HEAD + 'colour = "red"  # !\n' + TOOL, r"colour: there is no key 'colour' here"),
    "unknown key, nearly right": (
        HEAD + TOOL + 'methd = "GET"  # !',
        r"tools\.get_ticket\.methd: there is no key 'methd' here; did you mean 'method'\?",
    ),
    "unknown key in an inline table": (
        HEAD + TOOL + 'parameters.b = { type = "string", requird = true }  # !',
        r"parameters\.b\.requird: .*did you mean 'required'\?",
    ),
    "unknown key in a list of lines": (
        HEAD + TOOL + "result = { unwrap = 'a', rich = [\n'b',\n'c'], rch = [  # !\n'b',\n'c']}",
        r"result\.rch: there is no key 'rch' here; did you mean 'rich'\?",
    ),
    "missing key": (HEAD + '[tools.x]  # !\npath = "/x"', r"tools\.x: the key 'description' is missing"),
    "a number for a text": (
        HEAD + TOOL + "title = 3  # !",
        r"tools\.get_ticket\.title: must be text in quotes, not 3",
    ),
    "a text for a number": (
        HEAD + 'timeout = "long"  # !' + TOOL,
        r"timeout: must be a number, not the text 'long'",
    ),
    "a text for a list": (HEAD + TOOL + 'use = "a"  # !', r"use: must be a list: \[…\], not the text 'a'"),
    "a text for a table": (HEAD + 'auth = "bearer"  # !' + TOOL, r"auth: must be a table, not the text"),
    "an item of a list": (
        HEAD + TOOL + 'use = [\n  "a",\n  3,  # !\n]',
        r"tools\.get_ticket\.use\[1\]: must be text in quotes, not 3",
    ),
    "a choice": (
        HEAD + TOOL + 'method = "FETCH"  # !',
        r"method: 'FETCH' is not possible here; (did you mean 'PATCH'|known: GET, POST)",
    ),
    "a choice under another header": (
        HEAD + TOOL + '[paging.pages]\nkind = "pages"  # !',
        r"paging\.pages\.kind: 'pages' is not possible here; did you mean 'page'\?",
    ),
    "a place": (
        HEAD + TOOL + 'parameters."x.y" = { in = "payload" }  # !',
        r"in: 'payload' is not possible here; known: path, query, header, json, form, file, body, none",
    ),
    "no address": (
        'name = "a"\nbase_url = "crm.example"  # !' + TOOL,
        r"base_url: 'crm.example' is not a URL",
    ),
    "an address without a port": (
        'name = "a"\nbase_url = "https://crm.example:0"  # !' + TOOL,
        r"base_url: 'https://crm\.example:0' has an invalid port; use 1 to 65535",
    ),
    "an address of nobody": (
        'name = "a"\nbase_url = "https://crm..example"  # !' + TOOL,
        r"base_url: 'https://crm\.\.example' is not a URL",
    ),
    "an address with a password": (
        'name = "a"\nbase_url = "https://me:secret@crm.example"  # !' + TOOL,
        r"base_url: has a user or a password in it",
    ),
    "no tools": ("# !" + HEAD, r"there are no tools"),
    "a name of a tool": (
        HEAD + '[tools."get ticket"]  # !\ndescription = "x"\npath = "/x"',
        r"'get ticket' is not a tool name",
    ),
    "a header": (HEAD + TOOL + '[headers]\n"X Y" = "1"  # !', r"headers\.X Y: 'X Y' is not a header name"),
    "a header of ours": (HEAD + TOOL + '[headers]\nHost = "x"  # !', r"'Host' is written by Toolyard"),
    "a header in two lines": (HEAD + TOOL + '[headers]\nX = "a\\nb"  # !', r"one line of printable ASCII"),
    "auth without a name": (HEAD + TOOL + '[auth]  # !\nkind = "header"', r"the key 'name' is missing"),
    "a gate that nobody passes": (
        HEAD + TOOL + '[gate]  # !\npath = "/me"\nfield = "ok"',
        r"gate: no caller can send a key",
    ),
    "a group that no list of names can have": (
        HEAD + TOOL + 'groups = ["a", "b, c"]  # !',
        r"tools\.get_ticket\.groups\[1\]: 'b, c' is not a name of a group",
    ),
    "a flag without a gate": (HEAD + TOOL + 'flag = "mcp"  # !', r"there is no \[gate\]"),
    "paging without a position": (
        HEAD + TOOL + '[paging.p]  # !\nkind = "page"',
        r"paging\.p: the key 'position' is missing",
    ),
    "a cursor without a next": (
        HEAD + TOOL + '[paging.p]  # !\nkind = "cursor"\nposition = "after"',
        r"the key 'next' is missing",
    ),
    "a look-up in a paging that is not there": (
        HEAD + TOOL + '[lookups.a]\npath = "/a"\npaging = "pges"  # !\n' + PAGES,
        r"lookups\.a\.paging: there is no paging 'pges'; did you mean 'pages'\?",
    ),
    "a look-up that pages by itself": (
        HEAD + TOOL + '[lookups.a]\npath = "/a"\npaging = "pages"\nquery = { size = 9 }  # !\n' + PAGES,
        r"lookups\.a\.query\.size: the paging 'pages' sends it; leave it out",
    ),
    "two parts of a form under one name": (
        HEAD + '[tools.x]\ndescription = "x"\nmethod = "POST"\nbody = "multipart"\npath = "/x"\n'
        'parameters.a = { as = "note" }\nparameters.note = { in = "form" }  # !',
        r"parameters\.note: is sent as 'note', as 'a' is",
    ),
    "a default over the most": (
        HEAD + TOOL + '[paging.p]\nkind = "page"\nposition = "page"\nmost = 10\ndefault = 20  # !',
        r"paging\.p\.default: must be from 1 to 10",
    ),
    "unknown paging": (HEAD + TOOL + 'paging = "pags"  # !', r"there is no paging 'pags'"),
    "all pages of what": (HEAD + TOOL + "all_pages = true  # !", r"the tool has no 'paging'"),
    "a status": (HEAD + TOOL + '[errors]\n"4o4" = "x"  # !', r"'4o4' is not a status"),
    "a hole in a path": (
        HEAD + '[tools.x]\ndescription = "x"\npath = "/x/{idd}"  # !\nparameters.id = { required = true }',
        r"path: \{idd\} is not a parameter of the tool; did you mean 'id'\?",
    ),
    "a path that may be empty": (
        HEAD + '[tools.x]\ndescription = "x"\npath = "/x/{id}"\nparameters.id = {}  # !',
        r"parameters\.id: 'id' is in the path, so it must be required",
    ),
    "a path with a query": (HEAD + '[tools.x]\ndescription = "x"\npath = "/x?a=1"  # !', r"has a query"),
    "a path with a step back": (
        HEAD + '[tools.x]\ndescription = "x"\npath = "/x/../y"  # !',
        r"has '\.' or '\.\.' as a step",
    ),
    "a body where none is": (
        HEAD + TOOL + 'parameters.note = { in = "json" }  # !',
        r"parameters\.note\.in: GET has no body for it",
    ),
    "a file in JSON": (
        HEAD + TOOL + 'method = "POST"\nparameters.f = { type = "array", in = "file" }  # !',
        r"the body of the tool is json, not multipart; set its 'body' to 'multipart'",
    ),
    "unknown shared": (
        HEAD + "[shared.limit]\n[shared.page]\n" + TOOL + 'use = ["limit", "pge"]  # !',
        r"use\[1\]: there is no shared parameter 'pge'; did you mean 'page'\?",
    ),
    "shared and its own": (
        HEAD + "[shared.id]\n" + TOOL + 'use = ["id"]  # !',
        r"the tool has a parameter 'id' of its own",
    ),
    "unknown lookup": (
        HEAD + TOOL + 'parameters.desk = { lookup = "desks", gives = "id" }  # !',
        r"there is no lookup 'desks'",
    ),
    "a lookup that gives nothing": (
        HEAD + '[lookups.desks]\npath = "/desks"\n' + TOOL + 'parameters.desk = { lookup = "desks" }  # !',
        r"the key 'gives' is missing",
    ),
    "a lookup that needs more": (
        HEAD
        + '[lookups.stages]\npath = "/desks/{desk_id}/stages"\n'
        + TOOL
        + 'parameters.stage = { lookup = "stages", gives = "id" }  # !',
        r"it needs \{desk_id\}, which the tool does not have",
    ),
    "needs of nobody": (
        HEAD + TOOL + 'needs = [["id", "name"]]  # !',
        r"needs\[0\]\[1\]: the tool has no parameter",
    ),
    "a filter of nobody": (
        HEAD + TOOL + 'filters = { nme = ["name"] }  # !',
        r"the tool has no parameter 'nme'",
    ),
    "details of nobody": (
        HEAD + TOOL + 'result.details = "whole"  # !',
        r"the tool has no parameter 'whole'",
    ),
    "two under one name": (
        HEAD + TOOL + 'parameters.a = { as = "q" }\nparameters.q = {}  # !',
        r"parameters\.q: is sent as 'q', as 'a' is",
    ),
    "a value inside another": (
        HEAD + TOOL + "method = 'POST'\nparameters.a = {}\nparameters.b = { as = 'a.b' }  # !",
        r"parameters\.b: is sent as 'a\.b', and 'a' as 'a': one is inside the other",
    ),
    "a value inside what is always sent": (
        HEAD + TOOL + "method = 'POST'\nfixed.a = 1\nparameters.b = { as = 'a.b' }  # !",
        r"parameters\.b: is sent as 'a\.b', and 'fixed' as 'a'",
    ),
    "a path without a step": (
        HEAD + TOOL + "method = 'POST'\nparameters.a = { as = 'a..b' }  # !",
        r"parameters\.a\.as: 'a\.\.b' is not a path",
    ),
    "seconds that are no number": (HEAD + "timeout = nan  # !\n" + TOOL, r"timeout: must be a number of"),
    "seconds that never end": (HEAD + TOOL + "timeout = inf  # !", r"timeout: must be a number of seconds"),
    "a caller's header that none is like": (
        HEAD + TOOL + "[auth]\nkind = 'bearer'\ncaller = ['X-Key']  # !",
        r"auth\.caller\[0\]: 'X-Key' is never found; headers are compared as 'x-key'",
    ),
    "a type": (HEAD + TOOL + 'parameters.a = { type = "int" }  # !', r"'int' is not a JSON type"),
    "a default that does not fit": (
        HEAD + TOOL + 'parameters.a = { type = "integer", default = 3, schema = { maximum = 2 } }  # !',
        r"parameters\.a\.default: does not fit its own schema",
    ),
    "a date": (
        HEAD + TOOL + "parameters.a = { default = 2026-01-01 }  # !",
        r"JSON has no dates; put it in quotes",
    ),
    "a name that models refuse": (
        HEAD + TOOL + "parameters.'filter[a]' = {}  # !",
        r"'filter\[a\]' is not a name that models accept; .*'as' says what the API calls it",
    ),
    "paging that models refuse": (
        HEAD + TOOL + "paging = 'p'  # !\n[paging.p]\nkind = 'page'\nposition = 'page[number]'",
        r"'page\[number\]' is not a name that models accept; give the tool a parameter with as",
    ),
    "a sentence of an error": (HEAD + TOOL + "errors.404 = 'No {id}'  # !", r"\{id\} is unknown here"),
    "a query of a lookup": (
        HEAD + TOOL + "[lookups.a]\npath = '/a'\nquery = { q = '{nme}' }  # !",
        r"lookups\.a\.query\.q: only \{name\} can be used here",
    ),
    "a number beyond all": (
        HEAD + TOOL + "parameters.a = { type = 'integer', default = 99999999999999999999999 }  # !",
        r"parameters\.a\.default: is too large a number",
    ),
    "no schema": (
        HEAD + TOOL + 'parameters.a = { schema = { minLength = "x" } }  # !',
        r"parameters\.a\.schema: is not a JSON Schema",
    ),
    "a schema elsewhere": (
        HEAD + TOOL + 'parameters.a = { schema = { "$ref" = "https://elsewhere.example/s" } }  # !',
        r"refers to 'https://elsewhere.example/s', which is outside it",
    ),
    "an output that is a list": (
        HEAD + TOOL + 'output = { type = "array" }  # !',
        r"output: an output schema is of type 'object'",
    ),
    "a sentence": (
        HEAD + TOOL + 'result.said = "Closed {idd}"  # !',
        r"said: \{idd\} is not a parameter of the tool",
    ),
    "required with a default": (
        HEAD + TOOL + "parameters.a = { required = true, default = 'x' }  # !",
        r"required: a parameter with a default or a setting is never required",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_file_its_line_and_its_key(case: str, tmp_path: Path):
    text, told = MISTAKES[case]
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# !")]
    error = refused(written(tmp_path, text))
    assert error.lines[0].startswith(f"{tmp_path / 'crm.toml'}:{marked[0]}: "), error
    assert re.search(told, error.lines[0]), error
    assert len(error.lines) == 1, error


def test_mistakes_are_told_together_in_the_order_of_the_file_and_no_more_than_twenty(tmp_path: Path):
    tools = "".join(f'[tools.t{number}]\npath = "/"\n' for number in range(30))
    error = refused(written(tmp_path, HEAD + tools))
    assert len(error.lines) == 20
    lines = [int(told.split(":")[1]) for told in error.lines]
    assert lines == sorted(lines)
    assert str(error).endswith("… and 10 more")


WAYS = r'''
"name" = """crm
[tools.not] = { "a" = 1 }"""
base_url = 'https://crm.example' # "[
[ tools . "get_x" ]
description = """
path = "no" \"""
"""
path = "/x"
parameters = { "a\u0062" = { type = ["string", "null"], schema = { enum = ["]", "}",
  "#"] } }, c = { typ = "string" } }
parameters2 = 1
[[tools.get_x.needs2]]
[tools.get_x.result]
said2 = 2026-01-01T00:00:00Z
[tools.get_z]
get_y.path = "/y"
get_y.description = 5
'''


def test_lines_are_found_through_every_way_to_write_a_table(tmp_path: Path):
    error = refused(written(tmp_path, WAYS))
    places = {told.split(": ")[1]: int(told.split(":")[1]) for told in error.lines}
    assert places == {
        "tools.get_x.parameters.c.typ": 11,
        "tools.get_x.parameters2": 12,
        "tools.get_x.needs2": 13,
        "tools.get_x.result.said2": 15,
        "tools.get_z": 16,
        "tools.get_z.get_y": 17,
    }


def test_a_hand_written_json_file_has_lines_too(tmp_path: Path):
    text = (
        '{\n  "name": "crm",\n  "base_url": "https://x.example",\n  "tools": {\n    "t": {"pat": "/"}\n  }\n}'
    )
    error = refused(written(tmp_path, text, "crm.json"))
    assert [line.split(":")[1] for line in error.lines] == ["5", "5", "5"]
    syntax = refused(written(tmp_path, '{\n"name": oops}', "crm.json"))
    assert ":2: " in str(syntax)


def test_what_is_nested_too_deeply_or_no_text_at_all_is_refused(tmp_path: Path):
    text = '{"name": "a", "base_url": "https://a.example", "tools": {"a": {"path": "/", "description": "a", '
    deep = '{"items": ' * 450 + "{}" + "}" * 450
    refused(written(tmp_path, f'{text}"output": {deep}}}}}}}', "crm.json"))
    half = refused(written(tmp_path, text + '"title": "\\ud800"}}}', "crm.json"))
    assert "unpaired surrogate" in str(half)
    array = "[" * 5000 + "]" * 5000
    assert "nested too deeply" in str(refused(written(tmp_path, HEAD + f"x = {array}")))


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path):
    assert "nowhere.toml: No such file" in str(refused(tmp_path / "nowhere.toml"))
    file = tmp_path / "crm.toml"
    file.write_bytes(HEAD.encode() + b'title = "caf\xe9"\n')
    assert f"{file}:4: not UTF-8" in str(refused(file))


PORTUGUESE = """
title = "Clientes"
errors.404 = "Não existe"
shared.limit = "Quantos"
[tools.get_ticket]
description = "Um chamado"
parameters.id = "O número"
"""
BOTH = (
    HEAD
    + 'title = "Customers"\n[errors]\n"404" = "There is none"\n"403" = "Not allowed"\n'
    + '[shared.limit]\ntype = "integer"\ndescription = "How many"\n'
    + TOOL
    + 'use = ["limit"]\n'
)


def test_another_language_lies_over_the_english_texts_and_leaves_what_it_does_not_say(tmp_path: Path):
    file = written(tmp_path, BOTH)
    written(tmp_path, PORTUGUESE, "crm.pt.toml")
    table = load(file, "pt")
    assert (table.title, table.shared["limit"].description) == ("Clientes", "Quantos")
    assert table.errors == {"404": "Não existe", "403": "Not allowed"}
    assert table.tools["get_ticket"].description == "Um chamado"
    assert table.tools["get_ticket"].parameters["id"].description == "O número"
    assert table.tools["get_ticket"].parameters["id"].required
    assert load(file).title == "Customers"


def test_a_tool_may_describe_a_shared_parameter_in_its_own_words(tmp_path: Path):
    file = written(tmp_path, BOTH)
    written(tmp_path, '[tools.get_ticket.parameters]\nlimit = "Só aqui"', "crm.pt.toml")
    tool = load(file, "pt").tools["get_ticket"]
    assert (tool.parameters["limit"].description, tool.parameters["limit"].type) == ("Só aqui", "integer")
    assert tool.use == ()


def test_texts_for_what_is_not_there_are_mistakes_of_the_overlay(tmp_path: Path):
    file = written(tmp_path, BOTH)
    overlay = 'denied = "Não"\n[tools.get_tickt]\ntitle = "x"\n[tools.get_ticket]\nparameters.idd = "x"\n'
    written(tmp_path, overlay, "crm.pt.toml")
    error = refused(file, "pt")
    assert [line.split(": ", 1)[0].rsplit(":")[-1] for line in error.lines] == ["1", "2", "5"]
    assert all("crm.pt.toml" in line for line in error.lines)
    assert "the definition has no tool 'get_tickt'; did you mean 'get_ticket'?" in error.lines[1]


def test_a_compiled_table_stands_for_its_file_where_that_is_not(tmp_path: Path):
    file = written(tmp_path, BOTH)
    written(tmp_path, PORTUGUESE, "crm.pt.toml")
    whole = {locale: load(file, locale) for locale in ("en", "pt")}
    for locale, table in whole.items():
        (tmp_path / f"crm.{locale}.json").write_bytes(compiled(table))
    file.unlink()
    assert {locale: load(file, locale) for locale in ("en", "pt")} == whole
    assert load(tmp_path / "crm.pt.json") == whole["pt"]


def test_a_compiled_table_of_another_version_is_refused(tmp_path: Path):
    data = compiled(load(written(tmp_path, BOTH)))
    for other in (data.replace(b'"toolyard_table":1', b'"toolyard_table":99'), data[:-20]):
        (tmp_path / "old.en.json").write_bytes(other)
        assert "compile it again" in str(refused(tmp_path / "old.toml"))
