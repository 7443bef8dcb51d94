"""Cells, commands and files of the local workbench, in each kind of box."""

import asyncio
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.conftest import BOX_LIMITS, LIMITS, caller, ended, fails, need_box, says, workbenches
from toolyard.workbench import ToolRefusedError, WorkbenchError
from toolyard.workbench.box import BoxKit, BoxLimits, Interpreter, find_box
from toolyard.workbench.local import LocalLimits, LocalWorkbench, LocalWorkbenches


async def test_variables_live_on_and_the_last_value_comes_back(bench: LocalWorkbench):
    first = await bench.run("x = 40\nprint('hello')")
    assert (first.stdout, first.value, first.is_new) == ("hello\n", "", True)
    second = await bench.run("x + 2")
    assert (second.stdout, second.value, second.is_new) == ("", "42", False)
    assert second.session_id == first.session_id
    assert (await bench.run("_ + 1")).value == "43"


async def test_an_exception_comes_back_as_a_traceback_of_the_cell_alone(bench: LocalWorkbench):
    failed = await fails(bench, "x = 1\n\ndef f():\n    return 1 / 0\n\nf()")
    assert failed.fault == "exception"
    assert failed.error is not None
    assert failed.error.startswith("Traceback")
    assert "line 6, in <module>" in failed.error
    assert "return 1 / 0" in failed.error
    assert "guest.py" not in failed.error
    assert (await bench.run("x")).value == "1"
    wrong = str((await fails(bench, "def f(:")).error)
    assert "SyntaxError" in wrong
    assert "ast.py" not in wrong
    assert "SystemExit: 3" in str((await fails(bench, "raise SystemExit(3)")).error)


async def test_files_that_a_cell_wrote_are_named_and_can_be_read(bench: LocalWorkbench):
    made = await bench.run(
        "import os; os.makedirs('out'); open('out/a.csv', 'w').write('a,b\\n1,2\\n'); None"
    )
    assert [(Path(file.path).name, file.size) for file in made.files] == [("a.csv", 8)]
    assert (await bench.run("open('out/a.csv').read()")).files == []
    into = io.BytesIO()
    await bench.read_file(made.files[0].path, into)
    assert into.getvalue() == b"a,b\n1,2\n"


async def test_a_file_from_outside_is_there_for_code_that_may_change_it(bench: LocalWorkbench):
    await bench.write_file("in/data.txt", io.BytesIO(b"old"))
    await bench.run("x = 1")
    await bench.write_file("in/late.txt", io.BytesIO(b"late"))
    assert await says(bench, "print(open('in/data.txt').read(), open('in/late.txt').read())") == "old late\n"
    assert (await bench.run("open('in/late.txt', 'w').write('new'); None")).fault is None
    with pytest.raises(WorkbenchError) as refused:
        await bench.write_file("in/data.txt", io.BytesIO(b"x"), overwrite=False)
    assert refused.value.code == "exists"


async def test_a_long_output_is_cut_and_whole_in_a_file(bench: LocalWorkbench):
    result = await bench.run("for i in range(20000): print(i)")
    assert result.stdout.startswith("0\n1\n")
    assert result.stdout.endswith("19999\n")
    assert len(result.stdout) < LIMITS.output_bytes + 100
    assert result.stdout_file is not None
    into = io.BytesIO()
    await bench.read_file(result.stdout_file, into)
    assert into.getvalue() == "".join(f"{i}\n" for i in range(20000)).encode()
    assert await says(bench, f"print(len(open({result.stdout_file!r}).read()))") == "108890\n"


async def test_output_of_programs_and_of_stderr_is_there_too(bench: LocalWorkbench):
    code = "import os, sys\nos.system('echo from sh')\nprint('late', file=sys.stderr)\nos.write(1, b'raw\\n')"
    result = await bench.run(code)
    assert (result.stdout, result.stderr) == ("from sh\nraw\n", "late\n")


async def test_await_works_outside_of_functions(bench: LocalWorkbench):
    code = "import asyncio\nasync def f(): return 7\nawait asyncio.sleep(0)\nawait f()"
    assert (await bench.run(code)).value == "7"


async def test_a_command_runs_in_the_folder_of_the_session(bench: LocalWorkbench):
    await bench.run("open('a.txt', 'w').write('x'); import os; os.mkdir('d'); os.chdir('d')")
    done = await bench.bash("pwd; ls ..; echo oops >&2; exit 3")
    assert done.stdout.splitlines()[0].endswith("/d")
    assert done.stdout.splitlines()[1:] == ["a.txt", "d"]
    assert (done.stderr, done.exit_code, done.fault) == ("oops\n", 3, None)
    assert (await bench.bash("kill -9 $$")).exit_code == 137


async def test_input_is_empty(bench: LocalWorkbench):
    assert "EOFError" in str((await fails(bench, "input()")).error)


