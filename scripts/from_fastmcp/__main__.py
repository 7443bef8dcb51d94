"""`python -m scripts.from_fastmcp`: forty programs of FastMCP on our kit, and the page's table of them."""

import argparse
import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..faithful.raw import (
    ERAS,
    LISTS,
    Request,
    Said,
    SilentError,
    difference,
    masked,
    opening,
    plain,
    requests,
    started,
    steady,
)
from ..faithful.sources import ROOT, Sources, pinned, say
from .answers import compared
from .programs import Draft, drawn

SEED = 31
EXAMPLES, TESTS = 10, 30
LEAST = 24
PLAYER = Path(__file__).with_name("player.py")
KEPT = ROOT / "build" / "from_fastmcp"
JOBS = 2
START_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """One program: how many answers are compared, and which differ, in words."""

    name: str
    requests: int
    different: dict[str, str]


class Stage:
    """A folder with one program as it is and with its imports changed, and what is noted of it."""

    def __init__(self, draft: Draft, folder: Path, sources: Sources, era: str) -> None:
        self._draft = draft
        self._sources = sources
        self._era = era
        self._folder = folder
        self._notes = folder / "notes.json"
        is_test = "::" in draft.name
        self._files = {
            kind: folder / kind / ("test_program.py" if is_test else "program.py")
            for kind in ("theirs", "ours")
        }
        for kind, file in self._files.items():
            file.parent.mkdir()
            file.write_text(draft.text if kind == "theirs" else draft.ours(), "utf-8")

    async def expected(self) -> dict[str, Any] | None:
        """What FastMCP says, which is kept for the next time; None if the program offers nothing."""
        kept = KEPT / self._era / (re.sub(r"\W+", "-", self._draft.name) + ".json")
        if not kept.is_file():
            said = await self._expected()
            kept.parent.mkdir(parents=True, exist_ok=True)
            notes = json.loads(self._notes.read_text("utf-8")) if said is not None else None
            kept.write_text(json.dumps({"said": said, "notes": notes}), "utf-8")
        found = json.loads(kept.read_text("utf-8"))
        self._notes.write_text(json.dumps(found["notes"]), "utf-8")
        return None if found["said"] is None else self._compared(found["said"])

    async def _expected(self) -> dict[str, Any] | None:
        first = await self._speak("theirs")
        if first is None or not json.loads(self._notes.read_text("utf-8"))["passed"]:
            return None
        if not any(first[method]["answer"].get("result", {}).get(member) for member, method in LISTS.items()):
            return None
        second = await self._speak("theirs")
        return steady(first, second) if second is not None and first.keys() == second.keys() else first

    async def got(self) -> dict[str, Any]:
        return self._compared(await self._speak("ours") or {})

    def _compared(self, said: dict[str, Any]) -> dict[str, Any]:
        return compared(said, self._draft.text)

    async def _speak(self, kind: str) -> dict[str, Any] | None:
        folder = self._folder / "home"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        command = (str(self._sources.python), str(PLAYER), kind, str(self._files[kind]), str(self._notes))
        ours = [str(ROOT / "src"), *(one for one in sys.path if one.endswith("site-packages"))]
        surroundings = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        surroundings |= {"ALSO": os.pathsep.join(ours)} if kind == "ours" else {}
        try:
            async with started(command, folder, surroundings, self._era) as peer:
                said = await self._converse(peer)
        except (SilentError, OSError):
            return None
        return masked(plain(said), {str(folder): "<folder>"})

    async def _converse(self, peer: Any) -> dict[str, Said]:
        start = opening(self._era)
        found = {start.label: await peer.ask(start.method, start.params, START_S)}
        if self._era == "legacy":
            peer.tell("notifications/initialized")
        listed: dict[str, list[Any]] = {}
        for member, method in LISTS.items():
            found[method] = await peer.ask(method, {})
            listed[member] = found[method].answer.get("result", {}).get(member, [])
        own = json.loads(self._notes.read_text("utf-8"))["requests"]
        asked = [Request(f"{method} {json.dumps(params)}", method, params) for method, params in own]
        for request in (*asked, *requests(listed, calls=True)):
            try:
                found[request.label] = await peer.ask(request.method, request.params)
            except SilentError:
                found[request.label] = Said("no answer")
                break
        return found


async def outcome(draft: Draft, sources: Sources, era: str) -> Outcome | None:
    with tempfile.TemporaryDirectory() as name:
        stage = Stage(draft, Path(name), sources, era)
        expected = await stage.expected()
        if expected is None:
            return None
        different = differences(expected, await stage.got())
        if different:  # what comes out otherwise the next time is a whim of the program
            again = differences(expected, await stage.got())
            different = {label: why for label, why in different.items() if label in again}
    return Outcome(draft.name, len(expected), different)


def differences(expected: dict[str, Any], got: dict[str, Any]) -> dict[str, str]:
    found = {label: difference(value, got.get(label, "nothing")) for label, value in expected.items()}
    return {label: why for label, why in found.items() if why}


async def outcomes(drafts: Iterator[Draft], count: int, sources: Sources, era: str) -> list[Outcome]:
    """Of the first `count` that offer something under FastMCP, in the order in which they were drawn."""
    found: list[Outcome] = []
    while len(found) < count:
        batch = list(itertools.islice(drafts, JOBS))
        if not batch:
            break
        several = await asyncio.gather(*(outcome(draft, sources, era) for draft in batch))
        for one in filter(None, several):
            found.append(one)
            if len(found) <= count:
                first = next(iter(one.different.items()), "the same")
                say(f"{len(found)}: {one.name}: {first}")
    return found[:count]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.from_fastmcp", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--tests", type=int, default=TESTS)
    parser.add_argument("--era", choices=ERAS, default="legacy")
    parser.add_argument("--only", help="only programs whose name contains this, and everything that differs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sources = pinned()
    folder = sources.folders["fastmcp"]
    found: list[Outcome] = []
    for examples, count in ((True, options.examples), (False, options.tests)):
        drafts = drawn(folder, options.seed, examples)
        if options.only:
            drafts = (draft for draft in drafts if options.only in draft.name)
        found += asyncio.run(outcomes(drafts, count, sources, options.era))
    print(table(found, bool(options.only)))


def table(found: list[Outcome], whole: bool) -> str:
    rows = ["| program of fastmcp | requests | |", "|---|---|---|"]
    for one in found:
        first = "; ".join(
            f"{label}: {why}" for label, why in list(one.different.items())[: None if whole else 1]
        )
        rows.append(f"| {one.name} | {one.requests} | {first or 'the same'} |")
    same = sum(not one.different for one in found)
    return "\n".join([*rows, "", f"{same} of {len(found)} give the same answers"])


if __name__ == "__main__":
    main()
