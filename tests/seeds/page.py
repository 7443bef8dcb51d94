"""Writes docs/seeds.md from the declarations: every statement with its transcript, and what is otherwise."""

from collections.abc import Iterator, Sequence

from tests.seeds.shell import ROOT
from tests.seeds.statements import Heading, Kind, Seed, Stage, Statement

PAGE = ROOT / "docs" / "seeds.md"
INTRODUCTION = """\
# Four documents, statement by statement

<!-- written by `python -m tests.seeds` -->

Toolyard began with four documents of other projects: a flow of Composio in a fork of Suna, the servers of frete-sistema, TiFlux on AWS Lambda, and the servers of universal_agent. Who comes from one of them finds here what it says, in our words and its order, and what shows it. A test runs every command and compares what it prints with this page, where `…` stands for anything.

{count}

In the transcripts
- `call` is `toolyard call --url $GATEWAY/mcp`, at a gateway that serves the configuration shown before; with `THREAD=x` it also has `--header x-toolyard-thread:x`, for a conversation of its own.
- `$URL` in a command is what was last printed for the member `url`, and so for other names.
- `composio`, `supabase`, `fork`, `news`, `zai`, `tiflux` and `lambda` speak to the emulators: `asked` prints what one was asked since the last time, `fails` and `expires` make trouble, `recovers` ends it.
- `gateway.log` and `serve.out` are what `toolyard serve` writes, `function.log` is a function's.
"""


def page(seeds: Sequence[Seed]) -> str:
    total = sum(1 for seed in seeds for _ in seed.numbered())
    otherwise = sum(1 for seed in seeds for _, one in seed.numbered() if one.otherwise)
    pending = sum(1 for seed in seeds for _, one in seed.numbered() if one.pending)
    count = f"Of {total} statements {total - otherwise - pending} hold as written"
    count += f", {pending} are being worked on" if pending else ""
    count += f", {otherwise} otherwise, each with its reason." if otherwise else "."
    return "\n".join(
        [INTRODUCTION.format(count=count), *(line for seed in seeds for line in _document(seed))]
    )


def _document(seed: Seed) -> Iterator[str]:
    yield f"## {seed.number}: {seed.title}\n"
    begun: set[str] = set()
    before = ""
    numbers = {id(statement): number for number, statement in seed.numbered()}
    for part in seed.parts:
        if isinstance(part, Heading):
            yield f"### {part.title}\n"
            continue
        if part.steps and part.at not in begun:
            begun.add(part.at)
            yield from _stage(seed.stage(part.at))
        elif part.steps and part.at != before:
            yield f"At `{part.at}` again:\n"
        before = part.at if part.steps else before
        yield from _statement(seed.number, numbers[id(part)], part)


def _stage(stage: Stage) -> Iterator[str]:
    yield f"At `{stage.name}`: {stage.about}\n"
    for name, text in stage.files.items():
        kind = name.rpartition(".")[2]
        yield f"```{kind}\n{text.rstrip()}\n```\n"


def _statement(seed: str, number: int, statement: Statement) -> Iterator[str]:
    mark = " *Otherwise:*" if statement.otherwise else ""
    beside = f" ({statement.note})" if statement.note else ""
    as_in = f" See {seed}.{statement.as_in}." if statement.as_in else ""
    why = f" {statement.otherwise}" if statement.otherwise else ""
    mark += " *In work.*" if statement.pending else ""
    yield f"**{seed}.{number}** {statement.says}{beside}{mark}{why}{as_in}\n"
    if statement.steps:
        yield "```console"
        for step in statement.steps:
            first, *more = step.text.split("\n")
            yield (">>> " if step.kind == "python" else "$ ") + first
            for line in more:
                yield _prompt(step.kind, line) + line
            if step.expected:
                yield step.expected
        yield "```\n"


def _prompt(kind: Kind, line: str) -> str:
    """Before a line that follows the first one of a command."""
    if kind != "python":
        return ""
    return "... " if line.startswith(" ") else ">>> "
