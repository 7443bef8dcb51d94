"""Every mistake of a configuration at once."""

from pathlib import Path

from toolyard.config.diagnosis import diagnose


def write(folder: Path, text: str, name: str = "toolyard.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def problems(file: Path, **env: str) -> list[tuple[str, str, str]]:
    return [(one.level, one.place.rpartition("/")[2], one.problem) for one in diagnose(file, env).findings]


def test_a_file_without_mistakes_has_no_findings(tmp_path: Path):
    found = diagnose(write(tmp_path, '[servers.demo]\nmodule = "demo"\n'))
    assert found.is_usable
    assert found.findings == ()
    assert found.config is not None


def test_each_table_and_each_server_is_looked_at(tmp_path: Path):
    file = write(
        tmp_path,
        """
        colour = "red"
        [gateway]
        prot = 1
        [results]
        max_items = 0
        [limits]
        rules = [{ who = ["a"] }]
        [servers.one]
        modul = "demo"
        [servers.two]
        module = "demo"
        timeout = "long"
        """,
    )
    found = problems(file)
    assert [place for _, place, _ in found] == [
        "toolyard.toml",
        "toolyard.toml: [gateway]",
        "toolyard.toml",
        "toolyard.toml: [limits.rules 1]",
        "toolyard.toml: [servers.one]",
        "toolyard.toml: [servers.two]",
    ]
    assert found[0][2] == "unknown key 'colour'"
    assert "max_items" in found[2][2]
    assert {level for level, _, _ in found} == {"error"}
    assert diagnose(file).config is None


def test_a_hint_says_what_was_meant(tmp_path: Path):
    (found,) = diagnose(write(tmp_path, "[gateway]\nprot = 1\n")).findings
    assert (found.problem, found.hint) == ("has an unknown key 'prot'", "did you mean 'port'?")


def test_variables_that_are_not_set_are_named_by_server(tmp_path: Path):
    text = '[servers.docs]\nurl = "https://example.com/mcp"\nheaders = { Authorization = "${TOKEN}" }\n'
    file = write(tmp_path, text)
    ((level, place, problem),) = problems(file)
    assert (level, place) == ("error", "toolyard.toml: [servers.docs]")
    assert "'TOKEN'" in problem
    assert problems(file, TOKEN="hush") == []


def test_toolyard_itself_need_not_be_on_the_path(tmp_path: Path):
    file = write(tmp_path, '[servers.time]\ncommand = "toolyard"\nenv = { PATH = "/nowhere" }\n')
    assert problems(file) == []


def test_a_missing_program_and_a_missing_folder_are_found(tmp_path: Path):
    file = write(
        tmp_path,
        '[servers.a]\ncommand = "no-such-program"\n[servers.b]\ncommand = "sh"\ncwd = "nowhere"\n',
    )
    first, second = problems(file)
    assert first[1:] == ("toolyard.toml: [servers.a]", "starts 'no-such-program', which is not on PATH")
    assert second[1] == "toolyard.toml: [servers.b]"
    assert "which does not exist" in second[2]


def test_a_program_beside_its_working_folder_is_found(tmp_path: Path):
    program = write(tmp_path, "#!/bin/sh\n", "serve.sh")
    program.chmod(0o755)
    assert problems(write(tmp_path, '[servers.a]\ncommand = "./serve.sh"\ncwd = "."\n')) == []


def test_servers_that_are_switched_off_are_not_looked_at(tmp_path: Path):
    assert problems(write(tmp_path, '[servers.a]\ncommand = "no-such-program"\nenabled = false\n')) == []


def test_included_files_are_looked_at_too(tmp_path: Path):
    write(tmp_path, '[telemetry]\ntraces = "off"\n[servers.a]\nmodule = "demo"\n', "more.toml")
    write(tmp_path, "[servers", "broken.toml")
    main = write(
        tmp_path,
        'include = ["more.toml", "broken.toml", "gone.toml"]\n[servers.a]\nmodule = "demo"\n',
    )
    found = problems(main)
    assert [(level, place) for level, place, _ in found] == [
        ("warning", "more.toml: [telemetry]"),
        ("error", "more.toml: [servers.a]"),
        ("error", "broken.toml"),
        ("error", "toolyard.toml"),
    ]
    assert "not used" in found[0][2]
    assert "defined twice" in found[1][2]
    assert "line 1" in found[2][2]
    assert "'gone.toml', which does not exist" in found[3][2]


def test_what_load_alone_refuses_is_found_as_well(tmp_path: Path):
    write(tmp_path, 'include = ["toolyard.toml"]\n', "other.toml")
    ((level, _, problem),) = problems(write(tmp_path, 'include = ["other.toml"]\n'))
    assert level == "error"
    assert "circular" in f"{_}{problem}"
