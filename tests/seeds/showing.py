"""Shows statements: starts the stages of a document and runs the transcripts in its order.

Owns when a stage begins (with the first statement on it) and ends (with the document).
"""

import shlex
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from scripts.bootstrap import missing_program
from tests.seeds.emulated import SERVICES, Service, say
from tests.seeds.shell import Shell
from tests.seeds.statements import Seed, Stage, Statement, Step


@dataclass(frozen=True)
class Shown:
    """A statement's step and what it really printed."""

    number: int
    statement: Statement
    step: Step
    output: str

    @property
    def fits(self) -> bool:
        return self.step.fits(self.output)


class Place:
    """A stage that has begun."""

    def __init__(self, shell: Shell, services: dict[str, Service], serves: bool, imports: str) -> None:
        self._shell = shell
        self._services = services
        self._serves = serves
        self._imports = imports

    @classmethod
    async def begin(cls, stage: Stage, folder: Path, stack: AsyncExitStack) -> "Place":
        _write(folder, {**stage.files, **stage.hidden})
        shell = Shell(folder)
        services: dict[str, Service] = {}
        for name in stage.emulators:
            services[name] = await SERVICES[name](stack, shell)
            shell.environment |= services[name].variables
        shell.environment |= stage.environment
        stack.push_async_callback(shell.close)
        return cls(shell, services, bool(stage.config), stage.imports)

    async def run(self, step: Step) -> str:
        if step.kind == "python":
            return await self._shell.python(f"{self._imports}\n{step.text}")
        words = shlex.split(step.text)
        if words[0] in self._services:
            said = await say(self._services[words[0]], words[1:])
            self._shell.environment |= self._services[words[0]].variables
            return said
        if self._serves and not self._shell.url and ("call" in words or "$GATEWAY" in step.text):
            await self._shell.serve()
        return await self._shell.run(step.text)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)


async def show(
    seed: Seed, folder: Path, only: Collection[int] = (), pending: bool = False
) -> AsyncIterator[Shown]:
    """Each step of the statements, with those that are pending if so wished, or of those that are named."""
    places: dict[str, Place] = {}
    async with AsyncExitStack() as stack:
        for number, statement in seed.numbered():
            if (number not in only) if only else (statement.pending and not pending):
                continue
            if statement.needs and missing_program(statement.needs):
                continue
            if statement.steps and statement.at not in places:
                stage = seed.stage(statement.at)
                places[stage.name] = await Place.begin(stage, folder / stage.name, stack)
            for step in statement.steps:
                yield Shown(number, statement, step, await places[statement.at].run(step))