async def test_code_calls_tools_also_from_threads(bench: LocalWorkbench):
    both = asyncio.Barrier(2)

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        if name == "meet":
            await both.wait()  # only if two calls are under way at once
        if name == "bad":
            raise ToolRefusedError("no such tool")
        return {"name": name, **arguments}

    assert (await bench.run("run_tool('echo', a=[1, 'é'])['a']", call_tool=call)).value == "[1, 'é']"
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    print(sorted(r['n'] for r in pool.map(lambda n: run_tool('meet', n=n), [1, 2])))"
    )
    assert (await bench.run(code, call_tool=call)).stdout == "[1, 2]\n"
    failed = await fails(bench, "run_tool('bad')", call_tool=call)
    assert str(failed.error).endswith("ToolCallError: no such tool")
    caught = await bench.run("run_composio_tool('bad', {})", call_tool=call)
    assert caught.value == "({}, 'no such tool')"
    assert (await bench.run("run_composio_tool('x', {'data': 1})[0]['data']", call_tool=call)).value == "1"
    assert "no tools can be called" in str((await fails(bench, "run_tool('echo')")).error)


async def test_code_over_its_time_is_interrupted_and_keeps_its_variables(bench: LocalWorkbench):
    await bench.run("x = 5")
    for code in ("while True: pass", "import time; time.sleep(100)"):
        assert (await fails(bench, code, timeout=0.3)).fault == "timeout"
    stopped = await bench.bash("sleep 100", timeout=0.3)
    assert stopped.fault == "timeout"
    assert (await bench.run("x")).value == "5"


async def test_cancelling_interrupts_the_code(bench: LocalWorkbench):
    begun = asyncio.Event()

    async def call(name: str, arguments: dict[str, Any]) -> None:
        begun.set()

    code = "x = 6; run_tool('begun')\nwhile True: pass"
    running = asyncio.create_task(bench.run(code, call_tool=call))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await bench.run("x")).value == "6"


