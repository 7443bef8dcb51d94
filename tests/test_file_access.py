"""What a user is told of a file or folder that cannot be used: who keeps it closed, and what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.audit.records import full_disk
from tests.modes import obey_modes
from toolyard.file_access import is_missing, refusal, try_writing

ASKED = """
import json, sys
from pathlib import Path
from toolyard.file_access import explain, is_missing, try_writing

told = []
for name in sys.argv[1:]:
    path = Path(name)
    try:
        try_writing(path.parent)
        path.read_bytes()
        told.append(None)
    except OSError as error:
        told.append([is_missing(path), *explain(error, path)])
print(json.dumps(told))
"""


def asked(*paths: Path) -> Any:
    """What a process is told that the modes of files bind: None if it may use a path."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=obey_modes,
    )
    return json.loads(done.stdout)


def test_the_part_of_a_path_is_named_that_keeps_a_user_out(tmp_path: Path):
    closed, shut, mine = tmp_path / "closed", tmp_path / "shut", tmp_path / "it's mine"
    for folder in (closed, shut, mine):
        folder.mkdir()
        (folder / "a file").write_text("")
    (mine / "a file").chmod(0)
    closed.chmod(0)
    shut.chmod(0o500)
    told = asked(closed / "below" / "a file", shut / "new" / "a file", mine / "a file", tmp_path / "x" / "y")
    for folder in (closed, shut):
        folder.chmod(0o700)
    assert told == [
        [False, f"the mode of {str(closed)!r} is 0000", f"chmod u+rwX {closed}"],
        [True, f"the mode of {str(shut)!r} is 0500", f"chmod u+rwX {shut}"],
        [
            False,
            f'the mode of "{mine}/a file" is 0000',
            f"""chmod u+rwX '{tmp_path}/it'"'"'s mine/a file'""",
        ],
        [True, f"{str(tmp_path / 'x' / 'y')!r}: No such file or directory", "choose another place"],
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to others")
def test_who_owns_what_is_said_with_the_command_that_gives_it_back(tmp_path: Path):
    state, place = tmp_path / "state", tmp_path / "srv"
    for folder in (state, place):
        folder.mkdir(mode=0o700)
        os.chown(folder, 4321, 4321)
    place.chmod(0o755)
    inside, new = asked(state / "catalogue" / "a.json", place / "toolyard" / "key")
    whose = f"{str(state)!r} belongs to 4321, and this user is root"
    give = f"if it is Toolyard's alone: chown -R root {state}; else choose another place"
    assert inside == [False, whose, give]
    whose = f"{str(place)!r} belongs to 4321, and this user is root"
    made = place / "toolyard"
    assert new == [
        True,
        f"{str(made)!r} cannot be made: {whose}",
        f"as 4321: install -d -m 700 -o root {made}",
    ]


def test_a_trial_finds_a_full_disk_and_leaves_nothing(tmp_path: Path):
    try_writing(tmp_path / "none" / "yet")
    with full_disk(100), pytest.raises(OSError, match="No space left") as full:
        try_writing(tmp_path)
    assert full.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert refusal(tmp_path) is None
    assert is_missing(tmp_path / "none")