async def test_a_tool_call_ends_with_the_cell_that_made_it(bench: LocalWorkbench):
    ended = asyncio.Event()

    async def call(name: str, arguments: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert (await fails(bench, "run_tool('slow')", call_tool=call, timeout=0.5)).fault == "timeout"
    await ended.wait()


async def test_output_is_reported_while_code_runs(bench: LocalWorkbench):
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def on_output(stream: str, text: str) -> None:
        await seen.put(text)

    async def call(name: str, arguments: dict[str, Any]) -> str:
        return await seen.get()  # the code waits until its own output was seen

    result = await bench.run("print('half way')\nrun_tool('seen')", on_output=on_output, call_tool=call)
    assert result.value == "'half way\\n'"


async def test_sessions_have_their_own_variables_and_share_the_files(bench: LocalWorkbench):
    await bench.run("x = 1; open('f', 'w').write('shared')")
    other = await bench.run("open('f').read()", session="second")
    assert (other.value, other.session_id) == ("'shared'", "second")
    assert "NameError" in str((await fails(bench, "x", session="second")).error)
    for bad in ("../x", "a b", "x" * 200, "-x"):
        with pytest.raises(WorkbenchError, match="cannot be the name"):
            await bench.run("1", session=bad)


async def test_a_session_of_another_conversation_is_another_session(benches: LocalWorkbenches):
    first, second = benches.of(caller("ana", "one")), benches.of(caller("ana", "two"))
    await first.run("x = 1; open('f', 'w')", session="main")
    assert "NameError" in str((await fails(second, "x", session="main")).error)
    assert (await second.run("import os; os.listdir('.')", session="main")).value == "[]"


async def test_values_that_are_no_json_are_errors_of_the_code(bench: LocalWorkbench):
    async def echo(_name: str, arguments: dict[str, Any]) -> Any:
        return arguments

    await bench.run("x = 5")
    for value, error in (
        ("float('nan')", "ValueError"),
        (r"'\udcff'", "UnicodeEncodeError"),
        ("'x' * 17_000_000", "ValueError"),
    ):
        assert error in str((await fails(bench, f"run_tool('t', a={value})", call_tool=echo)).error)
    assert "ValueError: ?" in str((await fails(bench, r"raise ValueError('\udcff')")).error)
    assert len(str((await fails(bench, "raise ValueError('x' * 20_000_000)")).error)) <= 20_000
    assert (await bench.run("x")).value == "5"


async def test_code_may_use_what_a_tool_has_just_written(benches: LocalWorkbenches):
    bench = benches.of(caller("ana"))
    await bench.run("1")

    async def write(_name: str, _arguments: dict[str, Any]) -> None:
        await bench.write_file("new/a.txt", io.BytesIO(b"tea"))

    code = "run_tool('write'); open('new/b.txt', 'w'); open('new/a.txt').read()"
    assert (await bench.run(code, call_tool=write)).value == "'tea'"


async def test_nobody_reaches_the_session_or_the_files_of_another(benches: LocalWorkbenches):
    ana, bob = benches.of(caller("ana")), benches.of(caller("bob"))
    hers = await ana.run("secret = 'tea'; open('secret.txt', 'w').write(secret); import os; os.getcwd()")
    assert not bob.has(hers.session_id)
    assert "NameError" in str((await fails(bob, "secret", session=hers.session_id)).error)
    assert (await bob.run("import os; os.listdir('.')")).value == "[]"
    with pytest.raises(WorkbenchError) as missing:
        await bob.read_file("secret.txt", io.BytesIO())
    assert missing.value.code == "missing"
    agent = benches.of(caller("ana", agent="helper"))
    assert "NameError" in str((await fails(agent, "secret", session=hers.session_id)).error)
    assert (await agent.run("open('secret.txt').read()")).value == "'tea'"  # files are the owner's


async def test_paths_outside_are_refused(bench: LocalWorkbench):
    await bench.run("import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')")
    for path in ("/etc/passwd", "../x", "link", "fifo", "missing.txt"):
        with pytest.raises(WorkbenchError) as refused:
            await bench.read_file(path, io.BytesIO())
        assert refused.value.code in ("outside", "missing", "not_a_file"), path
    with pytest.raises(WorkbenchError):
        await bench.write_file("/etc/evil", io.BytesIO(b"x"))
    await bench.run("open('big', 'w').write('x' * 1000)")
    with pytest.raises(WorkbenchError) as refused:
        await bench.read_file("big", io.BytesIO(), max_bytes=999)
    assert refused.value.code == "too_large"


async def test_idle_sessions_end_and_busy_ones_do_not(folder: Path):
    need_box("bubblewrap")
    limits = LocalLimits(seconds=20, idle=0.2, warm=0)
    async with workbenches("bubblewrap", folder, limits) as benches:
        bench = benches.of(caller())
        await bench.run("x = 1; import time; time.sleep(0.6)")
        (first, *_) = benches.processes()
        await ended(first)
        assert "NameError" in str((await fails(bench, "x")).error)


async def test_one_caller_has_only_so_many_sessions(folder: Path):
    need_box("bubblewrap")
    limits = LocalLimits(seconds=20, sessions=3, sessions_of_one=2, warm=0)
    async with workbenches("bubblewrap", folder, limits) as benches:
        ana, bob = benches.of(caller("ana")), benches.of(caller("bob"))
        await bob.run("y = 1")
        await ana.run("x = 1", session="one")
        await ana.run("x = 2", session="two")
        await ana.run("x = 3", session="three")  # ends "one", the oldest of hers, and nothing of his
        assert (ana.has("one"), ana.has("two"), ana.has("three")) == (False, True, True)
        assert (await bob.run("y")).value == "1"


async def test_a_box_that_is_kept_ready_is_used_and_replaced(folder: Path):
    need_box("bubblewrap")
    async with workbenches("bubblewrap", folder, LocalLimits(seconds=20, warm=1)) as benches:
        for number in range(3):
            bench = benches.of(caller(f"user{number}"))
            assert (await bench.run("import os; os.listdir('.')")).value == "[]"


async def test_tables_and_pictures_come_back_as_such(folder: Path):
    need_box("bubblewrap")
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    limits = LocalLimits(seconds=120, warm=0)
    async with workbenches("bubblewrap", folder, limits, BoxLimits()) as benches:
        bench = benches.of(caller())
        table = await bench.run(
            "import pandas as pd\npd.DataFrame({'city': ['Lima', 'Faro'], 'n': [1, 2.5]}).set_index('city')"
        )
        assert table.error is None
        assert [(t.columns, t.rows, t.total) for t in table.tables] == [
            (["city", "n"], [["Lima", 1.0], ["Faro", 2.5]], 2)
        ]
        drawn = await bench.run(
            "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('t')\nplt.show()\n"
            "display(pd.DataFrame({'a': range(200)}))"
        )
        assert drawn.error is None
        assert [image.mime_type for image in drawn.images] == ["image/png"]
        assert drawn.images[0].data.startswith(b"\x89PNG")
        assert (drawn.tables[0].total, len(drawn.tables[0].rows)) == (200, 50)
        assert (await bench.run("1")).images == []


def test_a_python_below_tmp_is_found_though_a_box_has_its_own_tmp(folder: Path):
    need_box("bubblewrap")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    kit = BoxKit(is_ours=False)
    try:
        python = Interpreter.found(str(folder / "venv" / "bin" / "python"))
        assert find_box("bubblewrap", kit, BOX_LIMITS, python).name == "bubblewrap"
    finally:
        kit.close()
